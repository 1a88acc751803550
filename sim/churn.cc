#include "sim/churn.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr size_t kEventsPerNodeMax = 100'000;
constexpr double kShortestS = 1;  // nobody reboots faster

double Mean(const WeibullTime& time) {
  return time.scale.seconds() * std::tgamma(1 + 1 / time.shape);
}

double Draw(const WeibullTime& time, Rng& rng) {
  return time.scale.seconds() * std::pow(-std::log(1 - rng.Uniform()), 1 / time.shape);
}

// Gamma(shape, 1), shape ≥ 1: Marsaglia and Tsang 2000.
double DrawGamma(double shape, Rng& rng) {
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.Normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - rng.Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// What is left of the interval that covers a moment picked at random. Long intervals cover more
// moments: the covering one has density t·f(t) / mean, hence (T / scale)^shape ~ Gamma(1 +
// 1/shape).
double DrawRemaining(const WeibullTime& time, Rng& rng) {
  const double whole =
      time.scale.seconds() * std::pow(DrawGamma(1 + 1 / time.shape, rng), 1 / time.shape);
  return whole * rng.Uniform();
}

Instant AtSeconds(double seconds) {
  return Instant::FromNanos(static_cast<int64_t>(seconds * 1e9));
}

absl::Status AddDrawn(const ChurnSpec& spec, int32_t node, double horizon_s, uint64_t seed,
                      std::vector<ChurnEvent>& events) {
  Rng rng(seed, "churn", static_cast<uint64_t>(node));
  bool up = true;
  double left = 0;
  if (spec.start == ChurnStart::kStationary) {
    up = rng.Uniform() < Mean(spec.up) / (Mean(spec.up) + Mean(spec.down));
    if (!up) events.push_back({Instant(), node, false});
    left = DrawRemaining(up ? spec.up : spec.down, rng);
  } else {
    left = Draw(spec.up, rng);
  }
  double at = 0;
  for (size_t count = 0; count < kEventsPerNodeMax; ++count) {
    at += std::max(left, kShortestS);
    if (at > horizon_s) return absl::OkStatus();
    up = !up;
    events.push_back({AtSeconds(at), node, up});
    left = Draw(up ? spec.up : spec.down, rng);
  }
  return InvalidArgument(
      "node %d would come and go more than %d times: longer times or a shorter "
      "horizon",
      node, kEventsPerNodeMax);
}

absl::Status AddTraced(const ChurnSpec& spec, std::span<const int32_t> nodes, Duration horizon,
                       std::vector<ChurnEvent>& events) {
  std::set<size_t> idle;
  for (size_t i = 0; i < nodes.size(); ++i) idle.insert(i);
  std::map<int32_t, size_t> place;  // of a machine in `nodes`
  size_t next = 0;
  const auto take = [&](const TraceEvent& event) {
    if (event.up) {
      place[event.machine] = *idle.begin();
      idle.erase(idle.begin());
    } else {
      idle.insert(place.at(event.machine));
      place.erase(event.machine);
    }
  };
  for (; next < spec.trace.size() && spec.trace[next].at <= Instant(); ++next) {
    if (spec.trace[next].up && idle.empty()) break;
    take(spec.trace[next]);
  }
  for (const size_t i : idle) events.push_back({Instant(), nodes[i], false});
  for (; next < spec.trace.size(); ++next) {
    const TraceEvent& event = spec.trace[next];
    if (event.at > Instant() + horizon) break;
    if (event.up && idle.empty()) {
      return InvalidArgument("the trace has more than %d machines at once, there are %d nodes",
                             nodes.size(), nodes.size());
    }
    const size_t index = event.up ? *idle.begin() : place.at(event.machine);
    take(event);
    events.push_back({event.at, nodes[index], event.up});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ChurnEvent>> MakeChurn(const ChurnSpec& spec,
                                                  std::span<const int32_t> nodes, Duration horizon,
                                                  uint64_t seed) {
  std::vector<ChurnEvent> events;
  if (!spec.trace.empty()) {
    SKERRY_RETURN_IF_ERROR(AddTraced(spec, nodes, horizon, events));
  } else {
    SKERRY_CHECK(spec.up.shape > 0 && spec.down.shape > 0);
    for (const int32_t node : nodes)
      SKERRY_RETURN_IF_ERROR(AddDrawn(spec, node, horizon.seconds(), seed, events));
  }
  std::stable_sort(events.begin(), events.end(), [](const ChurnEvent& a, const ChurnEvent& b) {
    return std::tie(a.at, a.node) < std::tie(b.at, b.node);
  });
  return events;
}

int32_t MachinesAtOnce(const std::vector<TraceEvent>& trace) {
  int32_t now = 0, most = 0;
  for (const TraceEvent& event : trace) {
    now += event.up ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<TraceEvent> StartTraceAt(const std::vector<TraceEvent>& trace, Instant from) {
  std::vector<TraceEvent> rest;
  std::set<int32_t> there;
  for (const TraceEvent& event : trace) {
    if (event.at > from) continue;
    if (event.up) {
      there.insert(event.machine);
    } else {
      there.erase(event.machine);
    }
  }
  for (const int32_t machine : there) rest.push_back({Instant(), machine, true});
  for (const TraceEvent& event : trace) {
    if (event.at > from) rest.push_back({Instant() + (event.at - from), event.machine, event.up});
  }
  return rest;
}

}  // namespace skerry
