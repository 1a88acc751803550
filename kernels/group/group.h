// Sums and copies between the members of a group: devices of one machine, nodes of one cluster.
//
// One Group object is one member's end. Every member calls the same operations in the same order
// with the same sizes; a call returns when this member's part is done: its result is there and
// nobody reads its memory any more. Sums are float32, of a fixed order, whatever arrives when: the
// same bits every time and at every member.
//
// Letters: N members, n values (float32), r this member's rank, x_r what member r brings. Part p of
// n values is PartOf(n, N, p). "Wire" is what one member sends, in bytes.
//
// Bodies and what a sum's order is:
//   ring (MakeRing, MakeThreadRing; without threads, between processes: pipeline/exec/
//   transport_ring.h)                part p is ((x_{p+1} + x_{p+2}) + … ) + x_p, ranks modulo N:
//                                    Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms
//                                    for clusters of workstations", 2009
//   NCCL (kernels/plugin)            the library's, fixed for (version, machine, N, n)
//
// Errors. Where a member dies, leaves, stops or fails, every other one's call that still needs it
// returns Aborted or DeadlineExceeded within the patience the group was made with: never a hang,
// never a wrong sum that is called right; and so does every later call. What `values` holds then is
// arbitrary, and the group is of no more use; whoever is left makes a new one. Wrong ranks are bugs
// (CHECK).
//
// Threads. One thread calls a member's operations; Abort may come from any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace skerry {

// What of n values is member p's: consecutive, in order of p, sizes that differ by one at most.
struct GroupPart {
  int64_t first = 0, size = 0;
};
inline GroupPart PartOf(int64_t n, int32_t members, int32_t p) {
  const int64_t first = n * p / members;
  return {first, n * (p + 1) / members - first};
}
// What is in both; of size 0 where nothing is.
inline GroupPart Common(const GroupPart& a, const GroupPart& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(std::min(a.first + a.size, b.first + b.size) - first, 0)};
}

class Group {
 public:
  virtual ~Group() = default;  // leaves: the others' calls under way fail

  virtual std::string name() const = 0;  // "ring of 4 in this process"
  virtual int32_t rank() const = 0;
  virtual int32_t size() const = 0;  // N ≥ 1; with one member every operation is nothing

  // `values` is memory of the member's device, [n].

  // values ← Σ x. Ring: 2 (N − 1) steps, wire 8 n (N − 1) / N, the least there is.
  virtual absl::Status AllReduce(float* values, int64_t n) = 0;
  // Part r of values ← part r of Σ x, the bits of AllReduce; the other parts are arbitrary then.
  // Ring: N − 1 steps, wire 4 n (N − 1) / N.
  absl::Status ReduceScatter(float* values, int64_t n) {
    return ReduceScatterOf(values, n, {0, n});
  }
  // What that does with the values of a range; none of the others is touched. So ranges that share
  // out all of them may be summed one after the other, on a ring with the bits of one call; over
  // NCCL a range's bits are its own. Ring: N − 1 steps, wire at most 4 (N − 1) range.size.
  virtual absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) = 0;
  // Every part p ← what member p has there. Ring: N − 1 steps, wire 4 n (N − 1) / N.
  virtual absl::Status AllGather(float* values, int64_t n) = 0;
  // values ← member root's. Ring: a chain of N − 1 links that are all busy at once, pieces of 1 MiB
  // following each other; wire 4 n, the last member's 0.
  virtual absl::Status Broadcast(float* values, int64_t n, int32_t root) = 0;
  // From one member to another: the other calls the counterpart. One step, wire 4 n. Two that send
  // to each other at the same time wait for each other: one receives first.
  virtual absl::Status Send(const float* values, int64_t n, int32_t to) = 0;
  virtual absl::Status Receive(float* values, int64_t n, int32_t from) = 0;

  // This member gives up, and says why to the others: all calls fail from now on. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace skerry
