// What a joiner is given of its stage, and a checkpoint keeps of it, as bytes: the base, the outer
// momentum, and a donor's moments of the inner optimizer. Little-endian, without padding:
//
//   Header · base [n] f32 · momentum [n] f32 · first moment [m] · second moment [m]
//   · digest of all before
//
// m is n, or 0 when the inner optimizer keeps no moments. The digest is one of pieces
// (common/tree_digest.h); in states of format 1, which are read still, it is BLAKE2b-256 in one
// chain. It finds damage, not malice: that the base is the stage's is proven by its own digest,
// which every replica reports.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"

namespace skerry {

struct StageState {
  int64_t version = 0;      // completed rounds
  int64_t inner_steps = 0;  // that the moments are of
  std::vector<float> base, momentum;
  std::vector<float> first_moment, second_moment;
  bool operator==(const StageState&) const = default;
};

Bytes EncodeState(const StageState& state);

// The same without a copy: the bytes of a state, whose arrays the caller fills where they stand and
// then seals. `moments` is n or 0.
struct StateArrays {
  std::span<float> base, momentum, first_moment, second_moment;
};
Bytes NewState(int64_t parameters, int64_t moments, int64_t version, int64_t inner_steps);
StateArrays ArraysOf(Bytes& state);
void SealState(Bytes* state);

// What such bytes begin with, before anything of them is verified; DataLoss: it is no such header.
struct StateSizes {
  int64_t parameters = 0;
  int64_t moments = 0;
  int64_t version = 0;
  int64_t inner_steps = 0;
};
inline constexpr int64_t kStateHeaderBytes = 40;
absl::StatusOr<StateSizes> SizesOfState(std::span<const uint8_t> bytes);
int64_t StateBytes(int64_t parameters, int64_t moments);
Bytes StateHeader(const StateSizes& sizes);

// What EncodeState made, where it stands; `bytes` outlive it.
struct StateView {
  int64_t version = 0;
  int64_t inner_steps = 0;
  std::span<const float> base, momentum, first_moment, second_moment;
};

// Errors as DecodeState. `bytes` begin at a multiple of 8, as those of vectors do.
absl::StatusOr<StateView> ViewState(std::span<const uint8_t> bytes, int64_t parameters);

// Of a stage of `parameters` values. DataLoss: damaged, of another size, or a value is not finite.
absl::StatusOr<StageState> DecodeState(std::span<const uint8_t> bytes, int64_t parameters);

}  // namespace skerry
