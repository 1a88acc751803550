// The moments of AdamW and Muon as a joiner is given them: bf16, in blocks, so that both moments of
// a parameter come from the same donor (blocks may come from different ones).
//
//   block b: first moment of parameters [b·kMomentsBlock, …) bf16 · second moment of the same, bf16
//
// Donors' moments differ: each has seen other microbatches. They are estimates of the same two
// means, and rounding them to eight bits changes less than the choice of donor does. No digest can
// prove them. What bounds a lie is the law that whatever AdamW makes obeys (Cauchy–Schwarz on its
// two sums):
//
//   v ≥ 0,  |m| ≤ C·√v,  C = (1 − β₁) / √((1 − β₂)·(1 − β₁²/β₂))   where β₁² < β₂
//
// so a step from such moments is no longer than one that AdamW itself could have made. Of a matrix
// that Muon steps there is a first moment only, a mean of clipped gradients; its steps are as long
// whatever it is.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"
#include "model/parameter_layout.h"

namespace skerry {

inline constexpr int64_t kMomentsBlock = 65536;  // parameters

inline constexpr int64_t MomentsBytes(int64_t parameters) {
  return 4 * parameters;
}

// first, second [n].
Bytes EncodeMoments(std::span<const float> first, std::span<const float> second);
// `bytes` [MomentsBytes(n)]; first, second [n].
void DecodeMoments(std::span<const uint8_t> bytes, std::span<float> first, std::span<float> second);

// Of the block that begins with parameter `first` of the layout. DataLoss: it is none that the
// optimizer makes, with room for rounding; InvalidArgument: its length.
absl::Status CheckMomentsBlock(const InnerConfig& config, const ParameterLayout& layout,
                               int64_t first, std::span<const uint8_t> block);

}  // namespace skerry
