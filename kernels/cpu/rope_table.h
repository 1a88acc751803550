// Cosines and sines of rotary position embedding (Su and others 2021), computed once in float64.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/rope_angles.h"

namespace skerry {

// Keeps the table of the last (context, head size, angles); a model has one. Not thread-safe.
class RopeTable {
 public:
  // Makes cosines and sines [context, head_size / 2] of position · frequency i.
  void Prepare(int64_t context, int64_t head_size, const RopeAngles& angles);

  const float* cosines() const { return cosines_.data(); }
  const float* sines() const { return sines_.data(); }

 private:
  int64_t context_ = 0, head_size_ = 0;
  RopeAngles angles_;
  std::vector<float> cosines_, sines_;
};

}  // namespace skerry
