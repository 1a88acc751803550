// Causal attention on pairs of bf16, backward: the plan of attention_backward.h. Probabilities and
// their gradients are kept twice as the products read them: pairs along the keys for ∂q, pairs of
// rows for ∂k and ∂v. Sums over heads and blocks are float32.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

struct PairBackwardScratch {
  explicit PairBackwardScratch(const AttentionSizes& s, float* begin) : arena(begin) {
    const int64_t padded_context = Panels(s.context) * kPanel;
    const int64_t padded_head = Panels(s.head_size) * kPanel;
    constexpr int64_t kStep = ScoreStep(kBlockKeys);
    keys_by_row = arena.Take(padded_context * PairsIn(s.head_size));
    values_by_row = arena.Take(padded_context * PairsIn(s.head_size));
    keys_by_column = arena.Take(PairsIn(s.context) * padded_head);
    d_keys = arena.Take(s.context * padded_head);
    d_values = arena.Take(s.context * padded_head);
    queries = arena.Take(PairsIn(kPairBlockRows) * padded_head);
    d_outs = arena.Take(PairsIn(kPairBlockRows) * padded_head);
    d_queries = arena.Take(kPairBlockRows * padded_head);
    own = arena.Take(kPairBlockRows);
    scores = arena.Take(kPairRows * kStep);
    d_weights = arena.Take(kPairRows * kStep);
    p_pairs = arena.Take(PairsIn(kPairBlockRows) * kStep);
    d_pairs = arena.Take(PairsIn(kPairBlockRows) * kStep);
    d_rows = reinterpret_cast<Bf16*>(arena.Take(kPairBlockRows * kStep / 2));
  }
  Arena arena;
  float *keys_by_row, *values_by_row, *keys_by_column;  // panels of kᵀ, vᵀ, k, all in pairs
  float *d_keys, *d_values;                             // [C, padded e]
  float *queries, *d_outs;                              // panels of a block of rows, in pairs
  float* d_queries;                                     // [block, padded e]
  float* own;                                           // [block]
  float *scores, *d_weights;  // [tile rows, block keys]: q·kᵀ, ∂out·vᵀ
  float *p_pairs, *d_pairs;   // [block rows / 2, block keys]: p and ∂s, pairs of rows
  Bf16* d_rows;               // [block rows, block keys]: ∂s
};

struct PairBackwardBlock {
  const AttentionBackwardArgs<Bf16>& args;
  const PairBackwardScratch& scratch;
  float scale;
  int64_t token, head, row, row_end, key = 0, key_end = 0;

  static constexpr int64_t kStep = ScoreStep(kBlockKeys);
  const AttentionSizes& Sizes() const { return args.sizes; }
  int64_t PaddedHead() const { return Panels(Sizes().head_size) * kPanel; }
  int64_t At(int64_t i, int64_t step) const {
    return (token + i) * step + head * Sizes().head_size;
  }

