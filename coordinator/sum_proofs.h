// Proofs about sums of sharded rounds, as the journal keeps them: who lied, what was said by whom
// before it was drawn, and their signatures, so that whoever holds the journal can follow it
// without the coordinator's word (docs/decisions/0048-checked-sums.md). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/ids.h"
#include "wire/message/message.h"

namespace skerry {

// Whether `signature` over `statement` is `by`'s (IsStatementOf, wire/identity.h).
using StatementCheck = std::function<bool(const NodeId& by, std::span<const uint8_t> statement,
                                          const Signature& signature)>;

struct SumProof {
  NodeId node;        // who lied
  std::string found;  // "false sum", "false accusation"
  SumCheck check;
  std::vector<int32_t> own;               // the pieces that the reducer sums
  std::map<NodeId, SumsHeld> statements;  // of the round, by who said it
};

std::string ProofRecord(const SumProof& proof);
// Throws nlohmann's exceptions. What older coordinators wrote has no statements.
SumProof ProofIn(const nlohmann::json& record);

// Of what the check says, what its sayers have signed.
struct SignedParts {
  bool by_reducer = false;  // the sum, what it summed, what it had left over before and after
  int64_t by_senders = 0;   // what each sent to sum, the reducer included
};
SignedParts SignedIn(const SumProof& proof, const StatementCheck& is_signed);

// Of what was shown of it: its file's name in DIR/proofs.
std::string ShownFileName(const SumCheck& check);

}  // namespace skerry
