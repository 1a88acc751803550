// Copies between a device and its host that run beside what either of them computes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

// Used by the thread that owns the backend, which outlives it. Copies are made in order, each once
// the device has done what it was given before; on GPUs by their copy engine, from memory that
// stays where it is (pinned), elsewhere at once.
class CopyLane {
 public:
  virtual ~CopyLane() = default;

  // Host memory, of the lane: what is copied lies in it. It begins on a kStashBorder.
  virtual std::span<float> memory() = 0;
  // The number of the copy: 1, 2, …
  virtual int64_t Fetch(const float* device, std::span<float> host) = 0;
  virtual int64_t Send(std::span<const float> host, float* device) = 0;
  // Until the first `copies` are done. The device may be given work on what was sent only then.
  virtual void Wait(int64_t copies) = 0;
};

// With memory for so many values. ResourceExhausted: there is none.
absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane(Backend& backend, int64_t values);

}  // namespace skerry