  void PackQueries() const {
    const int64_t rows = row_end - row, head_size = Sizes().head_size;
    const Bf16* d_outs = args.d_out + At(row, args.out_step);
    PackColumnPairs(args.q + At(row, args.q_step), args.q_step, rows, head_size, scratch.queries);
    PackColumnPairs(d_outs, args.out_step, rows, head_size, scratch.d_outs);
    for (int64_t i = 0; i < rows * PaddedHead(); ++i) scratch.d_queries[i] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const Bf16 *d = d_outs + r * args.out_step, *out = args.out + At(row + r, args.out_step);
      Lanes sum = {};
      ForLanes(head_size, [&](int64_t x, auto load, auto) {
        sum = MultiplyAdd(load(d + x), load(out + x), sum);
      });
      scratch.own[r] = SumOf(sum);
    }
  }

  // p and ∂s of the tile of rows that begins at `first`, zero where masked.
  void ScoreTile(int64_t first, int64_t rows) const {
    const int64_t depth = Sizes().head_size / 2;
    const int64_t end = Panels(Smaller(key_end, first + rows) - key) * kPanel;
    for (int64_t j = 0; j < end; j += kPanel) {
      const int64_t panel = (key + j) * depth;
      MultiplyPairs(rows, {args.q + At(first, args.q_step), args.q_step / 2, 1, depth,
                           scratch.keys_by_row + panel, scratch.scores + j, kStep, false});
      MultiplyPairs(rows, {args.d_out + At(first, args.out_step), args.out_step / 2, 1, depth,
                           scratch.values_by_row + panel, scratch.d_weights + j, kStep, false});
    }
    for (int64_t r = 0; r < rows; r += 2) ScoreRows(first + r, r, r + 1 < rows, end);
  }

  struct Row {
    const float *p, *d;
    float lse2, own;  // log_sum_exp / ln 2; Σ ∂out·out
    int64_t visible;
  };

  Row RowAt(int64_t i, int64_t in_tile) const {
    return {scratch.scores + in_tile * kStep, scratch.d_weights + in_tile * kStep,
            args.log_sum_exp[(token + i) * Sizes().heads + head] * kLog2E, scratch.own[i - row],
            i < key ? 0 : Smaller(key_end, i + 1) - key};
  }

  // Rows i and i + 1; where there is no second one, zeros.
  void ScoreRows(int64_t i, int64_t in_tile, bool has_second, int64_t end) const {
    const Row low = RowAt(i, in_tile), high = has_second ? RowAt(i + 1, in_tile + 1) : low;
    const int64_t second_visible = has_second ? high.visible : 0;
    const int64_t at = (i - row) / 2 * kStep;
    Bf16* d_row = scratch.d_rows + (i - row) * kStep;
    for (int64_t j = 0; j < end; j += kLanes) {
      __m256i p_low, d_low, p_high, d_high;
      Differentiate(low, j, low.visible, p_low, d_low);
      Differentiate(high, j, second_visible, p_high, d_high);
      Store(scratch.p_pairs + at + j, Interleaved(p_low, p_high));
      Store(scratch.d_pairs + at + j, Interleaved(d_low, d_high));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(d_row + j), d_low);
      if (has_second) _mm256_storeu_si256(reinterpret_cast<__m256i*>(d_row + kStep + j), d_high);
    }
    // A tile of keys may begin at this row's last key, so as many again must read as zero.
    for (int64_t j = end; j < end + kPanel; j += kLanes) {
      Store(scratch.p_pairs + at + j, Lanes{});
      Store(scratch.d_pairs + at + j, Lanes{});
    }
  }

  void Differentiate(const Row& r, int64_t j, int64_t visible, __m256i& p, __m256i& d) const {
    Lanes e = RoughPowerOrZero(MultiplyAdd(Load(r.p + j), Spread(scale * kLog2E), Spread(-r.lse2)));
    if (visible - j < kLanes) e = FirstLanes(e, visible - j, Lanes{});
    Lanes slope = e * (Load(r.d + j) - r.own) * scale;
    // Masked keys may have infinite scores: zero times those is not zero.
    if (visible - j < kLanes) slope = FirstLanes(slope, visible - j, Lanes{});
    p = Narrowed(e);
    d = Narrowed(slope);
  }

  void AddKeyTile(int64_t first, int64_t keys) const {
    const int64_t start = row > first ? row : first, pairs = PairsIn(row_end - row);
    const int64_t skipped = (start - row) / 2, at = skipped * kStep + first - key;
    for (int64_t x = 0; x < PaddedHead(); x += kPanel) {
      const int64_t panel = x * pairs + skipped * kPanel;
      const int64_t to = first * PaddedHead() + x;
      MultiplyPairs(keys, {scratch.p_pairs + at, 1, kStep, pairs - skipped, scratch.d_outs + panel,
                           scratch.d_values + to, PaddedHead(), true});
      MultiplyPairs(keys, {scratch.d_pairs + at, 1, kStep, pairs - skipped, scratch.queries + panel,
                           scratch.d_keys + to, PaddedHead(), true});
    }
  }

  void AddQueryTile(int64_t first, int64_t rows) const {
    const int64_t keys = Smaller(key_end, first + rows) - key;
    for (int64_t x = 0; x < PaddedHead(); x += kPanel) {
      MultiplyPairs(rows,
                    {scratch.d_rows + (first - row) * kStep, kStep / 2, 1, PairsIn(keys),
                     scratch.keys_by_column + x * PairsIn(Sizes().context) + key / 2 * kPanel,
                     scratch.d_queries + (first - row) * PaddedHead() + x, PaddedHead(), true});
    }
  }

  // Tiles of rows that end before the block of keys begins see none of it. Tiles and blocks are of
  // even sizes, so pairs of rows never straddle two of them.
  void AddKeys() const {
    static_assert(kPairRows % 2 == 0 && kPairBlockRows % 2 == 0 && kBlockKeys % 2 == 0);
    const int64_t skipped = key > row ? (key - row) / kPairRows * kPairRows : 0;
    for (int64_t i = row + skipped; i < row_end; i += kPairRows)
      ScoreTile(i, Smaller(kPairRows, row_end - i));
    for (int64_t j = key; j < key_end; j += kPairRows)
      AddKeyTile(j, Smaller(kPairRows, key_end - j));
    for (int64_t i = row + skipped; i < row_end; i += kPairRows)
      AddQueryTile(i, Smaller(kPairRows, row_end - i));
  }

  void StoreQueries() const {
    for (int64_t i = row; i < row_end; ++i) {
      Convert(scratch.d_queries + (i - row) * PaddedHead(), args.d_q + At(i, args.d_q_step),
              Sizes().head_size);
    }
  }
};

