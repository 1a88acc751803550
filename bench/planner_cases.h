// Problems for bench_planner that no file holds: fleets drawn from a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "common/rng.h"
#include "pipeline/plan/planner.h"
#include "routing/skippipe_problem.h"
#include "sim/gcp_links.h"

namespace skerry::bench {

// One activation of SkipPipe's 500M configuration between two of its regions, as its code has it.
inline double GcpTransferSeconds(int32_t a, int32_t b) {
  constexpr double kFixed = 0.35;
  constexpr double kBytes = 4.0 * 1024 * 1024 * 8;
  constexpr double kWithinMs = 1;
  constexpr double kWithinBytes = 2.0 * (1 << 30);
  if (a == b) return kWithinMs / 1e3 + kBytes / kWithinBytes + kFixed;
  for (const PublishedLink& link : kGcpLinks) {
    if (!((link.a == a && link.b == b) || (link.a == b && link.b == a))) continue;
    return link.one_way_ms / 1e3 + kBytes * 8 / (link.mbps * 1e6) + kFixed;
  }
  return 0;
}

// Four nodes in each of five regions: alike nodes, on which SkipPipe's search finds nothing in
// 1,200 s.
inline SkipPipeProblem FiveClusters() {
  SkipPipeProblem problem;
  problem.stage_sizes = {5, 3, 3, 3, 3, 3};
  problem.path_length = 4;
  problem.in_flight = 3;
  problem.waves = 2;
  problem.forward_s.assign(20, 1.76);
  constexpr int32_t kRegions[] = {1, 2, 6, 5, 0};  // Belgium, Canada, LA, Japan, Australia
  for (int32_t i = 0; i < 20; ++i) {
    for (int32_t j = 0; j < 20; ++j) {
      problem.transfer_s.push_back(i == j ? 0
                                          : GcpTransferSeconds(kRegions[i / 4], kRegions[j / 4]));
    }
  }
  return problem;
}

// Computing lognormal with σ 0.5, uplinks of which a third is four times slower.
inline SkipPipeProblem Lognormal(uint64_t seed) {
  constexpr double kSigma = 0.5;
  SkipPipeProblem problem;
  problem.stage_sizes = {5, 3, 3, 3, 3, 3};
  problem.path_length = 4;
  problem.in_flight = 4;
  problem.waves = 2;
  Rng rng(seed, "lognormal fleet");
  std::vector<double> uplink;
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 20; ++i) {
    problem.forward_s.push_back(std::exp(kSigma * rng.Normal()));
    uplink.push_back(rng.Below(3) == 0 ? 0.8 : 0.2);
    x.push_back(rng.Uniform());
    y.push_back(rng.Uniform());
  }
  for (size_t i = 0; i < 20; ++i) {
    for (size_t j = 0; j < 20; ++j) {
      const double way = std::hypot(x[i] - x[j], y[i] - y[j]);
      problem.transfer_s.push_back(i == j ? 0 : uplink[i] + 0.3 * way);
    }
  }
  return problem;
}

// A problem of the kind SkipPipe publishes, drawn from a seed: 12 to 30 nodes in 4 to 12 places,
// its proportions of stages, links of 5 to 200 ms whose rate falls with the way, alike or unequal
// speeds.
inline SkipPipeProblem GeoDistributed(uint64_t seed) {
  struct Shape {
    int32_t first, later, stages, length;
  };
  constexpr Shape kShapes[] = {
      {5, 3, 6, 4}, {6, 4, 4, 3}, {4, 3, 5, 4}, {6, 3, 5, 3}, {6, 4, 7, 5}};
  constexpr double kGib = 1 << 30;
  Rng rng(seed, "geo-distributed case");
  const Shape shape = kShapes[rng.Below(std::size(kShapes))];
  SkipPipeProblem problem;
  problem.stage_sizes.assign(static_cast<size_t>(shape.stages), shape.later);
  problem.stage_sizes.front() = shape.first;
  problem.path_length = shape.length;
  problem.in_flight = 3;
  problem.waves = 2;
  const size_t places = 4 + rng.Below(9);
  const double forward_s = 0.4 * std::pow(4.5, rng.Uniform());
  const double sigma = rng.Below(2) == 0 ? 0 : 0.35;
  const double bytes = (rng.Below(2) == 0 ? 8.0 : 4.0) * (4 << 20);
  std::vector<double> x;
  std::vector<double> y;
  for (size_t p = 0; p < places; ++p) {
    x.push_back(rng.Uniform());
    y.push_back(rng.Uniform());
  }
  std::vector<double> link(places * places, 0.351 + bytes / (2 * kGib));
  for (size_t a = 0; a < places; ++a) {
    for (size_t b = 0; b < a; ++b) {
      const double ms = 5 + 150 * std::hypot(x[a] - x[b], y[a] - y[b]);
      const double rate = std::min(1.0, std::max(0.03, 12 / ms * std::exp(0.3 * rng.Normal())));
      link[a * places + b] = link[b * places + a] = ms / 1e3 + bytes / (rate * kGib) + 0.35;
    }
  }
  const auto n = static_cast<size_t>(shape.first + (shape.stages - 1) * shape.later);
  for (size_t i = 0; i < n; ++i) {
    problem.forward_s.push_back(forward_s * std::exp(sigma * rng.Normal()));
    for (size_t j = 0; j < n; ++j) {
      problem.transfer_s.push_back(i == j ? 0 : link[i % places * places + j % places]);
    }
  }
  return problem;
}

// `n` nodes of three speeds in `n` / 10 places on a globe of 200 ms, uplinks of 50 to 500 Mbit/s.
inline PlannerInput WorldWide(int32_t n) {
  PlannerInput input;
  input.config.model.layers = 32;
  input.config.pipeline.microbatches_per_step = 2 * n;
  input.config.pipeline.skip_ratio = 1.0 / 3;
  Rng rng(static_cast<uint64_t>(n), "world-wide fleet");
  constexpr double kSpeeds[] = {8000, 16000, 32000};
  std::vector<double> uplink;
  std::vector<double> x;
  std::vector<double> y;
  for (int32_t i = 0; i < n; ++i) {
    const NodeId id = TestNodeId(static_cast<uint32_t>(i) + 1);
    input.nodes.push_back(id);
    const uint64_t speed = rng.Below(3);
    input.devices[id] = {"card " + std::to_string(speed), "", kSpeeds[speed], int64_t{32} << 30};
    uplink.push_back(6.25e6 * std::pow(10.0, rng.Uniform()));
    Rng place(static_cast<uint64_t>(i % std::max(2, n / 10)), "place");
    x.push_back(place.Uniform());
    y.push_back(place.Uniform());
  }
  input.links = LinkMatrix(input.nodes);
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const auto a = static_cast<size_t>(i);
      const auto b = static_cast<size_t>(j);
      LinkEstimate& link = input.links.At(i, j);
      link.rtt_s = 0.002 + 0.2 * std::hypot(x[a] - x[b], y[a] - y[b]);
      link.bytes_per_s = uplink[a];
      link.readings = 3;
      link.source = LinkSource::kMeasured;
    }
  }
  return input;
}

}  // namespace skerry::bench
