// One of the connections over which a pair's bulk goes, as its sender sees it.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/instant.h"
#include "wire/transport/connection_reading.h"

namespace skerry {

class BulkStripe {
 public:
  static constexpr size_t kChunksMost = 48;  // under way; below ZeroMQ's own limit
  static constexpr Duration kPatienceLeast = Duration::Seconds(2);
  static constexpr Duration kPatienceMost = Duration::Seconds(16);
  // What is put on a connection has reached the kernel after so long.
  static constexpr Duration kReachesKernel = Duration::Millis(2);

  explicit BulkStripe(Instant now) : heard_(now) {}

  void OnPut(Instant now, int64_t bytes);
  // A chunk is not under way here any more: acknowledged, or left to others.
  void OnFreed(int64_t bytes);
  void OnHeard(Instant now);  // something came of it
  // Without one (nullopt), all that is under way counts as in the line.
  void OnReading(Instant now, std::optional<ConnectionReading> reading);
  // It says nothing for longer than `usual`, or than its patience, and counts as heard again.
  bool GivesNoSign(Instant now, Duration usual);
  Instant SilentAt(Duration usual) const;  // only with chunks under way

  bool is_empty() const { return chunks_ == 0; }
  // Of what is under way, as far as it is not known to have crossed the line.
  int64_t InLine() const;
  // As many as it can send at once, `usual` at most: few when it is cold, or has just lost some.
  int64_t TakesBytes(int64_t usual) const;
  // Whether it has little to send: a chunk waits for whichever connection can send, not in one.
  bool TakesMore(int64_t usual) const;

 private:
  size_t chunks_ = 0;
  int64_t bytes_ = 0;  // under way
  std::optional<ConnectionReading> reading_;
  int64_t since_ = 0;  // put after that
  Instant put_, heard_;
  Duration patience_ = kPatienceLeast;
};

}  // namespace skerry
