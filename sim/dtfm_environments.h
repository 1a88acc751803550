// DT-FM's environments 3 and 4 (DS3Lab/DT-FM at cda948f, MIT licence; arXiv 2206.01288): 64 devices
// in regions of equal size, delays in ms and rates in Gbit/s between regions and within one; and
// what its genetic algorithm reached on them, in its own cost, with the processor seconds it took
// (4,900 trials, one core of an EPYC).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "routing/dtfm.h"

namespace skerry {

struct DtfmLink {
  int32_t a;
  int32_t b;
  double delay_ms;
  double gbps;
};

struct DtfmEnvironment {
  const char* name;
  int32_t regions;
  std::vector<DtfmLink> links;
  double reached_s;
  double took_s;
};

inline std::vector<DtfmEnvironment> DtfmEnvironments() {
  return {
      // Virginia, Oregon, California, Ohio
      {"case 3",
       4,
       {{0, 0, 5, 2},
        {0, 1, 67, 1.15},
        {0, 2, 59, 1.05},
        {0, 3, 11, 1.12},
        {1, 1, 5, 2},
        {1, 2, 12, 1.25},
        {1, 3, 49, 1.1},
        {2, 2, 5, 2},
        {2, 3, 52, 1.02},
        {3, 3, 5, 2}},
       34.80204101721226,
       306},
      // Oregon, Virginia, Ohio, Tokyo, Seoul, London, Frankfurt, Ireland
      {"case 4",
       8,
       {{0, 0, 5, 2},       {0, 1, 67, 0.79},   {0, 2, 49, 1.1},    {0, 3, 96, 0.523},
        {0, 4, 124, 0.46},  {0, 5, 136, 0.42},  {0, 6, 143, 0.404}, {0, 7, 124, 0.482},
        {1, 1, 5, 2},       {1, 2, 11, 1.12},   {1, 3, 143, 0.524}, {1, 4, 172, 0.5},
        {1, 5, 76, 1.16},   {1, 6, 90, 1.02},   {1, 7, 67, 1.05},   {2, 2, 5, 2},
        {2, 3, 130, 0.694}, {2, 4, 159, 0.529}, {2, 5, 86, 1.05},   {2, 6, 99, 0.799},
        {2, 7, 77, 1.14},   {3, 3, 5, 2},       {3, 4, 34, 1.1},    {3, 5, 210, 0.366},
        {3, 6, 223, 0.36},  {3, 7, 199, 0.465}, {4, 4, 5, 2},       {4, 5, 238, 0.342},
        {4, 6, 235, 0.358}, {4, 7, 228, 0.335}, {5, 5, 5, 2},       {5, 6, 14, 1.14},
        {5, 7, 12, 1.09},   {6, 6, 5, 2},       {6, 7, 24, 1.08},   {7, 7, 5, 2}},
       49.218380053128435,
       246},
  };
}

// Eight stages of eight devices; GPT-3 XL as its configuration has it: 1.3e9 weights in 24 layers,
// 3 a stage, a gradient of 0.65 GB in 8 shards, an activation of 2024 · 2048 · 2 · (1e6 / 2^14)
// bytes.
inline DtfmProblem DtfmProblemOf(const DtfmEnvironment& environment) {
  constexpr size_t kDevices = 64;
  constexpr double kGradientGb = 0.65;
  constexpr double kActivationGb = 2024.0 * 2048 * 2 * (1e6 / 16384) / (1 << 30);
  DtfmProblem problem;
  problem.group_sizes.assign(8, 8);
  problem.exchange_s.resize(kDevices * kDevices);
  problem.activation_s.resize(kDevices * kDevices);
  const size_t per_region = kDevices / static_cast<size_t>(environment.regions);
  for (const DtfmLink& link : environment.links) {
    for (size_t i = 0; i < kDevices; ++i) {
      for (size_t j = 0; j < kDevices; ++j) {
        const auto a = static_cast<int32_t>(i / per_region);
        const auto b = static_cast<int32_t>(j / per_region);
        if (!((a == link.a && b == link.b) || (a == link.b && b == link.a)) || i == j) continue;
        const double delay_s = link.delay_ms / 1e3;
        problem.exchange_s[i * kDevices + j] = 2 * (delay_s + 8 * kGradientGb / (link.gbps * 8));
        problem.activation_s[i * kDevices + j] = delay_s + 8 * kActivationGb / link.gbps;
      }
    }
  }
  return problem;
}

}  // namespace skerry
