// Causal attention, backward, after FlashAttention (Dao and others 2022, section 3.1): the
// probabilities p are computed again from log_sum_exp, block by block, and with
// own = Σ ∂out·out per row
//   ∂v += pᵀ·∂out    ∂s = p·(∂out·vᵀ − own)·scale    ∂q = ∂s·k    ∂k += ∂sᵀ·q.
// Gradients of keys and values add up over the heads of a group and the blocks of rows, always in
// the same order.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

struct BackwardScratch {
  explicit BackwardScratch(const AttentionSizes& s, float* begin) : arena(begin) {
    const int64_t padded_context = Panels(s.context) * kPanel;
    const int64_t padded_head = Panels(s.head_size) * kPanel;
    keys_by_row = arena.Take(padded_context * s.head_size);
    values_by_row = arena.Take(padded_context * s.head_size);
    keys_by_column = arena.Take(s.context * padded_head);
    d_keys = arena.Take(s.context * padded_head);
    d_values = arena.Take(s.context * padded_head);
    queries = arena.Take(kBlockRows * padded_head);
    d_outs = arena.Take(kBlockRows * padded_head);
    d_queries = arena.Take(kBlockRows * padded_head);
    own = arena.Take(kBlockRows);
    float_queries = arena.Take(kBlockRows * padded_head);
    float_d_outs = arena.Take(kBlockRows * padded_head);
    p = arena.Take(kBlockRows * ScoreStep(kBlockKeys));
    d_scores = arena.Take(kBlockRows * ScoreStep(kBlockKeys));
  }
  Arena arena;
  float *keys_by_row, *values_by_row, *keys_by_column;  // panels of kᵀ, vᵀ, k
  float *d_keys, *d_values;                             // [C, padded e]
  float *queries, *d_outs;                              // panels of a block of rows
  float* d_queries;                                     // [block, padded e]
  float* own;                                           // [block]
  float *float_queries, *float_d_outs;                  // [block, e] as float32
  float *p, *d_scores;                                  // [block rows, block keys]
};

// Query rows [row, row_end) of one head against keys [key, key_end); positions in the sequence.
template <typename T>
struct BackwardBlock {
  const AttentionBackwardArgs<T>& args;
  const BackwardScratch& scratch;
  float scale;
  int64_t token, head, row, row_end, key = 0, key_end = 0;
  FloatRows q = {}, d_out = {};  // of the block

  const AttentionSizes& Sizes() const { return args.sizes; }
  int64_t PaddedHead() const { return Panels(Sizes().head_size) * kPanel; }
  int64_t At(int64_t i, int64_t step) const {
    return (token + i) * step + head * Sizes().head_size;
  }
  static constexpr int64_t kStep = ScoreStep(kBlockKeys);

