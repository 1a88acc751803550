// Activations and gradients between stages as int8 or bf16 messages (codec.h).
//
//   a message of the codec · one byte b in [1, 253]       D = 2^(b − 127) · D(message)
//
// The codecs are made for deltas: a grid that ends at 2^-40, a largest magnitude. Gradients of a
// mean over many tokens are smaller than the one, residual streams of large models exceed the
// other. So the whole payload is brought to [1, 2) first, by a power of two, which is exact: what
// is below a 2^-39th of its largest value becomes zero, nothing else is lost but what the codec
// rounds.
//
// Rounding is to nearest: the same payload gives the same bytes everywhere. Stateless, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"

namespace skerry {

// kInt8 and kBf16; others are not for payloads.
bool IsBoundaryCodec(DeltaCodec codec);

// The exact length in bytes of `values` values. CHECK: a boundary codec.
int64_t BoundaryCodeSize(DeltaCodec codec, int64_t values);

// Replaces *out. InvalidArgument for a value that is not finite; *out is unspecified then.
absl::Status EncodeBoundaryValues(DeltaCodec codec, std::span<const float> values, Bytes* out);

// Total: InvalidArgument for a wrong length, or bytes that no encoder makes, with nothing written.
// Allocates nothing.
absl::Status DecodeBoundaryValues(DeltaCodec codec, std::span<const uint8_t> bytes,
                                  std::span<float> values);

}  // namespace skerry
