// What a coordinator is made of, and what it reads from and writes to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/sum_proofs.h"
#include "wire/message/message.h"

namespace skerry {

// Reads parts of what nodes may ask for: "shard/FILE".
class ObjectSource {
 public:
  virtual ~ObjectSource() = default;
  // Quick (memory-mapped). total_bytes −1 if there is no such object.
  virtual ObjectChunk Read(const ObjectRequest& request) = 0;
};

// Takes the trained model, stage by stage; Finish writes it. Called on the device thread.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  virtual absl::Status AddStage(const StageAssignment& stage, bool holds_ends,
                                const Bytes& base) = 0;
  // Returns what to tell people: where the model is.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

struct AdmittedTicket {
  std::string id;
  int64_t uses = 1;
  bool asks = false;  // whoever brings it waits for the operator's approval
};

struct CoordinatorOptions {
  RunConfig config;
  RunId run;
  std::vector<ShardName> shards;
  std::vector<std::string> journal;            // of earlier lives
  std::vector<std::string> coordinators = {};  // as Welcome says them
  std::function<absl::StatusOr<AdmittedTicket>(const std::string& ticket)> verify_ticket;
  ObjectSource* objects = nullptr;
  ExportSink* model = nullptr;
  std::function<void(const std::string& json)> status;  // once a second; may be empty
  int32_t probes_at_once = 0;  // in the whole run; 0: as many as there are disjoint pairs of nodes
  // Nodes are dialled back before others are told of them (ops_reach.cc); else they are believed.
  bool tests_reach = false;
  // Near links that are slower than others are measured again (LinkEstimator::Doubtful): what holds
  // up machines may have been in their way. Off where machines take no time.
  bool doubts_uneven = false;
  // Who shares a line is measured before the plan (line_testing.h); else near nodes are taken to.
  bool tests_lines = false;
  // Of more active nodes than that not everybody is told of everybody (acquaintances.h).
  size_t introduces_all_max = 40;
  // Whose tensors codec tables are of, where nodes train another model than config.model
  // (simulations do).
  std::optional<TransformerConfig> trained_model = {};
  // How the coordinator itself follows a sum that is doubted; empty: by its arithmetic
  // (localsgd/sum_proof.h), of which simulations without numbers have none.
  std::function<SumVerdict(const SumCheck&, const Payload& shown)> follow_sum = {};
  // Whether a node's statement is signed by it (coordinator/sum_proofs.h); empty: none is wanted.
  StatementCheck is_signed = {};
  // Keeps what a reducer showed of a sum that is false; on the device thread.
  std::function<void(const SumCheck&, const Payload& shown)> keep_shown = {};
  CheckpointStore* checkpoints = nullptr;  // none: none are made, and a lost stage stays lost
  std::function<std::string(const RunConfig&)> format_config = {};  // for their manifests
  bool plans_quickly = false;  // PlannerInput::is_quick: simulations of faults
};

}  // namespace skerry
