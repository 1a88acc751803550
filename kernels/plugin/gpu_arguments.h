// What the plug-in's operations are told (table.h), of what a backend's are (kernels/backend.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/plugin/table.h"

namespace skerry {

inline GpuTensor TensorOf(const ConstTensor& x) {
  return {const_cast<void*>(x.values), x.rows, x.columns, x.step,
          x.type == DType::kBfloat16 ? 1 : 0};
}

inline GpuAttention ArgsOf(const AttentionShape& s, const ConstTensor& q, const ConstTensor& k,
                           const ConstTensor& v, const ConstTensor& out) {
  GpuAttention args = {};
  args.sequences = s.sequences;
  args.context = s.context;
  args.heads = s.heads;
  args.kv_heads = s.kv_heads;
  args.head_size = s.head_size;
  args.q = TensorOf(q);
  args.k = TensorOf(k);
  args.v = TensorOf(v);
  args.out = TensorOf(out);
  return args;
}

inline std::vector<GpuRange> RangesOf(std::span<const UpdateRange> ranges, double learning_rate) {
  std::vector<GpuRange> out;
  for (const UpdateRange& r : ranges) {
    const double keep = 1 - learning_rate * static_cast<double>(r.weight_decay);
    out.push_back({r.offset, r.size, r.gradient_scale, static_cast<float>(keep)});
  }
  return out;
}

inline GpuUpdate UpdateOf(const std::vector<GpuRange>& ranges, const UpdateArrays& arrays) {
  GpuUpdate args = {};
  args.ranges = static_cast<int64_t>(ranges.size());
  args.host_ranges = ranges.data();
  args.gradient = arrays.gradient;
  args.parameters = arrays.parameters;
  args.rounded = reinterpret_cast<uint16_t*>(arrays.rounded);
  return args;
}

inline GpuCrossEntropy LossArgsOf(std::span<const int32_t> targets, const ConstMatrix& logits) {
  GpuCrossEntropy args = {};
  args.rows = logits.rows;
  args.vocabulary = logits.columns;
  args.host_targets = targets.data();
  args.logits = logits.values;
  return args;
}

}  // namespace skerry
