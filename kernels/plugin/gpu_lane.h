// NCCL between the GPUs of several nodes, for the sums of their cohort. What crosses it is not
// sealed: NCCL speaks to its peers in the clear, by ways of its own choice (InfiniBand, RoCE, or
// sockets at addresses that it finds), so a node uses it only where its owner says so.
//
// A lane has a thread, a stream and 64 MiB of its own on the node's first GPU: training goes on
// there while it sums. Values go through it in pieces, from and to the node's memory.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "common/instant.h"
#include "kernels/group/group_lane.h"

namespace skerry {

// Makes lanes and outlives their threads. Owner's thread.
class GpuLanes {
 public:
  // Where nothing moves for so long a lane fails; also how long members wait for each other.
  static constexpr Duration kPatience = Duration::Seconds(15);

  // Unavailable, and why: that GPU has no NCCL.
  static absl::StatusOr<std::unique_ptr<GpuLanes>> Open(int gpu);
  // Lanes are gone by now; their threads have a few seconds to end.
  ~GpuLanes();
  GpuLanes(const GpuLanes&) = delete;
  GpuLanes& operator=(const GpuLanes&) = delete;

  std::unique_ptr<GroupLane> Make();

 private:
  explicit GpuLanes(int gpu) : gpu_(gpu) {}
  class Lane;
  struct Desk;  // what lane and thread share
  static void Work(const std::shared_ptr<Desk>& desk, int gpu);

  int gpu_;
  std::vector<std::weak_ptr<Desk>> desks_;
};

}  // namespace skerry
