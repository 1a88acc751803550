#include "pipeline/plan/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/status.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

struct Candidates {
  RunConfig config;
  std::vector<int32_t> classes;
  const std::vector<MemoryOffer>& offers;
  std::vector<int64_t> worth;  // of the offers, in bytes; 0: no limit
  bool may_put_off = false;
  bool at_no_price = false;  // what they put off
};

// Nodes in the order in which stages take them.
enum class Preference : uint8_t { kSpeed, kMemory };

std::vector<int32_t> Ordered(const Candidates& nodes, Preference preference) {
  std::vector<int32_t> order(nodes.classes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto memory = [&](int32_t i) {
    const int64_t bytes = nodes.worth[static_cast<size_t>(i)];
    return bytes == 0 ? std::numeric_limits<int64_t>::max() : bytes;
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int32_t class_a = nodes.classes[static_cast<size_t>(a)];
    const int32_t class_b = nodes.classes[static_cast<size_t>(b)];
    if (preference == Preference::kMemory && memory(a) != memory(b)) return memory(a) > memory(b);
    return class_a != class_b ? class_a > class_b : memory(a) > memory(b);
  });
  return order;
}

// As even as possible. Stage 0 takes an extra one only if a step's microbatches still divide over
// its replicas, and never more than there are microbatches.
std::vector<int32_t> ReplicaCounts(int32_t nodes, int32_t stages, int32_t microbatches) {
  const int32_t base = nodes / stages;
  std::vector<int32_t> counts(static_cast<size_t>(stages), base);
  int32_t extra = nodes % stages;
  if (stages > 1 && counts[0] > microbatches) {
    extra += counts[0] - microbatches;
    counts[0] = microbatches;
  } else if (extra > 0 && (microbatches % (base + 1) == 0 || microbatches % base != 0) &&
             base < microbatches) {
    ++counts[0];
    --extra;
  }
  for (int32_t i = 0; i < extra; ++i) ++counts[static_cast<size_t>(1 + i % (stages - 1))];
  return counts;
}

struct StageCost {
  double fixed = 0;      // of the head
  double per_layer = 0;  // already divided by replicas and speed, weighted by participation
  int32_t layers_max = 0;
  int32_t layers = 0;
  std::vector<double> repeated;  // of recomputation, by the number of layers; empty: none
  double After(int32_t more) const {
    const int32_t then = layers + more;
    return fixed + per_layer * then + (repeated.empty() ? 0 : repeated[static_cast<size_t>(then)]);
  }
};

// The most layers that fit what nodes of each kind offer, 0 if not even the fewest do.
int32_t LayersThatFit(const RunConfig& config, const std::vector<MemoryOffer>& offers,
                      bool holds_ends, const StageHolds& given, bool may_put_off) {
  int32_t low = 0;
  int32_t high = config.model.layers;
  const auto fits = [&](int32_t layers) {
    return std::all_of(offers.begin(), offers.end(), [&](const MemoryOffer& offer) {
      if (may_put_off) return CanHold(config, layers, holds_ends, given, offer);
      MemoryOffer enough = offer;
      enough.device_bytes = 0;
      if (offer.HasHost()) enough.host_bytes = INT64_MAX;
      const StageHolds holds = FittedHolds(config, layers, holds_ends, given, enough);
      return MemoryIn(config, layers, holds_ends, holds, offer).FitsIn(offer);
    });
  };
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low - low % config.model.layers_together();
}

// By the number of layers, of who repeats, or waits, the most.
std::vector<double> RepeatedWork(const RunConfig& config, const std::vector<MemoryOffer>& offers,
                                 bool holds_ends, const StageHolds& holds, int32_t layers_max) {
  std::vector<double> work = {0};
  for (int32_t layers = 1; layers <= layers_max; ++layers) {
    double most = 0;
    for (const MemoryOffer& offer : offers) {
      const StageHolds fitted = FittedHolds(config, layers, holds_ends, holds, offer);
      most = std::max(most, PutOffShare(config, layers, holds_ends, fitted, offer));
    }
    work.push_back(most * layers * LayerForwardFlops(config));
  }
  return work;
}

