// The shape of a wide-area network between regions, read from TOML: what the in-process shaper
// (wire/shaper.h) imitates and what the simulator starts from.
//
//   [[region]]
//   name = "us-east"
//   [[pair]]                       # between two regions, both ways alike unless told otherwise
//   a = "us-east"
//   b = "eu-west"
//   rtt_ms = 78                    # or one_way_ms: exactly one of the two
//   rate_mbps = 100                # or rate_ab_mbps and rate_ba_mbps
//   [access]                       # optional: what a node's own line carries
//   up_mbps = 200
//   down_mbps = 500
//   [same_region]                  # optional
//   rtt_ms = 0.5
//   rate_mbps = 1000
//
// Published tables mix round trips and one-way delays, so the key says which it is. Mbit/s are 10^6
// bits. Every pair of regions must be given: nothing about a network is guessed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/instant.h"

namespace skerry {

// One direction.
struct LinkShape {
  Duration one_way;
  double bytes_per_s = 0;  // 0: no limit
  bool operator==(const LinkShape&) const = default;
};

struct WanShape {
  std::vector<std::string> regions;                                // in file order, distinct
  std::map<std::pair<std::string, std::string>, LinkShape> links;  // (from, to), both directions
  LinkShape same_region{Duration::Micros(250), 125e6};
  double up_bytes_per_s = 0;    // of each node's own line; 0: no limit
  double down_bytes_per_s = 0;  // 0: no limit
  bool operator==(const WanShape&) const = default;

  bool HasRegion(const std::string& region) const;
  // nullopt if either region is not in the file: then the link is not shaped.
  std::optional<LinkShape> Between(const std::string& from, const std::string& to) const;
};

// InvalidArgument with file and line, as in ParseRunConfig.
absl::StatusOr<WanShape> ParseWanShape(const std::string& text, const std::string& file);

// Reads the file at `path`. NotFound if it is not there.
absl::StatusOr<WanShape> LoadWanShape(const std::string& path);

}  // namespace skerry
