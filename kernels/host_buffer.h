// Memory for backends that compute where the program runs.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

// `floats` ≥ 0 zeros, aligned to a cache line (64 bytes). ResourceExhausted when there is no such
// memory.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostBuffer(int64_t floats);

}  // namespace skerry