std::vector<StageCost> CostsOf(const Candidates& nodes, const std::vector<int32_t>& order,
                               const std::vector<int32_t>& counts) {
  const RunConfig& config = nodes.config;
  const auto stages = static_cast<int32_t>(counts.size());
  std::vector<StageCost> costs;
  size_t next = 0;
  for (int32_t stage = 0; stage < stages; ++stage) {
    const int32_t replicas = counts[static_cast<size_t>(stage)];
    int32_t slowest = std::numeric_limits<int32_t>::max();
    std::vector<MemoryOffer> offers;
    for (int32_t r = 0; r < replicas; ++r, ++next) {
      const auto node = static_cast<size_t>(order[next]);
      slowest = std::min(slowest, nodes.classes[node]);
      offers.push_back(nodes.offers[node]);
    }
    const std::vector<MemoryOffer> least = LeastOffers(offers);
    const double speed = std::pow(kSpeedClassRatio, slowest);
    const double share = Participation(config, stages, stage) / (replicas * speed);
    const StageHolds holds = HoldsOf(config, counts[0], replicas, stage == 0);
    costs.push_back(
        {.fixed = stage == 0 ? share * HeadWork(config) : 0.0,
         .per_layer = share * LayerWork(config),
         .layers_max = LayersThatFit(config, least, stage == 0, holds, nodes.may_put_off),
         .repeated = {}});
    if (!nodes.may_put_off) continue;
    StageCost& cost = costs.back();
    cost.repeated = RepeatedWork(config, least, stage == 0, holds, cost.layers_max);
    for (double& work : cost.repeated) work *= share;
    if (!nodes.at_no_price) continue;
    while (cost.repeated[static_cast<size_t>(cost.layers_max)] > 0)
      cost.layers_max -= config.model.layers_together();
  }
  return costs;
}

// One layer each, or as many as stay together, then every further one where the result is fastest:
// for costs that grow with layers this minimises the slowest stage.
absl::Status DealLayers(const TransformerConfig& model, std::vector<StageCost>& costs) {
  const int32_t layers = model.layers, together = model.layers_together();
  int32_t room = 0;
  for (const StageCost& cost : costs) room += cost.layers_max;
  for (size_t stage = 0; stage < costs.size(); ++stage) {
    costs[stage].layers = together;
    if (costs[stage].layers_max >= together) continue;
    return ResourceExhausted(
        "stage %d of %d does not fit the memory of its nodes with %s", stage, costs.size(),
        together == 1
            ? "a single layer"
            : absl::StrFormat("the %d layers that [model] ladder keeps together", together));
  }
  if (room < layers) {
    return ResourceExhausted("the nodes have memory for %d of %d layers in %d stage%s", room,
                             layers, costs.size(), costs.size() == 1 ? "" : "s");
  }
  const auto units = static_cast<int32_t>(costs.size());
  for (int32_t left = model.stages_max() - units; left > 0; --left) {
    StageCost* best = nullptr;
    for (StageCost& cost : costs) {
      if (cost.layers >= cost.layers_max) continue;
      // Sums that differ by rounding only must not decide.
      if (best == nullptr || cost.After(together) < best->After(together) * (1 - 1e-9))
        best = &cost;
    }
    best->layers += together;
  }
  return absl::OkStatus();
}

absl::StatusOr<Partition> Cut(const Candidates& nodes, int32_t stages, Preference preference) {
  Partition partition;
  partition.nodes = Ordered(nodes, preference);
  const std::vector<int32_t> counts =
      ReplicaCounts(static_cast<int32_t>(nodes.classes.size()), stages,
                    nodes.config.pipeline.microbatches_per_step);
  std::vector<StageCost> costs = CostsOf(nodes, partition.nodes, counts);
  SKERRY_RETURN_IF_ERROR(DealLayers(nodes.config.model, costs));
  int32_t first = 0;
  for (size_t stage = 0; stage < costs.size(); ++stage) {
    const int32_t last = first + costs[stage].layers;
    partition.stages.push_back({first, last, counts[stage]});
    first = last;
  }
  return partition;
}

struct Thrift {
  bool may_put_off;
  Offload offload;
  bool at_no_price = false;
};

// From the cheapest on; those of one list are tried before there are more stages. Parking that is
// hidden is as good as memory, or more of that would make runs slower. The cut knows the price of
// recomputing and parking but not of offload, so layers that a node holds only by offload are dealt
// where the others do not help.
std::vector<std::vector<Thrift>> ThriftsOf(const PipelineConfig& pipeline) {
  std::vector<std::vector<Thrift>> thrifts = {{{false, pipeline.offload}}};
  const bool may_offload = pipeline.offload == Offload::kAuto;
  const Offload without = may_offload ? Offload::kNever : pipeline.offload;
  const bool parks = pipeline.offload_activations == Offload::kAuto;
  if (parks && pipeline.recompute != Recompute::kAlways) {
    thrifts.front().push_back({true, without, true});
  }
  if (parks || pipeline.recompute == Recompute::kAuto) thrifts.push_back({{true, without}});
  if (may_offload) thrifts.push_back({{true, Offload::kAuto}});
  return thrifts;
}

