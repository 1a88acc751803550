#include "coordinator/evidence.h"

#include <algorithm>

#include "common/status.h"
#include "coordinator/record_json.h"
#include "coordinator/sum_following.h"

namespace skerry {
namespace {

using nlohmann::json;

// What a record about the node says, for people; "" if it is not worth a line.
std::string Told(const std::string& kind, const json& record) {
  if (kind == "admitted") return "admitted with ticket " + record.value("ticket", "");
  if (kind == "asked") return "asked for approval with ticket " + record.value("ticket", "");
  if (kind == "started") return "began to work";
  if (kind == "order") {
    const std::string why = record.value("why", "");
    return "the operator said " + record.value("do", "") + (why.empty() ? "" : ": ") + why;
  }
  if (kind == "sizes") return record.value("told", "");
  if (kind == "proof") {
    const json& check = record.at("check");
    return absl::StrFormat(
        "%s, proven: stage %d, round %d, pieces %s, sum %s, over %d messages (all digests: --json)",
        record.value("found", ""), check.value("stage", 0), check.value("round", 0),
        check.at("drawn").dump(), check.value("sum", "").substr(0, 16), check.at("summed").size());
  }
  if (kind != "life") return "";
  if (record.value("alive", false)) return "is back";
  if (!record.value("evicted", false)) return "is gone";
  return "put out: " + record.value("why", "");
}

}  // namespace

absl::Status Evidence::Add(const std::string& record) {
  ++number_;
  SKERRY_RETURN_IF_ERROR(state_.Apply(record));
  const json parsed = json::parse(record);
  const std::string kind = parsed.at("kind");
  const json& about = kind == "order" ? parsed.at("order") : parsed;
  if (about.value("node", "") != node_.Hex()) return absl::OkStatus();
  if (kind == "applied") ++applied_;
  const std::string told = Told(kind, about);
  if (told.empty()) return absl::OkStatus();
  records_.push_back({{"record", number_}, {"what", told}});
  if (kind == "proof") {
    records_.back()["proof"] = parsed;
    if (checks_) records_.back().update(Checked(ProofIn(parsed)));
  }
  if (kind == "life" && about.value("evicted", false)) Compare();
  return absl::OkStatus();
}

json Evidence::Checked(const SumProof& proof) const {
  const SignedParts parts = SignedIn(proof, checks_->is_signed);
  json checked = {{"signed_by_reducer", parts.by_reducer},
                  {"signed_by_senders", parts.by_senders},
                  {"followed", "not kept"}};
  auto shown = checks_->shown(proof.check);
  if (!shown) return checked;
  const auto follower =
      FollowerOf(checks_->config, checks_->config.model, state_, proof.check, proof.own);
  const SumVerdict verdict =
      follower ? follower->Follow(MakePayload(*std::move(shown))) : SumVerdict::kNotShown;
  checked["followed"] = verdict == SumVerdict::kFalse  ? "false"
                        : verdict == SumVerdict::kTrue ? "true"
                                                       : "cannot be followed";
  return checked;
}

void Evidence::Compare() {
  for (const auto& [key, reports] : state_.applied) {
    const auto own = reports.find(node_);
    const Digest agreed = *state_.AgreedDigest(key.first, key.second);
    if (own == reports.end() || own->second.base_digest == agreed) continue;
    const auto agree = std::count_if(reports.begin(), reports.end(), [&](const auto& report) {
      return report.second.base_digest == agreed;
    });
    differs_.push_back({{"stage", key.first},
                        {"round", key.second},
                        {"digest", own->second.base_digest.Hex()},
                        {"agreed", agreed.Hex()},
                        {"agree", agree}});
  }
}

json Evidence::Json() const {
  const auto banned = state_.admission.banned.find(node_);
  const auto screened = state_.rounds_screened.find(node_);
  return {{"node", node_},
          {"banned", banned == state_.admission.banned.end() ? json() : json(banned->second)},
          {"records", records_},
          {"differs", differs_},
          {"rounds_applied", applied_},
          {"rounds_screened", screened == state_.rounds_screened.end() ? 0 : screened->second}};
}

std::string EvidenceText(const json& evidence) {
  std::string text = "node " + evidence.value("node", "") + "\n";
  text += evidence.at("banned").is_null()
              ? "it is not put out of the run\n"
              : "put out of the run: " + evidence.at("banned").get<std::string>() + "\n";
  text +=
      absl::StrFormat("%d rounds applied, its delta screened in %d\n",
                      evidence.value("rounds_applied", 0), evidence.value("rounds_screened", 0));
  for (const json& record : evidence.at("records")) {
    text +=
        absl::StrFormat("  record %6d  %s\n", record.value("record", 0), record.value("what", ""));
    if (!record.contains("followed")) continue;
    text += absl::StrFormat(
        "                 the sum is %ssigned by its reducer, what it was made of by %d of %d; "
        "made "
        "again here: %s\n",
        record.value("signed_by_reducer", false) ? "" : "not ",
        record.value("signed_by_senders", 0), record["proof"]["check"]["summed"].size(),
        record.value("followed", ""));
  }
  for (const json& differs : evidence.at("differs")) {
    text += absl::StrFormat("  after round %d of stage %d it said %s, %d replicas %s\n",
                            differs.value("round", 0), differs.value("stage", 0),
                            differs.value("digest", "").substr(0, 16), differs.value("agree", 0),
                            differs.value("agreed", "").substr(0, 16));
  }
  return text;
}

}  // namespace skerry
