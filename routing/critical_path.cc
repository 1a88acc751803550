#include "routing/critical_path.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/check.h"

namespace skerry {
namespace {

using Kind = TaskRecord::Kind;

constexpr double kSame = 1e-9;  // seconds: equal but for rounding

class Chain {
 public:
  Chain(const Workload& workload, const std::vector<TaskRecord>& records)
      : workload_(workload), records_(records), before_(records.size(), -1) {
    std::vector<int32_t> last(static_cast<size_t>(workload.slots()), -1);
    for (size_t i = 0; i < records.size(); ++i) {
      int32_t& previous = last[static_cast<size_t>(records[i].slot)];
      before_[i] = previous;
      previous = static_cast<int32_t>(i);
      if (records[i].kind != Kind::kStep) index_[KeyOf(records[i])] = static_cast<int32_t>(i);
    }
  }

  int32_t Last() const {
    const auto last =
        std::max_element(records_.begin(), records_.end(),
                         [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
    return static_cast<int32_t>(last - records_.begin());
  }

  // The task before it on its node, −1: none.
  int32_t Before(int32_t task) const { return before_[static_cast<size_t>(task)]; }

  // The task whose result it needs, −1: none.
  int32_t Source(int32_t task) const {
    const TaskRecord& record = records_[static_cast<size_t>(task)];
    const auto length = static_cast<int32_t>(
        workload_.microbatches[static_cast<size_t>(record.microbatch)].slots.size());
    switch (record.kind) {
      case Kind::kStart:
      case Kind::kStep:
        return -1;
      case Kind::kForward:
        return Find(record.microbatch, record.hop - 1, false);
      case Kind::kLoss:
        return Find(record.microbatch, length - 1, false);
      case Kind::kBackward:
        return record.hop + 1 < length ? Find(record.microbatch, record.hop + 1, true)
                                       : FindLoss(record.microbatch);
    }
    return -1;
  }

 private:
  enum Phase { kForwardPhase, kLossPhase, kBackwardPhase };
  using Key = std::pair<int32_t, std::pair<int32_t, int>>;

  static Key KeyOf(const TaskRecord& record) {
    const Phase phase = record.kind == Kind::kBackward ? kBackwardPhase
                        : record.kind == Kind::kLoss   ? kLossPhase
                                                       : kForwardPhase;
    return {record.microbatch, {record.hop, phase}};
  }
  int32_t At(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? -1 : found->second;
  }
  int32_t Find(int32_t microbatch, int32_t hop, bool backward) const {
    return At({microbatch, {hop, backward ? kBackwardPhase : kForwardPhase}});
  }
  int32_t FindLoss(int32_t microbatch) const { return At({microbatch, {0, kLossPhase}}); }

  const Workload& workload_;
  const std::vector<TaskRecord>& records_;
  std::vector<int32_t> before_;
  std::map<Key, int32_t> index_;
};

}  // namespace

StepParts PartsOf(const Workload& workload, const Fleet& fleet, const Placement& placement,
                  const std::vector<TaskRecord>& records) {
  SKERRY_CHECK(!records.empty());
  const Chain chain(workload, records);
  StepParts parts;
  struct Seconds {
    double all = 0, wire = 0;
  };
  std::map<std::pair<int32_t, int32_t>, Seconds> shares;
  const double per_step = 1.0 / workload.steps;
  int32_t task = chain.Last();
  while (task >= 0) {
    const TaskRecord& record = records[static_cast<size_t>(task)];
    const double computing = record.end_s - record.start_s;
    parts.computing_s += computing * per_step;
    shares[{record.slot, record.slot}].all += computing * per_step;
    const int32_t before = chain.Before(task);
    const int32_t source = chain.Source(task);
    const bool node_was_busy =
        before >= 0 && records[static_cast<size_t>(before)].end_s >= record.start_s - kSame;
    if (source < 0 || (node_was_busy && record.arrived_s < record.start_s - kSame)) {
      const double free = before >= 0 ? records[static_cast<size_t>(before)].end_s : 0;
      parts.waiting_s += (record.start_s - free) * per_step;
      task = before;
      continue;
    }
    const TaskRecord& sender = records[static_cast<size_t>(source)];
    const double under_way = record.start_s - sender.end_s;
    if (sender.slot != record.slot) {
      const size_t pair = fleet.Pair(placement[static_cast<size_t>(sender.slot)],
                                     placement[static_cast<size_t>(record.slot)]);
      const double latency = std::min(under_way, fleet.latency_s[pair]);
      const double wire = std::min(under_way - latency, fleet.TravelWire(pair));
      parts.latency_s += latency * per_step;
      parts.wire_s += wire * per_step;
      parts.waiting_s += (under_way - latency - wire) * per_step;
      Seconds& share = shares[{sender.slot, record.slot}];
      share.all += (latency + wire) * per_step;
      share.wire += wire * per_step;
    } else {
      parts.waiting_s += under_way * per_step;
    }
    task = source;
  }
  for (const auto& [ends, seconds] : shares) {
    parts.largest.push_back({ends.first, ends.second, seconds.all, seconds.wire});
  }
  std::stable_sort(parts.largest.begin(), parts.largest.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return parts;
}

}  // namespace skerry
