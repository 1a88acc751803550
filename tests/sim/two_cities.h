// A small scenario that tests of whole runs share: two cities, eight nodes, three outer rounds.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "sim/scenario.h"

namespace skerry {

inline constexpr char kTwoCities[] = R"(
name = "two cities"
horizon_s = 3600
regions = ["Oslo", "Montreal"]
[[pair]]
a = "Oslo"
b = "Montreal"
rtt_ms = 98
rate_mbps = 400
[[nodes]]
region = "Oslo"
count = 4
device = "rtx-3090"
[[nodes]]
region = "Montreal"
count = 4
device = "rtx-4070"
[run]
steps = 24
nodes_min = 8
[model]
hidden = 512
layers = 8
heads = 8
kv_heads = 4
ffn = 1408
context = 256
[outer]
inner_steps = 8
overlap_steps = 2
[pipeline]
microbatches_per_step = 8
sequences_per_microbatch = 2
)";

inline Scenario TwoCities(const std::string& more = "") {
  auto scenario = ParseScenario(kTwoCities + more, "scenario.toml");
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  return *std::move(scenario);
}

}  // namespace skerry
