// What the journal holds against a node, or for it: how it came, what was decided about it, and
// where its word differs from its stage's. For an operator who weighs a ban, and for the volunteer
// who asks why.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"
#include "coordinator/run_state.h"
#include "coordinator/sum_proofs.h"

namespace skerry {

// What proofs are held to; without it they are the coordinator's word.
struct ProofChecks {
  RunConfig config;
  StatementCheck is_signed;
  // What the reducer showed; nothing if it was not kept.
  std::function<std::optional<Bytes>(const SumCheck&)> shown;
};

// Fed every record of a journal in order.
class Evidence {
 public:
  explicit Evidence(const NodeId& node, std::optional<ProofChecks> checks = {})
      : node_(node), checks_(std::move(checks)) {}

  // DataLoss as RunState::Apply.
  absl::Status Add(const std::string& record);

  // {"node", "banned" (why, or null), "records": [{"record", "what", and of a proof "proof" (the
  // record itself), "signed_by_reducer", "signed_by_senders", "followed" ("false", "true", "not
  // kept", "cannot be followed")}], "differs": [{"stage",
  // "round", "digest", "agreed", "agree" (how many replicas said it)}], "rounds_applied",
  // "rounds_screened"}
  nlohmann::json Json() const;

 private:
  nlohmann::json Checked(const SumProof& proof) const;
  // Where the node's digest is not the one that most replicas reported.
  void Compare();

  NodeId node_;
  std::optional<ProofChecks> checks_;
  RunState state_;
  int64_t number_ = 0;
  nlohmann::json records_ = nlohmann::json::array();
  nlohmann::json differs_ = nlohmann::json::array();
  int64_t applied_ = 0;
};

std::string EvidenceText(const nlohmann::json& evidence);

}  // namespace skerry
