#include "coordinator/sum_proofs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "coordinator/record_json.h"

namespace skerry {
namespace {

using nlohmann::json;

std::string HexOf(const Signature& signature) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(signature.data()), signature.size()});
}

Signature SignatureIn(const std::string& hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  Signature signature{};
  if (bytes.size() == signature.size()) std::copy(bytes.begin(), bytes.end(), signature.begin());
  return signature;
}

const Participant* Find(const std::vector<Participant>& of, const NodeId& node) {
  const auto it =
      std::find_if(of.begin(), of.end(), [&](const Participant& p) { return p.node == node; });
  return it == of.end() ? nullptr : &*it;
}

// Of what it holds of others' sums nothing is signed.
json StatementJson(const NodeId& by, const SumsHeld& held) {
  const Participant* own = Find(held.sums, by);
  return {{"shape", held.shape},
          {"sums", own == nullptr ? std::vector<Participant>() : std::vector<Participant>{*own}},
          {"sent", held.statement.sent},
          {"summed", held.statement.summed},
          {"states", held.statement.states},
          {"signature", HexOf(held.signature)}};
}

SumsHeld StatementIn(const SumCheck& check, const json& said) {
  SumsHeld held{check.stage, check.round, said.at("shape"), said.at("sums")};
  held.statement = {said.at("sent"), said.at("summed"), said.at("states")};
  held.signature = SignatureIn(said.at("signature"));
  return held;
}

}  // namespace

std::string ProofRecord(const SumProof& proof) {
  json statements = json::object();
  for (const auto& [node, held] : proof.statements)
    statements[node.Hex()] = StatementJson(node, held);
  return json{{"kind", "proof"},      {"node", proof.node}, {"found", proof.found},
              {"check", proof.check}, {"own", proof.own},   {"statements", std::move(statements)}}
      .dump();
}

SumProof ProofIn(const json& record) {
  SumProof proof{record.at("node"),
                 record.at("found"),
                 record.at("check"),
                 record.value("own", std::vector<int32_t>()),
                 {}};
  const json statements = record.value("statements", json::object());
  for (const auto& [name, said] : statements.items())
    proof.statements[json(name).get<NodeId>()] = StatementIn(proof.check, said);
  return proof;
}

SignedParts SignedIn(const SumProof& proof, const StatementCheck& is_signed) {
  const SumCheck& check = proof.check;
  SignedParts parts;
  for (const auto& [node, held] : proof.statements) {
    if (held.shape != check.shape || !is_signed(node, StatedBytes(node, held), held.signature))
      continue;
    const Participant* sent = Find(held.statement.sent, check.reducer);
    const Participant* as_checked = Find(check.summed, node);
    if (sent != nullptr && as_checked != nullptr && sent->digest == as_checked->digest &&
        sent->tokens == as_checked->tokens)
      ++parts.by_senders;
    const Participant* sum = Find(held.sums, node);
    if (node == check.reducer && sum != nullptr && sum->digest == check.sum)
      parts.by_reducer =
          held.statement.summed == check.summed && held.statement.states == check.states;
  }
  return parts;
}

std::string ShownFileName(const SumCheck& check) {
  return absl::StrFormat("stage%d-round%d-%s.shown", check.stage, check.round,
                         check.reducer.Short());
}

}  // namespace skerry
