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
  SKERRY_CHECK(std::ssize(values) == values_->size());
  backend_->Upload(values, values_->data());
  Round();
}

void WeightStore::Round() {
  const int64_t size = values_->size();
  if (rounded_ != nullptr) {
    backend_->Cast(ConstMatrix{values_->data(), 1, size},
                   Tensor(rounded(), 1, size, size, DType::kBfloat16));
  }
  backend_->Synchronize();
}

std::span<float> WeightStore::Host() {
  const auto size = static_cast<size_t>(values_->size());
  if (backend_->is_host()) {
    backend_->Synchronize();
    return {values_->data(), size};
  }
  host_.resize(size);
  Read(host_);
  return host_;
}

void WeightStore::HostChanged() {
  if (!backend_->is_host()) return Write(host_);
  Round();
}

void WeightStore::Read(std::span<float> out) {
  SKERRY_CHECK(std::ssize(out) == values_->size());
  backend_->Download(values_->data(), out);
  backend_->Synchronize();
}

int64_t WeightStore::HeldBytes() const {
  const int64_t floats = values_->size() + (rounded_ == nullptr ? 0 : rounded_->size());
  return (floats + std::ssize(host_)) * static_cast<int64_t>(sizeof(float));
}

}  // namespace skerry