  void PackQueries() {
    const int64_t rows = row_end - row, head_size = Sizes().head_size;
    const T* d_outs = args.d_out + At(row, args.out_step);
    q = AsFloats(args.q + At(row, args.q_step), args.q_step, rows, head_size,
                 scratch.float_queries);
    d_out = AsFloats(d_outs, args.out_step, rows, head_size, scratch.float_d_outs);
    PackColumns(q.at, q.step, rows, head_size, scratch.queries);
    PackColumns(d_out.at, d_out.step, rows, head_size, scratch.d_outs);
    for (int64_t i = 0; i < rows * PaddedHead(); ++i) scratch.d_queries[i] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T *d = d_outs + r * args.out_step, *out = args.out + At(row + r, args.out_step);
      Lanes sum = {};
      ForLanes(head_size, [&](int64_t x, auto load, auto) {
        sum = MultiplyAdd(load(d + x), load(out + x), sum);
      });
      scratch.own[r] = SumOf(sum);
    }
  }

  // p and ∂s of the tile of rows that begins at `first`, zero where masked.
  void ScoreTile(int64_t first, int64_t rows) const {
    const int64_t head_size = Sizes().head_size;
    const int64_t end = Panels(Smaller(key_end, first + rows) - key) * kPanel;
    float* p = scratch.p + (first - row) * kStep;
    float* d = scratch.d_scores + (first - row) * kStep;
    for (int64_t j = 0; j < end; j += kPanel) {
      const int64_t panel = (key + j) * head_size;
      Multiply(rows, {q.at + (first - row) * q.step, q.step, 1, head_size,
                      scratch.keys_by_row + panel, p + j, kStep, false});
      Multiply(rows, {d_out.at + (first - row) * d_out.step, d_out.step, 1, head_size,
                      scratch.values_by_row + panel, d + j, kStep, false});
    }
    for (int64_t r = 0; r < rows; ++r) ScoreRow(first + r, p + r * kStep, d + r * kStep, end);
  }

  void ScoreRow(int64_t i, float* p, float* d, int64_t end) const {
    const float lse = args.log_sum_exp[(token + i) * Sizes().heads + head];
    const float own = scratch.own[i - row];
    const int64_t visible = i < key ? 0 : Smaller(key_end, i + 1) - key;
    const int64_t whole = visible / kLanes * kLanes;
    const auto differentiate = [&](int64_t j, auto mask) {
      const Lanes e = mask(Exp(MultiplyAdd(Load(p + j), Spread(scale), Spread(-lse))));
      Store(p + j, e);
      Store(d + j, e * (Load(d + j) - own) * scale);
    };
    for (int64_t j = 0; j < whole; j += kLanes) differentiate(j, [](Lanes e) { return e; });
    for (int64_t j = whole; j < end; j += kLanes)
      differentiate(j, [&](Lanes e) { return FirstLanes(e, visible - j, Lanes{}); });
    // A tile of keys may begin at this row's last key, so as many again must read as zero.
    for (int64_t j = end; j < end + kPanel; j += kLanes) {
      Store(p + j, Lanes{});
      Store(d + j, Lanes{});
    }
  }

  void AddKeyTile(int64_t first, int64_t keys) const {
    const int64_t start = row > first ? row : first, rows = row_end - row;
    const int64_t at = (start - row) * kStep + first - key;
    for (int64_t x = 0; x < PaddedHead(); x += kPanel) {
      const int64_t panel = x * rows + (start - row) * kPanel;
      const int64_t to = first * PaddedHead() + x;
      Multiply(keys, {scratch.p + at, 1, kStep, row_end - start, scratch.d_outs + panel,
                      scratch.d_values + to, PaddedHead(), true});
      Multiply(keys, {scratch.d_scores + at, 1, kStep, row_end - start, scratch.queries + panel,
                      scratch.d_keys + to, PaddedHead(), true});
    }
  }

  void AddQueryTile(int64_t first, int64_t rows) const {
    const int64_t keys = Smaller(key_end, first + rows) - key;
    for (int64_t x = 0; x < PaddedHead(); x += kPanel) {
      Multiply(rows, {scratch.d_scores + (first - row) * kStep, kStep, 1, keys,
                      scratch.keys_by_column + x * Sizes().context + key * kPanel,
                      scratch.d_queries + (first - row) * PaddedHead() + x, PaddedHead(), true});
    }
  }

  // Tiles of rows that end before the block of keys begins see none of it.
  void AddKeys() const {
    const int64_t skipped = key > row ? (key - row) / kTileRows * kTileRows : 0;
    for (int64_t i = row + skipped; i < row_end; i += kTileRows)
      ScoreTile(i, Smaller(kTileRows, row_end - i));
    for (int64_t j = key; j < key_end; j += kTileRows)
      AddKeyTile(j, Smaller(kTileRows, key_end - j));
    for (int64_t i = row + skipped; i < row_end; i += kTileRows)
      AddQueryTile(i, Smaller(kTileRows, row_end - i));
  }

  void StoreQueries() const {
    for (int64_t i = row; i < row_end; ++i) {
      const float* from = scratch.d_queries + (i - row) * PaddedHead();
      Convert(from, args.d_q + At(i, args.d_q_step), Sizes().head_size);
    }
  }
};

template <typename T>
void BackwardHead(const AttentionBackwardArgs<T>& args, const BackwardScratch& scratch,
                  int64_t token, int64_t head) {
  const int64_t context = args.sizes.context;
  for (int64_t row = 0; row < context; row += kBlockRows) {
    const int64_t row_end = Smaller(row + kBlockRows, context);
    BackwardBlock<T> block = {args, scratch, AttentionScale(args.sizes), token, head, row, row_end};
    block.PackQueries();
    for (block.key = 0; block.key < row_end; block.key += kBlockKeys) {
      block.key_end = Smaller(block.key + kBlockKeys, row_end);
      block.AddKeys();
    }
    block.StoreQueries();
  }
}

template <typename T>
void AttentionBackward(const AttentionBackwardArgs<T>& args, const AttentionUnits& units) {
  const AttentionSizes& s = args.sizes;
  const BackwardScratch scratch(s, args.scratch);
  const int64_t group = s.heads / s.kv_heads, padded_head = Panels(s.head_size) * kPanel;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t token = unit / s.kv_heads * s.context, kv = unit % s.kv_heads;
    const int64_t at = token * args.kv_step + kv * s.head_size;
    PackRows(args.k + at, args.kv_step, s.context, s.head_size, scratch.keys_by_row);
    PackRows(args.v + at, args.kv_step, s.context, s.head_size, scratch.values_by_row);
    PackColumns(args.k + at, args.kv_step, s.context, s.head_size, scratch.keys_by_column);
    for (int64_t i = 0; i < s.context * padded_head; ++i)
      scratch.d_keys[i] = scratch.d_values[i] = 0;
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
      BackwardHead(args, scratch, token, head);
    const int64_t to = token * args.d_kv_step + kv * s.head_size;
    for (int64_t i = 0; i < s.context; ++i) {
      Convert(scratch.d_keys + i * padded_head, args.d_k + to + i * args.d_kv_step, s.head_size);
      Convert(scratch.d_values + i * padded_head, args.d_v + to + i * args.d_kv_step, s.head_size);
    }
  }
}

// What the larger of both passes takes.
int64_t AttentionScratch(const AttentionSizes& sizes) {
  const int64_t forward = ForwardScratch(sizes, nullptr).arena.used();
  const int64_t backward = BackwardScratch(sizes, nullptr).arena.used();
  return forward > backward ? forward : backward;
}

}  // namespace
}  // namespace skerry
