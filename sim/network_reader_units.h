// Keys with units, as the readers of scenario files read them: milliseconds and Mbit/s
// (10^6 bits) in files, Duration and bytes per second in NetworkSpec.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "common/instant.h"
#include "wire/toml_reader.h"

namespace skerry {

inline constexpr double kDelayMsMax = 60'000;
inline constexpr double kRateMbpsMin = 0.001;
inline constexpr double kRateMbpsMax = 1e6;
inline constexpr double kLossMax = 0.999;

inline Duration DurationOfMs(double ms) {
  return Duration::Nanos(std::llround(ms * 1e6));
}

inline Duration DurationOfSeconds(double s) {
  return Duration::Nanos(std::llround(s * 1e9));
}

inline double BytesPerSecond(double mbps) {
  return mbps * 1e6 / 8;
}

inline std::optional<double> ReadRate(TomlTable& table, const std::string& key) {
  const auto mbps = table.Number(key, kRateMbpsMin, kRateMbpsMax);
  return mbps ? std::optional(BytesPerSecond(*mbps)) : std::nullopt;
}

// rate_mbps or unlimited = true; nullopt if neither is there.
inline std::optional<double> ReadRateOrUnlimited(TomlTable& table) {
  const auto rate = ReadRate(table, "rate_mbps");
  const auto unlimited = table.Boolean("unlimited");
  if (rate && unlimited) table.Fail("unlimited", "give rate_mbps or unlimited = true, not both");
  if (unlimited && !*unlimited) table.Fail("unlimited", "say unlimited = true, or give rate_mbps");
  return unlimited ? std::optional(0.0) : rate;
}

// One of two keys, a round trip or one way; nullopt if neither is there.
inline std::optional<Duration> ReadOneWay(TomlTable& table, const std::string& rtt_key,
                                          const std::string& one_way_key) {
  const auto rtt_ms = table.Number(rtt_key, 0, kDelayMsMax);
  const auto one_way_ms = table.Number(one_way_key, 0, kDelayMsMax);
  if (table.Has(rtt_key) && table.Has(one_way_key))
    table.Fail(one_way_key, "give " + rtt_key + " or " + one_way_key + ", not both");
  if (!rtt_ms && !one_way_ms) return std::nullopt;
  return DurationOfMs(rtt_ms ? *rtt_ms / 2 : *one_way_ms);
}

}  // namespace skerry
