// Messages by which links are measured (docs/PROTOCOL.md, "Measuring").
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace skerry {

// coordinator → node: measure the way to `target` now. A node is in one probe at a time.
struct ProbeRequest {
  NodeId target;
  int64_t bytes = 0;  // size of the bulk reading
  // So many bytes at once and no more: the rate that they pass at, to be compared with that of
  // other such transfers (routing/access_lines.h).
  bool is_transfer = false;
  bool operator==(const ProbeRequest&) const = default;
};
// node → node and back. The echo of an empty ping gives the round trip, of a large one the rate.
struct Ping {
  uint64_t nonce = 0;
  int64_t padding_bytes = 0;  // of no meaning; they exist on the wire only
  bool operator==(const Ping&) const = default;
};
struct Pong {
  uint64_t nonce = 0;
  bool operator==(const Pong&) const = default;
};
// node → coordinator: one directed reading (this node → target).
struct LinkReading {
  NodeId target;
  double rtt_s = 0;
  double bytes_per_s = 0;
  bool is_transfer = false;  // of one that was asked for, whatever else was under way
  bool operator==(const LinkReading&) const = default;
};

}  // namespace skerry
