#include "pipeline/plan/outer_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/round_clock.h"
#include "pipeline/plan/exchange.h"
#include "routing/cost_model.h"
#include "routing/delta_bits.h"
#include "routing/placement.h"

namespace skerry {
namespace {

constexpr int64_t kInnerSteps[] = {8, 16, 32, 64, 128};
constexpr DeltaCodec kRichToStarved[] = {DeltaCodec::kInt8, DeltaCodec::kInt4,
                                         DeltaCodec::kTernary};
constexpr int64_t kOverlapParts[] = {16, 8, 4, 2, 1};  // δ = τ / part
constexpr double kWaitedPart = 16;  // of a round, where the operator wants δ = 0

std::string DecimalText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return absl::StrFormat("%.2f GB", value * 1e-9);
  return absl::StrFormat("%.3g MB", value * 1e-6);
}

struct Candidate {
  int64_t inner_steps = 1;
  DeltaCodec codec = DeltaCodec::kNone;
};

int64_t FragmentsOf(OuterConfig outer, const Candidate& candidate) {
  outer.inner_steps = candidate.inner_steps;
  return FragmentsOf(outer);
}

// How many steps hide the exchange: a power of two, which noise rarely changes. The messages of a
// span that follow one another must fit into it, or they are late by more every time.
double StepsNeeded(const OuterConfig& outer, const std::vector<Exchange>& exchanges,
                   const Candidate& candidate, double step_s) {
  const int64_t fragments = FragmentsOf(outer, candidate);
  const double bits = CodecBitsOf(outer, candidate.codec);
  const auto steps = [&](double seconds) {
    return std::exp2(std::ceil(std::log2(kOuterSafety * seconds / step_s)));
  };
  const Exchange* slowest = Slowest(exchanges, bits, fragments);
  if (slowest == nullptr) return 0;
  if (fragments == 1) {
    // Where it is a guess that a line is shared, what it takes then is an upper bound, as flows may
    // be held by less than the line: it never asks for δ = τ, where replicas hold two rounds of
    // messages.
    double alone = 0;
    for (const Exchange& exchange : exchanges) {
      alone = std::max(alone, steps(exchange.AloneSeconds(bits)));
    }
    const double half = std::floor(static_cast<double>(candidate.inner_steps) / 2);
    return std::max(alone, std::min(steps(slowest->Seconds(bits, 1)), half));
  }
  const bool fits = steps(slowest->LineSeconds(bits)) <= static_cast<double>(candidate.inner_steps);
  return fits ? steps(slowest->Seconds(bits, fragments)) : std::numeric_limits<double>::infinity();
}

// What costs loss least comes first.
std::vector<Candidate> Candidates(const RunConfig& config) {
  const OuterConfig& outer = config.outer;
  std::vector<int64_t> inner_steps = {outer.inner_steps};
  if (outer.inner_steps == 0) inner_steps = InnerStepsGrid(config.steps);
  std::vector<Candidate> candidates;
  for (const int64_t tau : inner_steps) {
    if (outer.tier != OuterTier::kAuto) {
      candidates.push_back({tau, outer.codec});
      continue;
    }
    for (const DeltaCodec codec : kRichToStarved) candidates.push_back({tau, codec});
  }
  if (outer.tier != OuterTier::kAuto || outer.residual != ResidualPlace::kWeights) {
    return candidates;
  }
  if (CodecBitsOf(outer, DeltaCodec::kLowRank) < DeltaBitsPerValue(DeltaCodec::kTernary)) {
    for (const int64_t tau : inner_steps) candidates.push_back({tau, DeltaCodec::kLowRank});
  }
  return candidates;
}

// The smallest δ of at most τ / `part` that lasts `needed` steps; −1: none.
int64_t SmallestOverlap(int64_t inner_steps, double needed, int64_t part) {
  for (const int64_t p : kOverlapParts) {
    const int64_t overlap = std::max<int64_t>(1, inner_steps / p);
    if (p >= part && static_cast<double>(overlap) >= needed) return overlap;
  }
  return -1;
}

// δ for a candidate if that is all right as it is; −1: something poorer should be tried.
int64_t OverlapOf(const OuterConfig& given, const Candidate& candidate, double needed) {
  if (given.mode == OuterMode::kCo2) {
    return needed <= static_cast<double>(candidate.inner_steps) ? candidate.inner_steps : -1;
  }
  if (given.overlap_steps < 0) return SmallestOverlap(candidate.inner_steps, needed, kWantedPart);
  const double hides = given.overlap_steps > 0
                           ? static_cast<double>(given.overlap_steps)
                           : static_cast<double>(candidate.inner_steps) / kWaitedPart;
  return hides >= needed ? given.overlap_steps : -1;
}

}  // namespace

bool IsOuterOpen(const OuterConfig& outer) {
  return outer.inner_steps == 0 || outer.overlap_steps < 0 || outer.tier == OuterTier::kAuto;
}

std::vector<int64_t> InnerStepsGrid(int64_t steps) {
  std::vector<int64_t> grid;
  for (int64_t tau : kInnerSteps) {
    while (steps % tau != 0) --tau;
    if (grid.empty() || grid.back() < tau) grid.push_back(tau);
  }
  return grid;
}

