#include "common/device_split.h"

#include "common/status.h"

namespace skerry {

VocabRows VocabRowsOf(int64_t vocab, const TensorShard& shard) {
  constexpr int64_t kStep = 8;
  const int64_t step = vocab >= kStep * shard.devices ? kStep : 1;
  const auto first = [&](int64_t rank) {
    return rank == shard.devices ? vocab : vocab * rank / shard.devices / step * step;
  };
  return {first(shard.rank), first(shard.rank + 1) - first(shard.rank)};
}

absl::Status CheckTensorSplit(const RunConfig& config, int32_t devices) {
  const TransformerConfig& model = config.model;
  if (devices <= 1) return absl::OkStatus();
  if (config.inner.optimizer == InnerOptimizer::kMuon) {
    return InvalidArgument(
        "--split tensors gives each of %d devices a part of every matrix, and this run's "
        "optimizer, "
        "Muon, needs whole ones; use --split sequences",
        devices);
  }
  if (model.vocab < devices) {
    return InvalidArgument(
        "--split tensors over %d devices wants a vocabulary of so many tokens, and this run's "
        "model has %d; use fewer devices, or --split sequences",
        devices, model.vocab);
  }
  const bool fits =
      model.heads % devices == 0 && model.kv_heads % devices == 0 && model.ffn % devices == 0;
  if (fits) return absl::OkStatus();
  return InvalidArgument(
      "--split tensors over %d devices wants heads, kv_heads and ffn that are multiples of %d, and "
      "this run's model has %d, %d and %d; use another number of devices, or --split sequences",
      devices, devices, model.heads, model.kv_heads, model.ffn);
}

}  // namespace skerry
