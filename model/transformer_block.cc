#include "model/transformer_block.h"

#include "common/check.h"
#include "model/block_halves.h"

namespace skerry {

PassShape PassShape::Of(const TransformerConfig& config, int64_t sequences, int64_t context,
                        DType compute) {
  PassShape shape;
  shape.attention = {sequences, context, config.heads, config.kv_heads, config.head_size()};
  shape.hidden = config.hidden;
  shape.ffn = config.ffn;
  shape.vocab = config.vocab;
  shape.rope = RopeAngles(config);
  shape.norm_epsilon = config.norm_epsilon;
  shape.mean_tokens = shape.tokens();
  shape.ladder = config.ladder;
  shape.compute = compute;
  return shape;
}

PassShape PassShape::Share(const TensorShard& of) const {
  PassShape share = *this;
  share.attention.heads /= of.devices;
  share.attention.kv_heads /= of.devices;
  share.ffn /= of.devices;
  const VocabRows rows = VocabRowsOf(vocab, of);
  share.vocab = rows.size;
  share.first_token = rows.first;
  share.shard = of;
  return share;
}

QkvColumns::QkvColumns(const PassShape& shape, const Tensor& qkv)
    : q(qkv.Columns(0, shape.q_width())),
      k(qkv.Columns(shape.q_width(), shape.kv_width())),
      v(qkv.Columns(shape.q_width() + shape.kv_width(), shape.kv_width())) {}

namespace {

// Tensors of a layer that lie next to each other, as one.
struct Stacked {
  const TensorSlot* first;
  int64_t rows;
};

struct BlockSlots {
  BlockSlots(const ParameterLayout& layout, int32_t layer) {
    const auto find = [&](const char* part) {
      const TensorSlot* slot = layout.Find(LayerTensorName(layer, part));
      SKERRY_CHECK(slot != nullptr, "the stage holds this layer");
      return slot;
    };
    const auto stack = [&](std::initializer_list<const char*> parts) {
      Stacked stacked{find(*parts.begin()), 0};
      for (const char* part : parts) {
        const TensorSlot* slot = find(part);
        SKERRY_CHECK(slot->offset == stacked.first->offset + stacked.rows * slot->columns);
        stacked.rows += slot->rows;
      }
      return stacked;
    };
    input_norm = find("input_layernorm")->offset;
    qkv = stack({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    const TensorSlot* bias = layout.Find(LayerBiasName(layer, "self_attn.q_proj"));
    has_bias = bias != nullptr;
    qkv_bias = has_bias ? bias->offset : 0;
    o = stack({"self_attn.o_proj"});
    post_norm = find("post_attention_layernorm")->offset;
    gate_up = stack({"mlp.gate_proj", "mlp.up_proj"});
    down = stack({"mlp.down_proj"});
  }
  int64_t input_norm, post_norm, qkv_bias;
  bool has_bias;
  Stacked qkv, o, gate_up, down;
};

}  // namespace

BlockWeights BlockWeights::At(const ParameterLayout& layout, int32_t layer,
                              const WeightArena& arena) {
  const BlockSlots slots(layout, layer);
  const auto product = [&](const Stacked& s) { return arena.Product(*s.first, s.rows); };
  return {arena.values + slots.input_norm,
          product(slots.qkv),
          slots.has_bias ? arena.values + slots.qkv_bias : nullptr,
          product(slots.o),
          arena.values + slots.post_norm,
          product(slots.gate_up),
          product(slots.down)};
}

BlockGradients BlockGradients::At(const ParameterLayout& layout, int32_t layer, float* arena) {
  const BlockSlots slots(layout, layer);
  const auto matrix = [&](const Stacked& s) {
    return Matrix{arena + s.first->offset, s.rows, s.first->columns};
  };
  return {arena + slots.input_norm,
          matrix(slots.qkv),
          slots.has_bias ? arena + slots.qkv_bias : nullptr,
          matrix(slots.o),
          arena + slots.post_norm,
          matrix(slots.gate_up),
          matrix(slots.down)};
}

BlockStash::BlockStash(const PassShape& shape, FloatCarver& carver, bool reads_once) {
  x = carver.TakeMatrix(shape.tokens(), shape.hidden);
  TakeStatistics(shape, carver, reads_once);
  TakeActivations(shape, carver);
}

BlockStash BlockStash::Shared(const PassShape& shape, FloatCarver& carver) {
  BlockStash stash;
  if (shape.ladder == 0) stash.TakeStatistics(shape, carver, false);
  stash.TakeActivations(shape, carver);
  return stash;
}

BlockStash BlockStash::InputOnly(const PassShape& shape, const BlockStash& shared,
                                 FloatCarver& carver, bool reads_once) {
  BlockStash stash = shared;
  stash.x = carver.TakeMatrix(shape.tokens(), shape.hidden);
  if (shape.ladder > 0) stash.TakeStatistics(shape, carver, reads_once);
  return stash;
}

void BlockStash::TakeStatistics(const PassShape& shape, FloatCarver& carver, bool reads_once) {
  inverse_rms1 = carver.Take(shape.tokens());
  inverse_rms2 = carver.Take(shape.tokens());
  y = reads_once ? x : carver.TakeMatrix(shape.tokens(), shape.hidden);
}

void BlockStash::TakeActivations(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  qkv = carver.TakeTensor(t, shape.qkv_width(), shape.compute);
  attention = carver.TakeTensor(t, shape.q_width(), shape.compute);
  log_sum_exp = carver.Take(t * shape.attention.heads);
  gate_up = carver.TakeTensor(t, 2 * shape.ffn, shape.compute);
}

BlockScratch::BlockScratch(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  const DType type = shape.compute;
  branch = mlp_branch = carver.TakeMatrix(t, shape.hidden);
  normed = carver.TakeTensor(t, shape.hidden, type);
  product = carver.TakeTensor(t, shape.ffn, type);
  if (type != DType::kFloat32) rounded = carver.TakeTensor(t, shape.hidden, type);
  d_normed = mlp_d_normed = carver.TakeTensor(t, shape.hidden, type);
  d_attention = carver.TakeTensor(t, shape.q_width(), type);
  d_qkv = carver.TakeTensor(t, shape.qkv_width(), type);
  d_product = carver.TakeTensor(t, shape.ffn, type);
  d_gate_up = carver.TakeTensor(t, 2 * shape.ffn, type);
  inverse_rms = carver.Take(t);
  if (shape.ladder == 0) return;
  mlp_branch = carver.TakeMatrix(t, shape.hidden);
  mlp_d_normed = {mlp_branch.values, t, shape.hidden, shape.hidden, type};
}

namespace {

// scratch.branch becomes that of all devices.
void SumBranch(const BlockScratch& scratch) {
  if (scratch.sum != nullptr) scratch.sum->Add(scratch.branch.values, scratch.branch.size());
}

// scratch.d_normed = d_out·W, of all devices; d_weight = d_outᵀ·scratch.normed. Sums are float32:
// in bf16 the branch, idle on the way back, is where they are made.
void LinearFromNormBackward(Backend& backend, const ConstTensor& d_out, const ConstTensor& weight,
                            const BlockScratch& scratch, Matrix d_weight) {
  const bool widens = scratch.sum != nullptr && !scratch.rounded.empty();
  const Tensor d_normed = widens ? Tensor(scratch.branch) : scratch.d_normed;
  backend.Gemm(Transpose::kYes, Transpose::kNo, d_out, scratch.normed, 0, d_weight);
  backend.Gemm(Transpose::kNo, Transpose::kNo, d_out, weight, 0, d_normed);
  if (scratch.sum != nullptr) scratch.sum->Add(d_normed.floats(), d_normed.size());
  if (widens) backend.Cast(d_normed, scratch.d_normed);
}

// All that the backward pass reads; of the layer only the way back to the stream is left.
void FillStash(const LayerPass& p, ConstMatrix before) {
  const auto& [backend, shape, weights, stash, scratch] = p;
  const bool given = before.values == nullptr;
  backend.RmsNormForward(
      {given ? ConstMatrix(stash.x) : before, given ? ConstMatrix() : ConstMatrix(scratch.branch),
       stash.x, weights.input_norm, shape.norm_epsilon, scratch.normed, stash.inverse_rms1});
  FillAttention(p);
  AttentionBranch(p, scratch.branch);
  SumBranch(scratch);

  backend.RmsNormForward({stash.x, scratch.branch, stash.y, weights.post_norm, shape.norm_epsilon,
                          scratch.normed, stash.inverse_rms2});
  FillGateUp(p);
}

}  // namespace

void BlockForward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                  const BlockStash& stash, const BlockScratch& scratch, ConstMatrix before) {
  const LayerPass p{backend, shape, weights, stash, scratch};
  FillStash(p, before);
  MlpBranch(p, scratch.branch);
  SumBranch(scratch);
}

void BlockRefill(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                 const BlockStash& stash, const BlockScratch& scratch) {
  FillStash({backend, shape, weights, stash, scratch}, {});
}

void BlockOutput(Backend& backend, const BlockStash& stash, const BlockScratch& scratch,
                 Matrix out) {
  backend.Copy(stash.y.values, out.values, out.size());
  backend.Add(scratch.branch.values, out.values, out.size());
}

void BeginBackward(Backend& backend, const BlockScratch& scratch, ConstMatrix stream) {
  if (!scratch.rounded.empty()) backend.Cast(stream, scratch.rounded);
}

void BlockBackward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                   const BlockStash& stash, const BlockScratch& scratch,
                   const BlockGradients& gradients, Matrix stream) {
  const LayerPass p{backend, shape, weights, stash, scratch};
  MlpToNormBackward(p, ForProducts(scratch, stream), gradients);
  LinearFromNormBackward(backend, scratch.d_gate_up, weights.gate_up, scratch, gradients.gate_up);
  NormBackward(backend, {stash.y, weights.post_norm, stash.inverse_rms2, scratch.d_normed, stream,
                         scratch.rounded, gradients.post_norm});
  AttentionToNormBackward(p, ForProducts(scratch, stream), gradients);
  LinearFromNormBackward(backend, scratch.d_qkv, weights.qkv, scratch, gradients.qkv);
  NormBackward(backend, {stash.x, weights.input_norm, stash.inverse_rms1, scratch.d_normed, stream,
                         scratch.rounded, gradients.input_norm});
}

}  // namespace skerry
