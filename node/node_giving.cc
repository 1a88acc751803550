// Giving a joiner what it lacks: deltas that are under way, and the state of the stage
// (docs/PROTOCOL.md, 17; docs/decisions/0031-joining.md).

#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "common/digests.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Chunks are digested between the tasks of training: in this many parts, or of so many bytes each
// where that is more.
constexpr int64_t kDigestParts = 32;
constexpr int64_t kDigestPartMin = 4 << 20;
constexpr double kDigestBytesPerS = 1e9;

int64_t ChunksAtATime(int64_t bytes) {
  return std::max(kDigestPartMin, bytes / kDigestParts) / kStateChunkBytes;
}

Bytes TableOf(const std::vector<Digest>& digests) {
  Bytes table;
  table.reserve(digests.size() * sizeof(Digest));
  for (const Digest& digest : digests) {
    table.insert(table.end(), digest.bytes.begin(), digest.bytes.end());
  }
  return table;
}

}  // namespace

// Own deltas of rounds that somebody lands who was not sent them: a new joiner, or all others of a
// round from which this node is absent no more.
void NodeActor::SendPending(Context& context, const PipelinePlan& before) {
  if (!rounds_) return;
  for (Delta& delta : rounds_->Own()) {
    const bool was_absent = IsAbsent(before, stage_, delta.round, options_.self);
    if (!was_absent || IsAbsent(plan_, stage_, delta.round, options_.self)) continue;
    delta.plan_version = plan_->version;
    for (const NodeId& holder : HearersOf(plan_, stage_)) {
      if (holder != options_.self) Send(context, holder, delta);
    }
  }
  SendToNewSpeakers(context, before);
  for (const Joiner& joiner : plan_->joining) {
    const Joiner* known = JoinerOf(before, joiner.node);
    const bool is_new = known == nullptr || known->since != joiner.since;
    if (!is_new || joiner.node == options_.self || !MayHaveState(joiner.node)) continue;
    for (Delta& delta : rounds_->Own()) {
      delta.plan_version = plan_->version;
      Send(context, joiner.node, std::move(delta));
    }
    SendOwnSums(context, joiner.node);
  }
}

// Whoever speaks for a cohort from now on, or for itself, may not have heard of what the one before
// was sent.
void NodeActor::SendToNewSpeakers(Context& context, const PipelinePlan& before) {
  if (!HasCohorts()) return;
  const std::vector<NodeId> own = CohortOf(plan_, options_.self);
  if (own.empty() || own.front() != options_.self) return;
  const std::vector<NodeId> heard = HearersOf(before, stage_);
  for (const NodeId& hearer : HearersOf(plan_, stage_)) {
    const bool is_new = std::find(heard.begin(), heard.end(), hearer) == heard.end();
    if (!is_new || hearer == options_.self || JoinerOf(plan_, hearer) != nullptr) continue;
    for (Delta& delta : rounds_->Own()) {
      if (IsAbsent(plan_, stage_, delta.round, options_.self)) continue;
      delta.plan_version = plan_->version;
      Send(context, hearer, std::move(delta));
    }
    SendOwnSums(context, hearer);
  }
}

// Of the shapes that rounds under way have now.
void NodeActor::SendOwnSums(Context& context, const NodeId& to) {
  for (int64_t round = rounds_->next(); IsShardedStage() && rounds_->IsAhead(round); ++round) {
    const DeltaSum* own = rounds_->OwnSum(round, ShapeOfRound(round).id);
    if (own == nullptr) continue;
    DeltaSum sum = *own;
    sum.plan_version = plan_->version;
    Send(context, to, std::move(sum));
  }
}

bool NodeActor::MayHaveState(const NodeId& node) const {
  const auto slot = SlotOf(plan_, node);
  return slot && slot->stage == stage_ && JoinerOf(plan_, node) != nullptr;
}

