// What the journal holds against a node, or for it: how it came, what was decided about it, and
// where its word differs from its stage's. For an operator who weighs a ban, and for the volunteer
// who asks why.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "coordinator/run_state.h"

namespace skerry {

// Fed every record of a journal in order.
class Evidence {
 public:
  explicit Evidence(const NodeId& node) : node_(node) {}

  // DataLoss as RunState::Apply.
  absl::Status Add(const std::string& record);

  // {"node", "banned" (why, or null), "records": [{"record", "what"}], "differs": [{"stage",
  // "round", "digest", "agreed", "agree" (how many replicas said it)}], "rounds_applied",
  // "rounds_screened"}
  nlohmann::json Json() const;

 private:
  // Where the node's digest is not the one that most replicas reported.
  void Compare();

  NodeId node_;
  RunState state_;
  int64_t number_ = 0;
  nlohmann::json records_ = nlohmann::json::array();
  nlohmann::json differs_ = nlohmann::json::array();
  int64_t applied_ = 0;
};

std::string EvidenceText(const nlohmann::json& evidence);

}  // namespace skerry
