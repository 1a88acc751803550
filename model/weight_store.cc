#include "model/weight_store.h"

#include "common/check.h"
#include "common/status.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<WeightStore>> WeightStore::Create(int64_t size, Backend* backend) {
  std::unique_ptr<WeightStore> store(new WeightStore(backend));
  SKERRY_ASSIGN_OR_RETURN(store->values_, backend->Allocate(size));
  if (backend->compute_type() == DType::kBfloat16) {
    SKERRY_ASSIGN_OR_RETURN(store->rounded_, backend->Allocate((size + 1) / 2));
  }
  return store;
}

void WeightStore::Write(std::span<const float> values) {
  const int64_t size = values_->size();
  SKERRY_CHECK(std::ssize(values) == size);
  backend_->Upload(values, values_->data());
  if (rounded_ != nullptr) {
    backend_->Cast(ConstMatrix{values_->data(), 1, size},
                   Tensor(rounded(), 1, size, size, DType::kBfloat16));
  }
  backend_->Synchronize();
}

void WeightStore::Read(std::span<float> out) {
  SKERRY_CHECK(std::ssize(out) == values_->size());
  backend_->Download(values_->data(), out);
  backend_->Synchronize();
}

int64_t WeightStore::HeldBytes() const {
  const int64_t floats = values_->size() + (rounded_ == nullptr ? 0 : rounded_->size());
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace skerry
