// One process's part in trials of a ring.
#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "common/rng.h"
#include "common/status.h"
#include "node/ring_trial.h"

namespace skerry {
namespace {

// What member `rank` brings: sums of such values depend on their order.
float Brought(uint64_t group, int32_t rank, int64_t index) {
  const uint64_t mixed =
      Mix64(Mix64(group) ^ Mix64(static_cast<uint64_t>(rank) << 40 ^ static_cast<uint64_t>(index)));
  const float unit = static_cast<float>(static_cast<int32_t>(mixed >> 32)) * 0x1p-31f;
  return index % 3 == 0 ? 1e3f * unit : unit;
}

// Of an operation's result the part that it defines.
std::span<const float> Defined(const GroupTrial& trial, int32_t rank,
                               std::span<const float> values) {
  if (trial.operation != GroupOperation::kReduceScatter) return values;
  const GroupPart part = PartOf(trial.values, static_cast<int32_t>(trial.members.size()), rank);
  return values.subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.size));
}

}  // namespace

const char* NameOf(GroupOperation operation) {
  switch (operation) {
    case GroupOperation::kAllReduce:
      return "all-reduce";
    case GroupOperation::kReduceScatter:
      return "reduce-scatter";
    case GroupOperation::kAllGather:
      return "all-gather";
    case GroupOperation::kBroadcast:
      return "broadcast";
  }
  return "";
}

double WireBytes(const GroupTrial& trial) {
  const auto members = static_cast<double>(trial.members.size());
  const double bytes = 4 * static_cast<double>(trial.values);
  if (trial.operation == GroupOperation::kBroadcast) return bytes;
  const double pass = bytes * (members - 1) / members;
  return trial.operation == GroupOperation::kAllReduce ? 2 * pass : pass;
}

std::vector<Digest> ExpectedDigests(const GroupTrial& trial) {
  const auto members = static_cast<int32_t>(trial.members.size());
  std::vector<float> values(static_cast<size_t>(trial.values));
  for (int32_t p = 0; p < members; ++p) {
    const GroupPart part = PartOf(trial.values, members, p);
    for (int64_t i = part.first; i < part.first + part.size; ++i) {
      float& value = values[static_cast<size_t>(i)];
      if (trial.operation == GroupOperation::kBroadcast) {
        value = Brought(trial.group, 0, i);
      } else if (trial.operation == GroupOperation::kAllGather) {
        value = Brought(trial.group, p, i);
      } else {
        value = Brought(trial.group, (p + 1) % members, i);
        for (int32_t k = 2; k <= members; ++k) value += Brought(trial.group, (p + k) % members, i);
      }
    }
  }
  std::vector<Digest> digests;
  for (int32_t r = 0; r < members; ++r) {
    const bool is_same = r > 0 && trial.operation != GroupOperation::kReduceScatter;
    digests.push_back(is_same ? digests.front() : DigestOf(Defined(trial, r, values)));
  }
  return digests;
}

void RingTrialPart::Begin(Context& context, const GroupTrial& trial) {
  trial_ = trial;
  done_ = 0;
  busy_ = true;
  digest_ = std::make_shared<Digest>();
  values_ = std::make_shared<std::vector<float>>();
  ring_ = std::make_unique<TransportRing>(
      TransportRingOptions{.group = trial.group, .members = trial.members},
      [this](Context& c, const absl::Status& status) { OnOperated(c, status); });
  ring_->Start(context);
  Submit(context, [values = values_, trial, rank = ring_->rank()] {
    values->resize(static_cast<size_t>(trial.values));
    for (int64_t i = 0; i < trial.values; ++i)
      (*values)[static_cast<size_t>(i)] = Brought(trial.group, rank, i);
  });
}

void RingTrialPart::Submit(Context& context, std::function<void()> work) {
  const double bytes = 4 * static_cast<double>(trial_.values);
  job_ = context.Submit({"ring trial", Duration::Seconds(bytes / 1e9), std::move(work)});
}

void RingTrialPart::Operate(Context& context) {
  if (IsBarrier()) {
    barrier_.assign(trial_.members.size(), 1);
    return ring_->AllReduce(context, barrier_);
  }
  switch (trial_.operation) {
    case GroupOperation::kAllReduce:
      return ring_->AllReduce(context, *values_);
    case GroupOperation::kReduceScatter:
      return ring_->ReduceScatter(context, *values_);
    case GroupOperation::kAllGather:
      return ring_->AllGather(context, *values_);
    case GroupOperation::kBroadcast:
      return ring_->Broadcast(context, *values_, 0);
  }
}

void RingTrialPart::OnOperated(Context& context, const absl::Status& status) {
  if (!busy_) return;  // the group ended after its trial
  if (!status.ok()) return Finish(context, status);
  const bool was_barrier = IsBarrier();
  ++done_;
  if (was_barrier && done_ > 3) return Finish(context, status);
  if (was_barrier) timed_since_ = context.now();
  if (done_ > 1) return Operate(context);
  Submit(context, [values = values_, digest = digest_, trial = trial_, rank = ring_->rank()] {
    *digest = DigestOf(Defined(trial, rank, *values));
  });
}

bool RingTrialPart::OnJobDone(Context& context, JobId job) {
  if (job != job_ || job_ == 0) return ring_ != nullptr && ring_->OnJobDone(context, job);
  job_ = 0;
  if (!busy_) return true;
  if (!ring_->status().ok()) {
    Finish(context, ring_->status());
    return true;
  }
  Operate(context);
  return true;
}

void RingTrialPart::Finish(Context& context, const absl::Status& status) {
  if (job_ != 0) return;  // it works on the values: when it is back
  busy_ = false;
  Outcome outcome{status, status.ok() ? *digest_ : Digest(), 0};
  if (status.ok()) outcome.seconds = (context.now() - timed_since_).seconds();
  const OnOutcome on_outcome = on_outcome_;
  on_outcome(context, outcome);
}

void RingTrialPart::Abort(Context& context, const absl::Status& why) {
  if (ring_ != nullptr) ring_->Abort(context, why);
}
bool RingTrialPart::OnMessage(Context& context, const NodeId& from, const Message& message) {
  return ring_ != nullptr && ring_->OnMessage(context, from, message);
}
bool RingTrialPart::OnTimer(Context& context, TimerId timer) {
  return ring_ != nullptr && ring_->OnTimer(context, timer);
}
void RingTrialPart::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (ring_ != nullptr) ring_->OnPeerRestarted(context, peer);
}

}  // namespace skerry
