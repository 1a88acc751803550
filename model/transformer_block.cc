#include "model/transformer_block.h"

#include "common/check.h"

namespace skerry {

PassShape PassShape::Of(const TransformerConfig& config, int64_t sequences, int64_t context) {
  PassShape shape;
  shape.attention = {sequences, context, config.heads, config.kv_heads, config.head_size()};
  shape.hidden = config.hidden;
  shape.ffn = config.ffn;
  shape.vocab = config.vocab;
  shape.rope_base = config.rope_base;
  shape.norm_epsilon = config.norm_epsilon;
  return shape;
}

template <typename T>
BlockTensors<T> BlockTensors<T>::At(const ParameterLayout& layout, int32_t layer, T* arena) {
  const auto tensor = [&](const char* part) {
    const TensorSlot* slot = layout.Find(LayerTensorName(layer, part));
    SKERRY_CHECK(slot != nullptr, "the stage holds this layer");
    return BasicMatrix<T>{arena + slot->offset, slot->rows, slot->columns};
  };
  BlockTensors tensors;
  tensors.input_norm = tensor("input_layernorm").values;
  tensors.q = tensor("self_attn.q_proj");
  tensors.k = tensor("self_attn.k_proj");
  tensors.v = tensor("self_attn.v_proj");
  tensors.o = tensor("self_attn.o_proj");
  tensors.post_norm = tensor("post_attention_layernorm").values;
  tensors.gate_up = tensor("mlp.gate_proj");
  const BasicMatrix<T> up = tensor("mlp.up_proj");
  SKERRY_CHECK(up.values == tensors.gate_up.values + tensors.gate_up.size());
  tensors.gate_up.rows += up.rows;
  tensors.down = tensor("mlp.down_proj");
  return tensors;
}

template struct BlockTensors<float>;
template struct BlockTensors<const float>;

BlockStash::BlockStash(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  x = carver.TakeMatrix(t, shape.hidden);
  inverse_rms1 = carver.Take(t);
  q = carver.TakeMatrix(t, shape.hidden);
  k = carver.TakeMatrix(t, shape.kv_width());
  v = carver.TakeMatrix(t, shape.kv_width());
  attention = carver.TakeMatrix(t, shape.hidden);
  log_sum_exp = carver.Take(t * shape.attention.heads);
  y = carver.TakeMatrix(t, shape.hidden);
  inverse_rms2 = carver.Take(t);
  gate_up = carver.TakeMatrix(t, 2 * shape.ffn);
}

BlockScratch::BlockScratch(const PassShape& shape, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  normed = carver.TakeMatrix(t, shape.hidden);
  product = carver.TakeMatrix(t, shape.ffn);
  d_normed = carver.TakeMatrix(t, shape.hidden);
  d_attention = carver.TakeMatrix(t, shape.hidden);
  d_q = carver.TakeMatrix(t, shape.hidden);
  d_k = carver.TakeMatrix(t, shape.kv_width());
  d_v = carver.TakeMatrix(t, shape.kv_width());
  d_product = carver.TakeMatrix(t, shape.ffn);
  d_gate_up = carver.TakeMatrix(t, 2 * shape.ffn);
  inverse_rms = carver.Take(t);
}

namespace {

constexpr Transpose kNo = Transpose::kNo;
constexpr Transpose kYes = Transpose::kYes;

// out = x·Wᵀ (+ out)
void Linear(Backend& backend, ConstMatrix x, ConstMatrix weight, float beta, Matrix out) {
  backend.Gemm(kNo, kYes, x, weight, beta, out);
}

// d_x = d_out·W (+ d_x); d_weight = d_outᵀ·x
void LinearBackward(Backend& backend, ConstMatrix d_out, ConstMatrix x, ConstMatrix weight,
                    float beta, Matrix d_x, Matrix d_weight) {
  backend.Gemm(kYes, kNo, d_out, x, 0, d_weight);
  backend.Gemm(kNo, kNo, d_out, weight, beta, d_x);
}

// Norm gradients are added to by the kernel, so they begin at zero.
void NormBackward(Backend& backend, ConstMatrix x, const float* weight, const float* inverse_rms,
                  ConstMatrix d_out, Matrix d_x, float* d_weight) {
  backend.Fill(d_weight, 0, x.columns);
  backend.RmsNormBackward(x, weight, inverse_rms, d_out, d_x, d_weight);
}

}  // namespace

void BlockForward(Backend& backend, const PassShape& shape,
                  const BlockTensors<const float>& weights, const BlockStash& stash,
                  const BlockScratch& scratch, Matrix out) {
  backend.RmsNormForward(stash.x, weights.input_norm, shape.norm_epsilon, scratch.normed,
                         stash.inverse_rms1);
  Linear(backend, scratch.normed, weights.q, 0, stash.q);
  Linear(backend, scratch.normed, weights.k, 0, stash.k);
  Linear(backend, scratch.normed, weights.v, 0, stash.v);
  backend.Rope(shape.attention, shape.rope_base, false, stash.q, stash.k);
  backend.AttentionForward(shape.attention, stash.q, stash.k, stash.v, stash.attention,
                           stash.log_sum_exp);
  backend.Copy(stash.x.values, stash.y.values, stash.x.size());
  Linear(backend, stash.attention, weights.o, 1, stash.y);

  backend.RmsNormForward(stash.y, weights.post_norm, shape.norm_epsilon, scratch.normed,
                         stash.inverse_rms2);
  Linear(backend, scratch.normed, weights.gate_up, 0, stash.gate_up);
  backend.SwigluForward(stash.gate_up, scratch.product);
  backend.Copy(stash.y.values, out.values, stash.y.size());
  Linear(backend, scratch.product, weights.down, 1, out);
}

void BlockBackward(Backend& backend, const PassShape& shape,
                   const BlockTensors<const float>& weights, const BlockStash& stash,
                   const BlockScratch& scratch, const BlockTensors<float>& gradients,
                   Matrix stream) {
  backend.SwigluForward(stash.gate_up, scratch.product);
  LinearBackward(backend, stream, scratch.product, weights.down, 0, scratch.d_product,
                 gradients.down);
  backend.SwigluBackward(stash.gate_up, scratch.d_product, scratch.d_gate_up);
  backend.RmsNormForward(stash.y, weights.post_norm, shape.norm_epsilon, scratch.normed,
                         scratch.inverse_rms);
  LinearBackward(backend, scratch.d_gate_up, scratch.normed, weights.gate_up, 0, scratch.d_normed,
                 gradients.gate_up);
  NormBackward(backend, stash.y, weights.post_norm, stash.inverse_rms2, scratch.d_normed, stream,
               gradients.post_norm);

  LinearBackward(backend, stream, stash.attention, weights.o, 0, scratch.d_attention, gradients.o);
  backend.AttentionBackward(shape.attention, stash.q, stash.k, stash.v, stash.attention,
                            stash.log_sum_exp, scratch.d_attention, scratch.d_q, scratch.d_k,
                            scratch.d_v);
  backend.Rope(shape.attention, shape.rope_base, true, scratch.d_q, scratch.d_k);
  backend.RmsNormForward(stash.x, weights.input_norm, shape.norm_epsilon, scratch.normed,
                         scratch.inverse_rms);
  LinearBackward(backend, scratch.d_q, scratch.normed, weights.q, 0, scratch.d_normed, gradients.q);
  LinearBackward(backend, scratch.d_k, scratch.normed, weights.k, 1, scratch.d_normed, gradients.k);
  LinearBackward(backend, scratch.d_v, scratch.normed, weights.v, 1, scratch.d_normed, gradients.v);
  NormBackward(backend, stash.x, weights.input_norm, stash.inverse_rms1, scratch.d_normed, stream,
               gradients.input_norm);
}

}  // namespace skerry
