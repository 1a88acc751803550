#include "model/joiners_moments.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/check.h"
#include "common/status.h"
#include "kernels/bfloat16.h"

namespace skerry {
namespace {

constexpr float kRounding = 1.05f;  // both moments are rounded, perhaps twice
constexpr float kTiny = 1e-15f;     // where bf16 has no digits left; adds nothing to a step

// Calls with (offset of the block in values, its length) for each.
template <typename Call>
void ForEachBlock(size_t values, Call&& call) {
  for (size_t first = 0; first < values; first += kMomentsBlock) {
    call(first, std::min(values - first, static_cast<size_t>(kMomentsBlock)));
  }
}

float At(const uint8_t* bytes, size_t index) {
  Bf16 half{};
  std::memcpy(&half.bits, bytes + 2 * index, sizeof half.bits);
  return ToFloat(half);
}

void Put(float value, uint8_t* bytes, size_t index) {
  const Bf16 half = ToBf16(value);
  std::memcpy(bytes + 2 * index, &half.bits, sizeof half.bits);
}

class MomentsLaw {
 public:
  explicit MomentsLaw(const InnerConfig& config)
      : is_muon_(config.optimizer == InnerOptimizer::kMuon), clip_(config.clip_norm) {
    const float beta1 = config.beta1, beta2 = config.beta2;
    if (beta1 * beta1 >= beta2 || beta2 >= 1) return;
    longest_ = (1 - beta1) / std::sqrt((1 - beta2) * (1 - beta1 * beta1 / beta2));
  }
  bool Allows(const TensorSlot& slot, float m, float v) const {
    if (is_muon_ && slot.is_hidden_matrix) {
      return v == 0 && (clip_ == 0 || std::abs(m) <= kRounding * clip_);
    }
    return longest_ == 0 || std::abs(m) <= kRounding * longest_ * std::sqrt(v) + kTiny;
  }

 private:
  bool is_muon_;
  float clip_, longest_ = 0;  // 0: there is no law
};

}  // namespace

Bytes EncodeMoments(std::span<const float> first, std::span<const float> second) {
  SKERRY_CHECK(first.size() == second.size());
  Bytes bytes(4 * first.size());
  ForEachBlock(first.size(), [&](size_t begin, size_t count) {
    uint8_t* block = bytes.data() + 4 * begin;
    for (size_t i = 0; i < count; ++i) {
      Put(first[begin + i], block, i);
      Put(second[begin + i], block, count + i);
    }
  });
  return bytes;
}

void DecodeMoments(std::span<const uint8_t> bytes, std::span<float> first,
                   std::span<float> second) {
  SKERRY_CHECK(first.size() == second.size() && bytes.size() == 4 * first.size());
  ForEachBlock(first.size(), [&](size_t begin, size_t count) {
    const uint8_t* block = bytes.data() + 4 * begin;
    for (size_t i = 0; i < count; ++i) {
      first[begin + i] = At(block, i);
      second[begin + i] = At(block, count + i);
    }
  });
}

absl::Status CheckMomentsBlock(const InnerConfig& config, const ParameterLayout& layout,
                               int64_t first, std::span<const uint8_t> block) {
  const auto count = static_cast<int64_t>(block.size() / 4);
  if (block.empty()) return absl::OkStatus();  // simulated bytes beyond a small model's
  if (block.size() % 4 != 0 || count > kMomentsBlock || first < 0 ||
      first + count > layout.size()) {
    return InvalidArgument("moments: no block has %d bytes", block.size());
  }
  const MomentsLaw law(config);
  auto slot = std::find_if(layout.tensors().begin(), layout.tensors().end(),
                           [&](const TensorSlot& s) { return first < s.offset + s.size(); });
  for (int64_t i = 0; i < count; ++i) {
    while (first + i >= slot->offset + slot->size()) ++slot;
    const auto at = static_cast<size_t>(i);
    const float m = At(block.data(), at), v = At(block.data(), static_cast<size_t>(count) + at);
    const bool is_sane = std::isfinite(m) && std::isfinite(v) && v >= 0;
    if (!is_sane || !law.Allows(*slot, m, v)) {
      return DataLoss("moments: %g and %g of parameter %d of a block are of no optimizer", m, v, i);
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