OuterConfig FirstOuter(const RunConfig& config) {
  OuterConfig outer = config.outer;
  const Candidate first = Candidates(config).front();
  outer.inner_steps = first.inner_steps;
  outer.codec = first.codec;
  outer.tier = OuterTier::kCustom;
  if (outer.mode == OuterMode::kCo2) outer.overlap_steps = outer.inner_steps;
  if (outer.overlap_steps < 0) {
    outer.overlap_steps = std::max<int64_t>(1, outer.inner_steps / kWantedPart);
  }
  return outer;
}

OuterChoice ChooseOuter(const RunConfig& config, const PlacementProblem& problem,
                        const Placement& placement, double step_s, DeltaCodec encoded_as,
                        int64_t part) {
  SKERRY_CHECK(std::isfinite(step_s) && step_s > 0);
  const std::vector<Exchange> exchanges =
      ExchangesOf(problem, placement, step_s, CodecBitsOf(config.outer, encoded_as));
  const std::vector<Candidate> candidates = Candidates(config);
  OuterChoice choice;
  const auto take = [&](const Candidate& candidate, int64_t overlap) {
    choice.inner_steps = candidate.inner_steps;
    choice.codec = candidate.codec;
    choice.overlap_steps = overlap;
  };
  bool found = false;
  for (const Candidate& candidate : candidates) {
    const double needed = StepsNeeded(config.outer, exchanges, candidate, step_s);
    const int64_t overlap = OverlapOf(config.outer, candidate, needed);
    found = overlap >= 0;
    if (found) {
      take(candidate, overlap);
      break;
    }
  }
  if (!found) {
    const Candidate& last = candidates.back();
    int64_t overlap = config.outer.overlap_steps;
    if (config.outer.mode == OuterMode::kCo2) overlap = last.inner_steps;
    if (overlap < 0) {
      const double needed = StepsNeeded(config.outer, exchanges, last, step_s);
      overlap = SmallestOverlap(last.inner_steps, needed, part);
      if (overlap < 0) overlap = std::max<int64_t>(1, last.inner_steps / part);
    }
    take(last, overlap);
  }
  choice.step_s = step_s;
  const int64_t fragments = FragmentsOf(config.outer, {choice.inner_steps, choice.codec});
  const double bits = CodecBitsOf(config.outer, choice.codec);
  if (const Exchange* slowest = Slowest(exchanges, bits, fragments)) {
    const double boundaries = slowest->boundaries_per_bit * bits / static_cast<double>(fragments);
    choice.sent_bytes =
        static_cast<int64_t>(boundaries * static_cast<double>(BoundaryBytes(config)));
    choice.transfer_s = slowest->Seconds(bits, fragments);
    choice.line_s = slowest->LineSeconds(bits);
    choice.uplink_free = slowest->uplink_free;
  }
  return choice;
}

OuterConfig Chosen(OuterConfig given, const OuterChoice& choice) {
  given.inner_steps = choice.inner_steps;
  given.overlap_steps = choice.overlap_steps;
  given.codec = choice.codec;
  given.tier = OuterTier::kCustom;
  return given;
}

void Settle(const OuterConfig& given, const OuterChoice& choice, PlannedSettings* settings) {
  if (given.inner_steps == 0) settings->inner_steps = choice.inner_steps;
  if (given.overlap_steps < 0) settings->overlap_steps = choice.overlap_steps;
  if (given.tier == OuterTier::kAuto) {
    settings->has_codec = true;
    settings->codec = choice.codec;
  }
}

const char* CodecName(DeltaCodec codec) {
  static constexpr const char* kNames[] = {"none", "int8",    "bf16", "int4",
                                           "sign", "ternary", "topk", "lowrank"};
  return kNames[static_cast<size_t>(codec)];
}

const char* ModeName(OuterMode mode) {
  static constexpr const char* kNames[] = {"overlap", "synchronous", "co2", "streaming",
                                           "data_parallel"};
  return kNames[static_cast<size_t>(mode)];
}

std::string ModeText(const OuterConfig& outer) {
  if (outer.mode == OuterMode::kOverlap) return "";
  std::string text = ModeName(outer.mode);
  if (outer.mode == OuterMode::kStreaming) {
    text += absl::StrFormat(" in %d fragments", FragmentsOf(outer));
  }
  return text + ", ";
}

std::string OuterText(const OuterConfig& settled) {
  return ModeText(settled) + absl::StrFormat("δ %d of τ %d, %s", settled.overlap_steps,
                                             settled.inner_steps, CodecName(settled.codec));
}

std::string OuterText(const OuterChoice& choice) {
  const std::string what = OuterText(Chosen({}, choice));
  if (choice.sent_bytes == 0) return what + ": no stage has replicas that exchange deltas";
  const double window = static_cast<double>(choice.overlap_steps) * choice.step_s;
  const std::string bytes = absl::StrFormat("%s: a round's %s per replica take %.2f s", what,
                                            DecimalText(choice.sent_bytes), choice.transfer_s);
  if (choice.IsHidden()) {
    return absl::StrFormat("%s of the %.2f s that %d steps last", bytes, window,
                           choice.overlap_steps);
  }
  if (choice.transfer_s <= window) {
    return absl::StrFormat("%s, but all of τ steps %.2f s of their %.2f s", bytes, choice.line_s,
                           static_cast<double>(choice.inner_steps) * choice.step_s);
  }
  return absl::StrFormat("%s, %.2f s more than the %.2f s that %d steps last", bytes,
                         choice.transfer_s - window, window, choice.overlap_steps);
}

}  // namespace skerry
