// What goes wrong in a scenario, and when: [[fault]] sections as plain values.
//
// Nodes are numbered as in NetworkSpec: the coordinator is 0, the scenario's nodes are 1, 2, ….
// In files an end is the name of a region, "nodeN" or "coordinator". A fault after the scenario's
// horizon is refused: it would never happen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "sim/network_reader.h"
#include "sim/network_spec.h"
#include "wire/toml_reader.h"

namespace skerry {

enum class FaultKind : uint8_t {
  kCrash,             // the process is gone; for good, or for_s later it starts with its disk
  kRestart,           // gone, and started again for_s later, with or without its disk
  kHang,              // stopped: no handler, no heartbeat, connections stay
  kSlowDevice,        // jobs last `factor` times as long
  kSlowLink,          // rates of the way are divided by `factor`
  kCut,               // nothing passes
  kLossBurst,         // packets of the way are lost with `probability`
  kClockJump,         // the clock is set forward by `by` (backward if negative)
  kClockDrift,        // the clock gains `drift_ppm` µs per second
  kWrongResult,       // results of the device are wrong with `probability`
  kPoisonedDelta,     // deltas are falsified on their way out
  kCoordinatorCrash,  // gone at `at` or at journal record `at_record`, back for_s later
  kDiskFull,          // nothing more can be written
  kWild,              // deltas are `factor` times what they should be, or noise as large
};
inline constexpr int kFaultKinds = 14;

// "crash", "slow_link", …
const char* NameOf(FaultKind kind);

struct FaultEnd {
  enum class Kind : uint8_t { kEverything, kRegion, kNode };
  Kind kind = Kind::kEverything;
  int32_t index = 0;  // of the region, or number of the node
  bool operator==(const FaultEnd&) const = default;

  // The coordinator, number 0, lies in a region like any node.
  bool Has(int32_t node, const NetworkSpec& network) const;
  // Whose process it is, in ascending order: the coordinator only if the end names it.
  std::vector<int32_t> Nodes(const NetworkSpec& network) const;
};

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  Instant at;
  std::optional<int64_t> at_record;  // kCoordinatorCrash: instead of `at`; 1 is the first record
  std::optional<Duration> lasts;     // nullopt: for good
  FaultEnd where;                    // whom it befalls; of a way: its one end
  FaultEnd other;                    // of a way (slow_link, cut, loss_burst): its other end
  bool both_directions = true;       // else only from `where` to `other`
  bool keeps_disk = true;
  bool is_void = false;    // kPoisonedDelta: no message of the codec, instead of a false one
  bool is_noise = false;   // kWild
  double factor = 1;       // kWild: may be negative
  double probability = 1;  // kLossBurst: of packets; kWrongResult: of results
  Duration by;
  double drift_ppm = 0;
  int line = 0;  // of its section, for messages
  bool operator==(const Fault&) const = default;
};

// The document's [[fault]] sections, in file order. Errors stay in the document: keys a kind does
// not have, ends that do not exist, times after `horizon`.
std::vector<Fault> ReadFaults(TomlDocument& document, NetworkReader& reader, Duration horizon);

}  // namespace skerry
