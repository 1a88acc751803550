#include "coordinator/export.h"

#include <algorithm>

#include "common/digest.h"
#include "common/status.h"
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
  Export& e = *export_;
  const auto replicas = LiveReplicas(*state_.plan, e.stage);
  if (replicas.empty()) {
    context.Stop(
        1, absl::StrFormat("no replica of stage %d is left: its parameters are lost", e.stage));
    return;
  }
  if (e.asking && context.now() - e.progress > kPatience) {
    ++e.replica;
    e.asking = false;
  }
  if (e.asking) return;
  e.asking = true;
  e.progress = context.now();
  e.bytes.clear();
  e.requested = kObjectChunkBytesMax;
  // The first answer tells the size; the rest is asked for as answers come.
  context.Send(replicas[e.replica % replicas.size()],
               ObjectRequest{absl::StrFormat("base/%d", e.stage), 0, kObjectChunkBytesMax});
}

void CoordinatorActor::On(Context& context, const NodeId& from, const ObjectChunk& message) {
  if (!export_ || writing_job_ != 0 ||
      message.object != absl::StrFormat("base/%d", export_->stage) ||
      StageOf(from) != export_->stage) {
    return void(++refused_);
  }
  Export& e = *export_;
  if (message.total_bytes < 0) {  // not there yet: the next duty asks again
    e.asking = false;
    return;
  }
  const auto have = static_cast<int64_t>(e.bytes.size());
  if (message.offset != have || message.total_bytes > kStageBytesMax ||
      have + SizeOf(message.values) > message.total_bytes) {
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
  Export& e = *export_;
  const auto& stage = state_.plan->stages[static_cast<size_t>(e.stage)];
  const int64_t last_round = state_.RoundsCommitted(e.stage) - 1;
  const auto agreed = state_.base_digests.find({e.stage, last_round});
  if (agreed != state_.base_digests.end() && DigestOf(e.bytes) != agreed->second) {
    context.Event("digest_mismatch",
                  absl::StrFormat(R"("stage":%d,"round":%d,"node":"export")", e.stage, last_round));
    ++e.replica;
    e.asking = false;
    ContinueExport(context);
    return;
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
  if (!writing->status.ok()) {
    context.Stop(1, "the model could not be written: " + ErrorText(writing->status));
    return;
  }
  if (!writing->last) {
    export_ = Export{export_->stage + 1, 0, 0, {}, context.now(), false};
    ContinueExport(context);
    return;
  }
  export_.reset();
  Record(context, MarkRecord("exported"));
  context.Event("exported", writing->told);
  for (const NodeId& node : LiveNodes()) {
    if (greeted_.contains(node)) context.Send(node, Shutdown{"the run is finished; thank you"});
  }
  ReportStatus(context);
  context.Stop(0, "the run is finished");
}

}  // namespace skerry
