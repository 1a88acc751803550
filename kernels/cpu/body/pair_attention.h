// Causal attention on pairs of bf16, forward: the plan of attention.h with products of
// pair_product.h. Softmax is float32; probabilities are rounded to bf16 before they meet the
// values.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

// Pairs need even head sizes and steps; what has others goes the general way.
template <typename Args>
inline bool InPairs(const Args& args) {
  return args.sizes.head_size % 2 == 0 && args.q_step % 2 == 0 && args.kv_step % 2 == 0;
}

constexpr int64_t PairsIn(int64_t values) {
  return (values + 1) / 2;
}

struct PairForwardScratch {
  explicit PairForwardScratch(const AttentionSizes& s, float* begin) : arena(begin) {
    const int64_t padded_context = Panels(s.context) * kPanel;
    const int64_t padded_head = Panels(s.head_size) * kPanel;
    key_panels = arena.Take(padded_context * PairsIn(s.head_size));
    value_panels = arena.Take(PairsIn(s.context) * padded_head);
    scores = arena.Take(kPairRows * ScoreStep(s.context));
    weights = reinterpret_cast<Bf16*>(arena.Take(kPairRows * ScoreStep(s.context) / 2));
    sums = arena.Take(kPairRows * padded_head);
  }
  Arena arena;
  float *key_panels, *value_panels, *scores;
  Bf16* weights;  // the scores' exponentials
  float* sums;
};

// As ExponentiateRow, with the exponentials in `weights`.
inline SoftmaxRow ExponentiatePairRow(float* row, int64_t visible, int64_t end, float scale,
                                      Bf16* weights) {
  const int64_t whole = visible / kLanes * kLanes;
  Lanes top = Spread(-kHuge);
  for (int64_t j = 0; j < whole; j += kLanes) top = Larger(Load(row + j), top);
  for (int64_t j = whole; j < end; j += kLanes) {
    const Lanes masked = FirstLanes(Load(row + j), visible - j, Spread(-kHuge));
    Store(row + j, masked);
    top = Larger(masked, top);
  }
  const float scaled_top = LargestOf(top) * scale;
  const Lanes scale2 = Spread(scale * kLog2E), top2 = Spread(-scaled_top * kLog2E);
  Lanes sum = {};
  for (int64_t j = 0; j < end; j += kLanes) {
    const Lanes e = RoughPowerOrZero(MultiplyAdd(Load(row + j), scale2, top2));
    Store(weights + j, e);
    sum += e;
  }
  return {scaled_top, SumOf(sum)};
}

struct PairForwardHead {
  const AttentionForwardArgs<Bf16>& args;
  const PairForwardScratch& scratch;
  float scale;
  int64_t token, head;

  void Tile(int64_t first, int64_t rows) const {
    const AttentionSizes& s = args.sizes;
    const int64_t step = ScoreStep(s.context), depth = s.head_size / 2;
    const int64_t keys = first + rows, panels = Panels(keys);
    const Bf16* q = args.q + (token + first) * args.q_step + head * s.head_size;
    for (int64_t p = 0; p < panels; ++p) {
      MultiplyPairs(rows, {q, args.q_step / 2, 1, depth, scratch.key_panels + p * kPanel * depth,
                           scratch.scores + p * kPanel, step, false});
    }
    float inverse_sum[kPairRows];
    for (int64_t r = 0; r < rows; ++r) {
      const SoftmaxRow row =
          ExponentiatePairRow(scratch.scores + r * step, first + r + 1, panels * kPanel, scale,
                              scratch.weights + r * step);
      inverse_sum[r] = 1 / row.sum;
      args.log_sum_exp[(token + first + r) * s.heads + head] =
          row.scaled_top + __builtin_logf(row.sum);
    }
    WriteOut(first, rows, keys, inverse_sum);
  }

  void WriteOut(int64_t first, int64_t rows, int64_t keys, const float* inverse_sum) const {
    const AttentionSizes& s = args.sizes;
    const int64_t head_panels = Panels(s.head_size), padded_head = head_panels * kPanel;
    for (int64_t p = 0; p < head_panels; ++p) {
      MultiplyPairs(rows, {scratch.weights, ScoreStep(s.context) / 2, 1, PairsIn(keys),
                           scratch.value_panels + p * PairsIn(s.context) * kPanel,
                           scratch.sums + p * kPanel, padded_head, false});
    }
    Bf16* out = args.out + (token + first) * args.out_step + head * s.head_size;
    for (int64_t r = 0; r < rows; ++r) {
      ForLanes(s.head_size, [&](int64_t x, auto load, auto store) {
        store(out + r * args.out_step + x,
              load(scratch.sums + r * padded_head + x) * inverse_sum[r]);
      });
    }
  }
};

void PairAttentionForward(const AttentionForwardArgs<Bf16>& args, const AttentionUnits& units) {
  if (!InPairs(args)) return AttentionForward<Bf16>(args, units);
  const AttentionSizes& s = args.sizes;
  BeginPairs();
  const PairForwardScratch scratch(s, args.scratch);
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t token = unit / s.kv_heads * s.context, kv = unit % s.kv_heads;
    const int64_t at = token * args.kv_step + kv * s.head_size;
    PackRowPairs(args.k + at, args.kv_step, s.context, s.head_size, scratch.key_panels);
    PackColumnPairs(args.v + at, args.kv_step, s.context, s.head_size, scratch.value_panels);
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const PairForwardHead forward = {args, scratch, AttentionScale(s), token, head};
      for (int64_t i = 0; i < s.context; i += kPairRows)
        forward.Tile(i, Smaller(kPairRows, s.context - i));
    }
  }
  EndPairs();
}

}  // namespace
}  // namespace skerry
