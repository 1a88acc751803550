// An ordered way of float32 values from one member of a group to another: what a ring is made of.
// In one process it is shared memory (MemoryMesh); a transport serves it by sending what is posted
// as frames and handing out frames that came.
//
// One thread sends, one receives, each may close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/instant.h"

namespace skerry {

class Channel {
 public:
  static constexpr int64_t kPieceMax = 256 * 1024;  // values handed out at a time
  static constexpr size_t kPostsMax = 1024;         // that do not follow each other in memory

  virtual ~Channel() = default;

  // Sender. Does not wait. The memory stays as it is until Drain has returned, or Close. The
  // channel's error if it is closed.
  virtual absl::Status Post(std::span<const float> values) = 0;
  // Sender. Returns when all that was posted has been taken; DeadlineExceeded when nothing moved
  // for the channel's patience, or the error it was closed with.
  virtual absl::Status Drain() = 0;
  // Receiver. use(values, first) for the next n values, in pieces, in order; `first` counts from
  // this call's beginning. Errors as Drain.
  using Use = std::function<void(std::span<const float> values, int64_t first)>;
  virtual absl::Status Take(int64_t n, const Use& use) = 0;

  // Both ends' calls, under way and later, return `why`, which is not ok; the first reason stays.
  // After it nobody reads what was posted. Any thread but one inside `use`.
  virtual void Close(const absl::Status& why) = 0;
  // ok, or why it is closed. Any thread.
  virtual absl::Status status() const = 0;
};

// One member's: by the other's rank, nullptr at its own.
struct Channels {
  int32_t rank = 0;
  std::vector<std::shared_ptr<Channel>> to, from;
};

// Channels between the threads of a process, [size]. A receiver reads the sender's memory itself.
// `patience` > 0: how long a call waits while nothing moves.
std::vector<Channels> MemoryMesh(int32_t size, Duration patience);

}  // namespace skerry
