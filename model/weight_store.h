// The parameters of a stage on a backend: the float32 arena, and where the backend computes in bf16
// the rounded copy that products read, made once whenever parameters change.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/parameter_layout.h"

namespace skerry {

inline DType ComputeTypeOf(const InnerConfig& inner) {
  return inner.compute == InnerCompute::kBfloat16 ? DType::kBfloat16 : DType::kFloat32;
}

// Where weights are read: `rounded` is null where the backend computes in float32.
struct WeightArena {
  const float* values = nullptr;
  const Bf16* rounded = nullptr;
  // A matrix as products read it; `rows` may reach over tensors that lie next to each other.
  ConstTensor Product(const TensorSlot& slot, int64_t rows) const {
    if (rounded == nullptr) return ConstMatrix{values + slot.offset, rows, slot.columns};
    return {rounded + slot.offset, rows, slot.columns, slot.columns, DType::kBfloat16};
  }
};

// Owned by the thread that owns the backend, which outlives it.
class WeightStore {
 public:
  // ResourceExhausted if they do not fit.
  static absl::StatusOr<std::unique_ptr<WeightStore>> Create(int64_t size, Backend* backend);

  void Write(std::span<const float> values);  // [size]
  void Read(std::span<float> out);            // [size]

  // In host memory, to read and to change, [size]: the arena itself where the backend has it there,
  // else a copy made now, which HostChanged writes back. Nothing else uses the store in between.
  std::span<float> Host();
  void HostChanged();

  WeightArena arena() const { return {values_->data(), rounded()}; }
  // For the optimizer, which keeps `rounded` true itself, and for a group of devices, which says
  // Changed.
  void Changed() { Round(); }
  float* values() const { return values_->data(); }
  Bf16* rounded() const {
    return rounded_ == nullptr ? nullptr : reinterpret_cast<Bf16*>(rounded_->data());
  }
  int64_t HeldBytes() const;

 private:
  explicit WeightStore(Backend* backend) : backend_(backend) {}
  void Round();

  Backend* backend_;
  std::unique_ptr<Buffer> values_, rounded_;
  std::vector<float> host_;
};

}  // namespace skerry