absl::StatusOr<Partition> Cut(Candidates& nodes, int32_t stages, const Thrift& thrift) {
  nodes.may_put_off = thrift.may_put_off;
  nodes.at_no_price = thrift.at_no_price;
  nodes.config.pipeline.offload = thrift.offload;
  auto partition = Cut(nodes, stages, Preference::kSpeed);
  return partition.ok() ? std::move(partition) : Cut(nodes, stages, Preference::kMemory);
}

absl::Status MemoryShortage(const Candidates& nodes, int32_t stages, const absl::Status& last) {
  const auto worth = std::max_element(nodes.worth.begin(), nodes.worth.end());
  const MemoryOffer& most = nodes.offers[static_cast<size_t>(worth - nodes.worth.begin())];
  const int32_t layers = nodes.config.model.layers_together();
  const StageHolds holds =
      LeastHolds(nodes.config, layers, HoldsOf(nodes.config, 1, 1, true), most).front();
  const NodeMemory least = MemoryIn(nodes.config, layers, true, holds, most);
  const MemoryOffer needs = {least.each.needed(), least.host.needed()};
  const auto lacks = [](int64_t needed, int64_t offered) {
    return std::max<int64_t>(0, needed - offered);
  };
  const int64_t lacking =
      lacks(needs.device_bytes, most.device_bytes) + lacks(needs.host_bytes, most.host_bytes);
  return ResourceExhausted(
      "no memory for this model on these nodes: %s; the smallest stage 0 (%s, embedding, "
      "head, %d microbatches in flight, a margin of %.0f %%) needs %s and the largest node offers "
      "%s%s; %d stage%s tried last. Add nodes or memory, or lower "
      "sequences_per_microbatch, in_flight or the model.",
      ErrorText(last), layers == 1 ? "one layer" : absl::StrFormat("%d layers", layers),
      holds.microbatches, 100 * kMemoryMargin, OfferText(needs), OfferText(most),
      lacking > 0 ? ", " + BytesText(lacking) + " too little" : ", which is enough for that alone",
      stages, stages == 1 ? " was" : "s were");
}

}  // namespace

std::vector<int32_t> SpeedClasses(const std::vector<double>& gflops) {
  std::vector<double> sorted = gflops;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const double median = n == 0 ? 1 : std::sqrt(sorted[(n - 1) / 2] * sorted[n / 2]);
  std::vector<int32_t> classes;
  for (const double speed : gflops) {
    classes.push_back(
        static_cast<int32_t>(std::lround(std::log(speed / median) / std::log(kSpeedClassRatio))));
  }
  return classes;
}

int32_t AutoStages(int32_t nodes, int32_t stages_max) {
  const int32_t wanted =
      nodes <= 8 ? nodes / 2 : static_cast<int32_t>(4.0 * std::sqrt(nodes / 8.0) + 1e-9);
  return std::max(1, std::min(wanted, stages_max));
}

double Participation(const RunConfig& config, int32_t stages, int32_t stage) {
  return stage == 0 || stages == 1 ? 1.0 : 1.0 - config.pipeline.skip_ratio;
}

absl::StatusOr<Partition> MakePartition(const RunConfig& config, const std::vector<double>& gflops,
                                        const std::vector<MemoryOffer>& offers) {
  const auto count = static_cast<int32_t>(gflops.size());
  const int32_t stages_max = config.model.stages_max();
  const bool automatic = config.pipeline.stages == 0;
  const int32_t wanted = automatic ? AutoStages(count, stages_max) : config.pipeline.stages;
  if (wanted < 1 || wanted > count) {
    return InvalidArgument(
        "%d stages need at least as many nodes, there are %d: %d more, or lower "
        "pipeline.stages",
        wanted, count, wanted - count);
  }
  if (wanted > stages_max) {
    return InvalidArgument(
        "%d stages need at least %s each, the model has %d: lower "
        "pipeline.stages or use a deeper model",
        wanted,
        config.model.ladder > 1 ? absl::StrFormat("%d layers", config.model.ladder) : "one layer",
        config.model.layers);
  }
  Candidates nodes{config, SpeedClasses(gflops), offers, {}};
  for (const MemoryOffer& offer : offers) nodes.worth.push_back(WorthOf(config, offer));
  const int32_t most = automatic ? std::min(count, stages_max) : wanted;
  absl::Status last;
  for (const std::vector<Thrift>& thrifts : ThriftsOf(config.pipeline)) {
    for (int32_t stages = wanted; stages <= most; ++stages) {
      for (const Thrift& thrift : thrifts) {
        auto partition = Cut(nodes, stages, thrift);
        if (partition.ok()) return partition;
        last = partition.status();
      }
    }
  }
  return MemoryShortage(nodes, most, last);
}

}  // namespace skerry
