#include "kernels/cpu/rope_table.h"

#include <cmath>

namespace skerry {

void RopeTable::Prepare(int64_t context, int64_t head_size, const RopeAngles& angles) {
  if (context == context_ && head_size == head_size_ && angles == angles_) return;
  context_ = context;
  head_size_ = head_size;
  angles_ = angles;
  cosines_.clear();
  sines_.clear();
  for (int64_t position = 0; position < context; ++position) {
    for (int64_t i = 0; i < head_size / 2; ++i) {
      const double angle = static_cast<double>(position) * angles.Frequency(i, head_size);
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

}  // namespace skerry