// Whoever joins this stage now, if anybody. It is given the version that was the newest committed
// when it was named: everybody hears of it before the commit that leads beyond, so that all
// replicas come through that version knowing that they are to keep it.
void NodeActor::TendGiving(Context& context) {
  const Joiner* joining = nullptr;
  for (const Joiner& joiner : plan_->joining) {
    const bool lacks = !joiner.IsFixed() && joiner.node != options_.self;
    if (lacks && MayHaveState(joiner.node)) joining = &joiner;
  }
  if (joining == nullptr) {
    giving_.reset();
    digest_job_ = 0;
    return;
  }
  if (!giving_ || giving_->to.node != joining->node || giving_->to.since != joining->since) {
    giving_.emplace();
    giving_->to = *joining;
    digest_job_ = 0;
  }
  if (!giving_->is_over && !giving_->kept.common && base_version() > joining->base_version) {
    giving_->is_over = true;
    SayRoot(context);
  }
}

// Between two heavy jobs no round lands: what is saved is of one version.
bool NodeActor::SaveForJoinersIfDue(Context& context) {
  const bool gives = state_ == State::kTraining || state_ == State::kFinished;
  if (!giving_ || giving_->is_over || giving_->kept.common || !gives || heavy_ != Heavy::kNone) {
    return false;
  }
  if (rounds_->next() != giving_->to.base_version) return false;
  heavy_ = Heavy::kSave;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(context, {"save state", work_->Cost(WorkKind::kApply),
                                       [work = work_.get(), results = results_] {
                                         auto state = work->SaveForJoiners();
                                         results->status = state.status();
                                         if (state.ok()) results->state = *std::move(state);
                                       }});
  return true;
}

void NodeActor::StateSaved(Context& context) {
  if (!giving_ || giving_->to.base_version != results_->state.version) return;
  giving_->kept = std::move(results_->state);
  DigestNextChunks(context);
}

void NodeActor::DigestNextChunks(Context& context) {
  const Payload& common = giving_->kept.common;
  const int64_t first = std::ssize(giving_->chunks);
  const int64_t count =
      std::min(ChunksAtATime(SizeOf(common)), StateChunks(SizeOf(common)) - first);
  digests_made_ = std::make_shared<std::vector<Digest>>();
  const double cost_s = static_cast<double>(count * kStateChunkBytes) / kDigestBytesPerS;
  digest_job_ = SubmitTracked(
      context,
      {"digest state", Duration::Seconds(cost_s), [common, digests = digests_made_, first, count] {
         std::vector<std::span<const uint8_t>> parts;
         for (int64_t i = first; i < first + count; ++i) {
           parts.push_back(PartOf(common, i * kStateChunkBytes, kStateChunkBytes));
         }
         *digests = DigestsOf(parts);
       }});
}

void NodeActor::StateDigested(Context& context) {
  digest_job_ = 0;
  if (giving_ && giving_->kept.common) {
    std::vector<Digest>& chunks = giving_->chunks;
    chunks.insert(chunks.end(), digests_made_->begin(), digests_made_->end());
    if (std::ssize(chunks) < StateChunks(SizeOf(giving_->kept.common))) {
      DigestNextChunks(context);
    } else {
      giving_->table = MakePayload(TableOf(chunks));
      giving_->root = DigestOf(std::span<const uint8_t>(*giving_->table));
      SayRoot(context);
    }
  }
  Advance(context);
}

void NodeActor::SayRoot(Context& context) {
  const StateRoot said{stage_, giving_->to.base_version, giving_->root, giving_->kept.inner_steps};
  Send(context, options_.coordinator, said);
  if (!giving_->is_over) Send(context, giving_->to.node, said);
}

void NodeActor::OnStateRequest(Context& context, const NodeId& from, const ObjectRequest& request) {
  if (giving_ && giving_->to.node == from && !giving_->root.IsZero()) {
    const int64_t version = giving_->to.base_version;
    const auto is = [&](const char* kind) {
      return request.object == StateObject(kind, stage_, version);
    };
    if (is("table")) return SendPart(context, from, request, giving_->table);
    if (is("state")) return SendPart(context, from, request, giving_->kept.common);
    if (is("moments")) return SendPart(context, from, request, giving_->kept.moments);
  }
  Send(context, from, ObjectChunk{request.object, request.offset, -1, nullptr});
}

}  // namespace skerry
