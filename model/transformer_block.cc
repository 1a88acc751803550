#include "model/transformer_block.h"

#include "common/check.h"

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
  shape.compute = compute;
  return shape;
}

PassShape PassShape::Share(int32_t devices) const {
  PassShape share = *this;
  share.attention.heads /= devices;
  share.attention.kv_heads /= devices;
  share.ffn /= devices;
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

BlockStash::BlockStash(const PassShape& shape, FloatCarver& carver) {
  x = carver.TakeMatrix(shape.tokens(), shape.hidden);
  TakeAllButInput(shape, carver);
}

BlockStash BlockStash::Shared(const PassShape& shape, FloatCarver& carver) {
  BlockStash stash;
  stash.TakeAllButInput(shape, carver);
  return stash;
}

BlockStash BlockStash::InputOnly(const PassShape& shape, const BlockStash& shared,
                                 FloatCarver& carver) {
  BlockStash stash = shared;
  stash.x = carver.TakeMatrix(shape.tokens(), shape.hidden);
  return stash;
}

void BlockStash::TakeAllButInput(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  inverse_rms1 = carver.Take(t);
  qkv = carver.TakeTensor(t, shape.qkv_width(), shape.compute);
  attention = carver.TakeTensor(t, shape.q_width(), shape.compute);
  log_sum_exp = carver.Take(t * shape.attention.heads);
  y = carver.TakeMatrix(t, shape.hidden);
  inverse_rms2 = carver.Take(t);
  gate_up = carver.TakeTensor(t, 2 * shape.ffn, shape.compute);
}

BlockScratch::BlockScratch(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  const DType type = shape.compute;
  branch = carver.TakeMatrix(t, shape.hidden);
  normed = carver.TakeTensor(t, shape.hidden, type);
  product = carver.TakeTensor(t, shape.ffn, type);
  if (type != DType::kFloat32) rounded = carver.TakeTensor(t, shape.hidden, type);
  d_normed = carver.TakeTensor(t, shape.hidden, type);
  d_attention = carver.TakeTensor(t, shape.q_width(), type);
  d_qkv = carver.TakeTensor(t, shape.qkv_width(), type);
  d_product = carver.TakeTensor(t, shape.ffn, type);
  d_gate_up = carver.TakeTensor(t, 2 * shape.ffn, type);
  inverse_rms = carver.Take(t);
}

namespace {

constexpr Transpose kNo = Transpose::kNo;
constexpr Transpose kYes = Transpose::kYes;

// out = x·Wᵀ
void Linear(Backend& backend, const ConstTensor& x, const ConstTensor& weight, const Tensor& out) {
  backend.Gemm(kNo, kYes, x, weight, 0, out);
}

// d_x = d_out·W; d_weight = d_outᵀ·x
void LinearBackward(Backend& backend, const ConstTensor& d_out, const ConstTensor& x,
                    const ConstTensor& weight, const Tensor& d_x, Matrix d_weight) {
  backend.Gemm(kYes, kNo, d_out, x, 0, d_weight);
  backend.Gemm(kNo, kNo, d_out, weight, 0, d_x);
}

// scratch.branch = x·Wᵀ, of all devices.
void LinearToBranch(Backend& backend, const ConstTensor& x, const ConstTensor& weight,
                    const BlockScratch& scratch) {
  Linear(backend, x, weight, scratch.branch);
  if (scratch.sum != nullptr) scratch.sum->Add(scratch.branch.values, scratch.branch.size());
}

// scratch.d_normed = d_out·W, of all devices; d_weight = d_outᵀ·scratch.normed. Sums are float32:
// in bf16 the branch, idle on the way back, is where they are made.
void LinearFromNormBackward(Backend& backend, const ConstTensor& d_out, const ConstTensor& weight,
                            const BlockScratch& scratch, Matrix d_weight) {
  const bool widens = scratch.sum != nullptr && !scratch.rounded.empty();
  const Tensor d_normed = widens ? Tensor(scratch.branch) : scratch.d_normed;
  LinearBackward(backend, d_out, scratch.normed, weight, d_normed, d_weight);
  if (scratch.sum != nullptr) scratch.sum->Add(d_normed.floats(), d_normed.size());
  if (widens) backend.Cast(d_normed, scratch.d_normed);
}

// Norm gradients are added to by the kernel, so they begin at zero.
void NormBackward(Backend& backend, const RmsNormGradient& pass) {
  backend.Fill(pass.d_weight, 0, pass.x.columns);
  backend.RmsNormBackward(pass);
}

// The stream's gradient as products read it.
ConstTensor ForProducts(const BlockScratch& scratch, ConstMatrix stream) {
  return scratch.rounded.empty() ? ConstTensor(stream) : ConstTensor(scratch.rounded);
}

// What the forward pass had in scratch.normed.
void NormAgain(Backend& backend, const PassShape& shape, ConstMatrix x, const float* weight,
               const BlockScratch& scratch) {
  backend.RmsNormForward(
      {x, {}, {}, weight, shape.norm_epsilon, scratch.normed, scratch.inverse_rms});
}

void AttentionHalfBackward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                           const BlockStash& stash, const BlockScratch& scratch,
                           const BlockGradients& gradients, Matrix stream) {
  const QkvColumns qkv(shape, stash.qkv), d_qkv(shape, scratch.d_qkv);
  LinearBackward(backend, ForProducts(scratch, stream), stash.attention, weights.o,
                 scratch.d_attention, gradients.o);
  backend.AttentionBackward(shape.attention, qkv.q, qkv.k, qkv.v, stash.attention,
                            stash.log_sum_exp, scratch.d_attention, d_qkv.q, d_qkv.k, d_qkv.v);
  backend.Rope(shape.attention, shape.rope, true, d_qkv.q, d_qkv.k);
  if (weights.qkv_bias != nullptr) backend.BiasBackward(scratch.d_qkv, gradients.qkv_bias);
  NormAgain(backend, shape, stash.x, weights.input_norm, scratch);
  LinearFromNormBackward(backend, scratch.d_qkv, weights.qkv, scratch, gradients.qkv);
  NormBackward(backend, {stash.x, weights.input_norm, stash.inverse_rms1, scratch.d_normed, stream,
                         scratch.rounded, gradients.input_norm});
}

// All that the backward pass reads; of the layer only the way back to the stream is left.
void FillStash(Backend& backend, const PassShape& shape, const BlockWeights& weights,
               const BlockStash& stash, const BlockScratch& scratch, ConstMatrix before) {
  const bool given = before.values == nullptr;
  backend.RmsNormForward(
      {given ? ConstMatrix(stash.x) : before, given ? ConstMatrix() : ConstMatrix(scratch.branch),
       stash.x, weights.input_norm, shape.norm_epsilon, scratch.normed, stash.inverse_rms1});
  Linear(backend, scratch.normed, weights.qkv, stash.qkv);
  if (weights.qkv_bias != nullptr) backend.AddBias(weights.qkv_bias, stash.qkv);
  const QkvColumns qkv(shape, stash.qkv);
  backend.Rope(shape.attention, shape.rope, false, qkv.q, qkv.k);
  backend.AttentionForward(shape.attention, qkv.q, qkv.k, qkv.v, stash.attention,
                           stash.log_sum_exp);
  LinearToBranch(backend, stash.attention, weights.o, scratch);

  backend.RmsNormForward({stash.x, scratch.branch, stash.y, weights.post_norm, shape.norm_epsilon,
                          scratch.normed, stash.inverse_rms2});
  Linear(backend, scratch.normed, weights.gate_up, stash.gate_up);
}

}  // namespace

void BlockForward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                  const BlockStash& stash, const BlockScratch& scratch, ConstMatrix before) {
  FillStash(backend, shape, weights, stash, scratch, before);
  backend.SwigluForward(stash.gate_up, scratch.product);
  LinearToBranch(backend, scratch.product, weights.down, scratch);
}

void BlockRefill(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                 const BlockStash& stash, const BlockScratch& scratch) {
  FillStash(backend, shape, weights, stash, scratch, {});
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
  backend.SwigluForward(stash.gate_up, scratch.product);
  LinearBackward(backend, ForProducts(scratch, stream), scratch.product, weights.down,
                 scratch.d_product, gradients.down);
  backend.SwigluBackward(stash.gate_up, scratch.d_product, scratch.d_gate_up);
  NormAgain(backend, shape, stash.y, weights.post_norm, scratch);
  LinearFromNormBackward(backend, scratch.d_gate_up, weights.gate_up, scratch, gradients.gate_up);
  NormBackward(backend, {stash.y, weights.post_norm, stash.inverse_rms2, scratch.d_normed, stream,
                         scratch.rounded, gradients.post_norm});
  AttentionHalfBackward(backend, shape, weights, stash, scratch, gradients, stream);
}

}  // namespace skerry
