// Causal attention, forward. Query rows go in register tiles; a tile sees the keys up to its last
// row (rounded up to a panel), so the masked half is never computed. One tile's scores over all
// keys stay in the first cache. Keys and values are packed once per kv head and serve its group.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

// Bounds the scores that the backward pass keeps: blocks of kBlockRows query rows by these.
constexpr int64_t kBlockKeys = 256;

// Row step of a block of scores over `keys` keys. The extra panel keeps rows out of each other's
// cache sets and takes what tiles write past the last key.
constexpr int64_t ScoreStep(int64_t keys) {
  return (Panels(keys) + 1) * kPanel;
}

// Hands out pieces of the scratch, each of whole cache lines. Over nullptr it only counts.
class Arena {
 public:
  explicit Arena(float* begin) : begin_(begin) {}
  float* Take(int64_t floats) {
    float* piece = begin_ == nullptr ? nullptr : begin_ + used_;
    used_ += Panels(floats) * kPanel;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* begin_;
  int64_t used_ = 0;
};

struct ForwardScratch {
  explicit ForwardScratch(const AttentionSizes& s, float* begin) : arena(begin) {
    const int64_t padded_context = Panels(s.context) * kPanel;
    const int64_t padded_head = Panels(s.head_size) * kPanel;
    key_panels = arena.Take(padded_context * s.head_size);
    value_panels = arena.Take(s.context * padded_head);
    scores = arena.Take(kTileRows * ScoreStep(s.context));
    sums = arena.Take(kTileRows * padded_head);
    queries = arena.Take(kTileRows * padded_head);
  }
  Arena arena;
  float *key_panels, *value_panels, *scores, *sums;
  float* queries;  // a tile as float32
};

// One row of raw scores becomes e^(scale·(score − top)) over the `visible` ≥ 1 keys, and zeros from
// there to `end`, a multiple of kPanel.
struct SoftmaxRow {
  float scaled_top;
  float sum;
};

inline SoftmaxRow ExponentiateRow(float* row, int64_t visible, int64_t end, float scale) {
  const int64_t whole = visible / kLanes * kLanes;
  Lanes top = Spread(-kHuge);
  for (int64_t j = 0; j < whole; j += kLanes) top = Larger(Load(row + j), top);
  for (int64_t j = whole; j < end; j += kLanes) {
    const Lanes masked = FirstLanes(Load(row + j), visible - j, Spread(-kHuge));
    Store(row + j, masked);
    top = Larger(masked, top);
  }
  const float scaled_top = LargestOf(top) * scale;
  Lanes sum = {};
  for (int64_t j = 0; j < end; j += kLanes) {
    const Lanes e = Exp(MultiplyAdd(Load(row + j), Spread(scale), Spread(-scaled_top)));
    Store(row + j, e);
    sum += e;
  }
  return {scaled_top, SumOf(sum)};
}

// One query head over its packed keys and values.
template <typename T>
struct ForwardHead {
  const AttentionForwardArgs<T>& args;
  const ForwardScratch& scratch;
  float scale;
  int64_t token, head;  // first token of the sequence; head of the query

  void Tile(int64_t first, int64_t rows) const {
    const AttentionSizes& s = args.sizes;
    const int64_t step = ScoreStep(s.context);
    const int64_t keys = first + rows, panels = Panels(keys);
    const FloatRows q = AsFloats(args.q + (token + first) * args.q_step + head * s.head_size,
                                 args.q_step, rows, s.head_size, scratch.queries);
    for (int64_t p = 0; p < panels; ++p) {
      Multiply(rows, {q.at, q.step, 1, s.head_size, scratch.key_panels + p * kPanel * s.head_size,
                      scratch.scores + p * kPanel, step, false});
    }
    float inverse_sum[kTileRows];
    for (int64_t r = 0; r < rows; ++r) {
      const SoftmaxRow row =
          ExponentiateRow(scratch.scores + r * step, first + r + 1, panels * kPanel, scale);
      inverse_sum[r] = 1 / row.sum;
      args.log_sum_exp[(token + first + r) * s.heads + head] =
          row.scaled_top + __builtin_logf(row.sum);
    }
    const int64_t head_panels = Panels(s.head_size), padded_head = head_panels * kPanel;
    for (int64_t p = 0; p < head_panels; ++p) {
      Multiply(rows, {scratch.scores, step, 1, keys, scratch.value_panels + p * s.context * kPanel,
                      scratch.sums + p * kPanel, padded_head, false});
    }
    T* out = args.out + (token + first) * args.out_step + head * s.head_size;
    for (int64_t r = 0; r < rows; ++r) {
      ForLanes(s.head_size, [&](int64_t x, auto load, auto store) {
        store(out + r * args.out_step + x,
              load(scratch.sums + r * padded_head + x) * inverse_sum[r]);
      });
    }
  }
};

inline float AttentionScale(const AttentionSizes& s) {
  return 1 / __builtin_sqrtf(static_cast<float>(s.head_size));
}

template <typename T>
void AttentionForward(const AttentionForwardArgs<T>& args, const AttentionUnits& units) {
  const AttentionSizes& s = args.sizes;
  const ForwardScratch scratch(s, args.scratch);
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t token = unit / s.kv_heads * s.context, kv = unit % s.kv_heads;
    const int64_t at = token * args.kv_step + kv * s.head_size;
    PackRows(args.k + at, args.kv_step, s.context, s.head_size, scratch.key_panels);
    PackColumns(args.v + at, args.kv_step, s.context, s.head_size, scratch.value_panels);
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const ForwardHead<T> forward = {args, scratch, AttentionScale(s), token, head};
      for (int64_t i = 0; i < s.context; i += kTileRows)
        forward.Tile(i, Smaller(kTileRows, s.context - i));
    }
  }
}

}  // namespace
}  // namespace skerry
