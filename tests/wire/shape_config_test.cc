#include "wire/shape_config.h"

#include <catch2/catch.hpp>

#include "tests/coded_error.h"

namespace skerry {
namespace {

constexpr char kRegions[] = "[[region]]\nname = \"us\"\n[[region]]\nname = \"eu\"\n";

std::string ErrorOf(const std::string& rest) {
  const auto shape = ParseWanShape(kRegions + rest, "wan.toml");
  return shape.ok() ? "accepted" : WithoutCode(shape.status().message());
}

TEST_CASE(
    "WanShape: a round trip is halved, a one-way delay is not, and rates may differ by "
    "direction",
    "[wire][config]") {
  const auto shape = ParseWanShape(std::string(kRegions) + R"(
[[region]]
name = "asia"
[[pair]]
a = "us"
b = "eu"
rtt_ms = 80
rate_mbps = 100
[[pair]]
a = "eu"
b = "asia"
one_way_ms = 100
rate_ab_mbps = 40
rate_ba_mbps = 8
[[pair]]
a = "us"
b = "asia"
rtt_ms = 150
rate_mbps = 50
[access]
up_mbps = 20
)",
                                   "wan.toml");
  REQUIRE(shape.ok());
  CHECK(shape->regions == std::vector<std::string>{"us", "eu", "asia"});
  CHECK(*shape->Between("us", "eu") == LinkShape{Duration::Millis(40), 12.5e6});
  CHECK(*shape->Between("eu", "us") == LinkShape{Duration::Millis(40), 12.5e6});
  CHECK(*shape->Between("eu", "asia") == LinkShape{Duration::Millis(100), 5e6});
  CHECK(*shape->Between("asia", "eu") == LinkShape{Duration::Millis(100), 1e6});
  CHECK(*shape->Between("us", "us") == shape->same_region);
  CHECK_FALSE(shape->Between("us", "mars"));
  CHECK(shape->up_bytes_per_s == 2.5e6);
  CHECK(shape->down_bytes_per_s == 0);
}

TEST_CASE("WanShape: mistakes are reported with their line", "[wire][config][error]") {
  const std::string pair = "[[pair]]\na = \"us\"\nb = \"eu\"\n";
  CHECK(ErrorOf("") == "wan.toml: the pair 'eu' and 'us' is missing");
  CHECK(ErrorOf(pair + "rate_mbps = 10\n") ==
        "wan.toml:5: the delay is missing: give rtt_ms or one_way_ms");
  CHECK(ErrorOf(pair + "rtt_ms = 1\none_way_ms = 1\nrate_mbps = 10\n") ==
        "wan.toml:9: give rtt_ms or one_way_ms, not both");
  CHECK(ErrorOf(pair + "rtt_ms = 1\n") ==
        "wan.toml:5: give rate_mbps, or rate_ab_mbps and rate_ba_mbps");
  CHECK(ErrorOf(pair + "rtt_ms = 1\nrate_ab_mbps = 10\n") ==
        "wan.toml:9: rate_ab_mbps and rate_ba_mbps belong together");
  CHECK(ErrorOf(pair + "rtt_ms = 1\nrate_mbps = 0\n") ==
        "wan.toml:9: 'rate_mbps' is 0, allowed are 0.001 to 1000000");
  CHECK(ErrorOf(pair + "rtt_ms = 1\nrate_mbps = 1\nlost = 0.1\n") ==
        "wan.toml:10: unknown key 'lost' in [[pair]]");
  CHECK(ErrorOf("[[pair]]\na = \"us\"\nb = \"ue\"\nrtt_ms = 1\nrate_mbps = 1\n") ==
        "wan.toml:7: there is no region 'ue'");
  CHECK(ErrorOf("[[pair]]\na = \"us\"\nb = \"us\"\nrtt_ms = 1\nrate_mbps = 1\n") ==
        "wan.toml:7: a pair needs two different regions; see [same_region]");
  CHECK(ErrorOf(pair + "rtt_ms = 1\nrate_mbps = 1\n" + pair + "rtt_ms = 1\nrate_mbps = 1\n") ==
        "wan.toml:11: this pair is given twice");
  CHECK(ErrorOf("[[region]]\nname = \"us\"\n") == "wan.toml:6: region 'us' is named twice");
}

}  // namespace
}  // namespace skerry
