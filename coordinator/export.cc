#include "coordinator/export.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/digest.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kWindowBytes = 4 * kObjectChunkBytesMax;
constexpr Duration kPatience = Duration::Seconds(10);
constexpr int64_t kStageBytesMax = int64_t{1} << 36;

}  // namespace

// Asks one live replica of the stage for its base parameters; on silence the next one, from the
// start.
void CoordinatorActor::ContinueExport(Context& context) {
  if (writing_job_ != 0) return;
  CoordinatorParts::Export& e = *export_;
  if (e.asking && context.now() - e.progress > kPatience) AskAnotherReplica(context);
  if (e.asking) return;
  std::vector<NodeId> replicas;
  for (const NodeId& node : LiveReplicas(*state_.plan, e.stage)) {
    if (state_.nodes.at(node).alive) replicas.push_back(node);
  }
  if (replicas.empty()) return CollectionFailed(context);
  e.replica = replicas[e.tried % replicas.size()];
  e.asking = true;
  e.progress = context.now();
  e.bytes.clear();
  e.requested = kObjectChunkBytesMax;
  // The first answer tells the size; the rest is asked for as answers come.
  context.Send(e.replica,
               ObjectRequest{absl::StrFormat("base/%d", e.stage), 0, kObjectChunkBytesMax});
}

// Nobody has what the stage learnt at last. With a checkpoint the run goes back to it, and comes to
// its end again.
void CoordinatorActor::CollectionFailed(Context& context) {
  const std::string why = absl::StrFormat(
      "no replica of stage %d is left, and its parameters were not collected yet", export_->stage);
  export_.reset();
  const bool may = options_.checkpoints != nullptr && !state_.checkpoints.empty();
  if (!may && !BeginsAnew()) {
    return GiveUp(context, why + ", and there is no checkpoint to go back to");
  }
  std::set<NodeId> dead(state_.plan->dead.begin(), state_.plan->dead.end());
  for (const StageAssignment& stage : state_.plan->stages) {
    for (const NodeId& node : stage.replicas) {
      if (!state_.nodes.at(node).alive) dead.insert(node);
    }
  }
  BeginRecovery(context, dead, why);
}

// The next duty does it: a fleet that has nothing yet is not asked in a tight circle.
void CoordinatorActor::AskAnotherReplica(Context&) {
  ++export_->tried;
  export_->asking = false;
}

void CoordinatorActor::On(Context& context, const NodeId& from, const ObjectChunk& message) {
  if (message.object.starts_with("checkpoint/")) return OnCheckpointChunk(context, from, message);
  if (message.object.starts_with("shard/")) {  // it says that it has it
    const auto is_here = [&](const NodeId& node) { return active_.contains(node); };
    const bool counts =
        is_here(from) && shard_holders_.Note(options_.shards, message.object, from, is_here);
    return void(refused_ += counts ? 0 : 1);
  }
  if (!export_ || !export_->asking || writing_job_ != 0 || from != export_->replica ||
      message.object != absl::StrFormat("base/%d", export_->stage)) {
    return void(++refused_);
  }
  CoordinatorParts::Export& e = *export_;
  if (message.total_bytes < 0) return AskAnotherReplica(context);  // it does not have it (yet)
  const auto have = static_cast<int64_t>(e.bytes.size());
  const int64_t size = SizeOf(message.values);
  if (message.offset != have || message.total_bytes > kStageBytesMax || size == 0 ||
      size > kObjectChunkBytesMax || have + size > message.total_bytes) {
    return void(++refused_);
  }
  e.progress = context.now();
  const auto values = View(message.values);
  e.bytes.insert(e.bytes.end(), values.begin(), values.end());
  const auto received = static_cast<int64_t>(e.bytes.size());
  while (e.requested < message.total_bytes && e.requested - received < kWindowBytes) {
    context.Send(from, ObjectRequest{message.object, e.requested, kObjectChunkBytesMax});
    e.requested += kObjectChunkBytesMax;
  }
  if (received == message.total_bytes) StageFetched(context);
}

void CoordinatorActor::StageFetched(Context& context) {
  CoordinatorParts::Export& e = *export_;
  const auto& stage = state_.plan->stages[static_cast<size_t>(e.stage)];
  const int64_t last_round = state_.RoundsCommitted(e.stage) - 1;
  // A stage of one replica averages with nobody: there is no digest to hold it to.
  const std::optional<Digest> agreed = state_.AgreedDigest(e.stage, last_round);
  if (agreed && DigestOf(e.bytes) != *agreed) {
    context.Event(
        "digest_mismatch",
        EventFields({{"stage", e.stage}, {"round", last_round}, {"node", e.replica.Short()}}));
    return AskAnotherReplica(context);
  }
  writing_ = std::make_shared<Writing>();
  writing_->last = static_cast<size_t>(e.stage) + 1 == state_.plan->stages.size();
  writing_job_ =
      context.Submit({"write model", Duration::Millis(100),
                      [writing = writing_, sink = options_.model, stage, ends = e.stage == 0,
                       bytes = std::make_shared<Bytes>(std::move(e.bytes))] {
                        writing->status = sink->AddStage(stage, ends, *bytes);
                        if (!writing->status.ok() || !writing->last) return;
                        const auto told = sink->Finish();
                        writing->status = told.status();
                        if (told.ok()) writing->told = *told;
                      }});
}

void CoordinatorActor::Exported(Context& context) {
  const auto writing = std::exchange(writing_, nullptr);
  if (!writing->status.ok()) {  // the nodes keep the model: the next serve collects it again
    stopping_ = true;
    context.Stop(1, "the model could not be written: " + ErrorText(writing->status) +
                        "; mend that and serve again, the nodes keep the model meanwhile");
    return;
  }
  if (!writing->last) {
    const int32_t next = export_->stage + 1;
    export_.emplace();
    export_->stage = next;
    ContinueExport(context);
    return;
  }
  export_.reset();
  Collected(context, writing->told);
}

void CoordinatorActor::Collected(Context& context, const std::string& told) {
  Record(context, MarkRecord("exported"));
  context.Event("exported", told);
  for (const NodeId& node : LiveNodes()) {
    if (greeted_.contains(node)) context.Send(node, Shutdown{"the run is finished; thank you"});
  }
  ReportStatus(context);
  context.Stop(0, "the run is finished");
}

}  // namespace skerry