void PairBackwardHead(const AttentionBackwardArgs<Bf16>& args, const PairBackwardScratch& scratch,
                      int64_t token, int64_t head) {
  const int64_t context = args.sizes.context;
  for (int64_t row = 0; row < context; row += kPairBlockRows) {
    const int64_t row_end = Smaller(row + kPairBlockRows, context);
    PairBackwardBlock block = {args, scratch, AttentionScale(args.sizes), token, head,
                               row,  row_end};
    block.PackQueries();
    for (block.key = 0; block.key < row_end; block.key += kBlockKeys) {
      block.key_end = Smaller(block.key + kBlockKeys, row_end);
      block.AddKeys();
    }
    block.StoreQueries();
  }
}

void PairAttentionBackward(const AttentionBackwardArgs<Bf16>& args, const AttentionUnits& units) {
  if (!InPairs(args) || args.out_step % 2 != 0) return AttentionBackward<Bf16>(args, units);
  const AttentionSizes& s = args.sizes;
  BeginPairs();
  const PairBackwardScratch scratch(s, args.scratch);
  const int64_t group = s.heads / s.kv_heads, padded_head = Panels(s.head_size) * kPanel;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t token = unit / s.kv_heads * s.context, kv = unit % s.kv_heads;
    const int64_t at = token * args.kv_step + kv * s.head_size;
    PackRowPairs(args.k + at, args.kv_step, s.context, s.head_size, scratch.keys_by_row);
    PackRowPairs(args.v + at, args.kv_step, s.context, s.head_size, scratch.values_by_row);
    PackColumnPairs(args.k + at, args.kv_step, s.context, s.head_size, scratch.keys_by_column);
    for (int64_t i = 0; i < s.context * padded_head; ++i)
      scratch.d_keys[i] = scratch.d_values[i] = 0;
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
      PairBackwardHead(args, scratch, token, head);
    const int64_t to = token * args.d_kv_step + kv * s.head_size;
    for (int64_t i = 0; i < s.context; ++i) {
      Convert(scratch.d_keys + i * padded_head, args.d_k + to + i * args.d_kv_step, s.head_size);
      Convert(scratch.d_values + i * padded_head, args.d_v + to + i * args.d_kv_step, s.head_size);
    }
  }
  EndPairs();
}

int64_t PairAttentionScratch(const AttentionSizes& sizes) {
  const int64_t forward = PairForwardScratch(sizes, nullptr).arena.used();
  const int64_t backward = PairBackwardScratch(sizes, nullptr).arena.used();
  const int64_t pairs = forward > backward ? forward : backward;
  const int64_t general = AttentionScratch(sizes);
  return pairs > general ? pairs : general;
}

}  // namespace
}  // namespace skerry
