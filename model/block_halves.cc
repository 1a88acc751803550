#include "model/block_halves.h"

namespace skerry {
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

// What the forward pass had in scratch.normed.
void NormAgain(const LayerPass& p, ConstMatrix x, const float* weight) {
  p.backend.RmsNormForward(
      {x, {}, {}, weight, p.shape.norm_epsilon, p.scratch.normed, p.scratch.inverse_rms});
}

}  // namespace

void FillAttention(const LayerPass& p) {
  Linear(p.backend, p.scratch.normed, p.weights.qkv, p.stash.qkv);
  if (p.weights.qkv_bias != nullptr) p.backend.AddBias(p.weights.qkv_bias, p.stash.qkv);
  const QkvColumns qkv(p.shape, p.stash.qkv);
  p.backend.Rope(p.shape.attention, p.shape.rope, false, qkv.q, qkv.k);
  p.backend.AttentionForward(p.shape.attention, qkv.q, qkv.k, qkv.v, p.stash.attention,
                             p.stash.log_sum_exp);
}

void FillGateUp(const LayerPass& p) {
  Linear(p.backend, p.scratch.normed, p.weights.gate_up, p.stash.gate_up);
}

void AttentionBranch(const LayerPass& p, Matrix branch) {
  Linear(p.backend, p.stash.attention, p.weights.o, branch);
}

void MlpBranch(const LayerPass& p, Matrix branch) {
  p.backend.SwigluForward(p.stash.gate_up, p.scratch.product);
  Linear(p.backend, p.scratch.product, p.weights.down, branch);
}

void AttentionToNormBackward(const LayerPass& p, const ConstTensor& d_branch,
                             const BlockGradients& gradients) {
  const QkvColumns qkv(p.shape, p.stash.qkv), d_qkv(p.shape, p.scratch.d_qkv);
  LinearBackward(p.backend, d_branch, p.stash.attention, p.weights.o, p.scratch.d_attention,
                 gradients.o);
  p.backend.AttentionBackward(p.shape.attention, qkv.q, qkv.k, qkv.v, p.stash.attention,
                              p.stash.log_sum_exp, p.scratch.d_attention, d_qkv.q, d_qkv.k,
                              d_qkv.v);
  p.backend.Rope(p.shape.attention, p.shape.rope, true, d_qkv.q, d_qkv.k);
  if (p.weights.qkv_bias != nullptr) p.backend.BiasBackward(p.scratch.d_qkv, gradients.qkv_bias);
  NormAgain(p, p.stash.x, p.weights.input_norm);
}

void MlpToNormBackward(const LayerPass& p, const ConstTensor& d_branch,
                       const BlockGradients& gradients) {
  p.backend.SwigluForward(p.stash.gate_up, p.scratch.product);
  LinearBackward(p.backend, d_branch, p.scratch.product, p.weights.down, p.scratch.d_product,
                 gradients.down);
  p.backend.SwigluBackward(p.stash.gate_up, p.scratch.d_product, p.scratch.d_gate_up);
  NormAgain(p, p.stash.y, p.weights.post_norm);
}

// Norm gradients are added to by the kernel, so they begin at zero.
void NormBackward(Backend& backend, const RmsNormGradient& pass) {
  backend.Fill(pass.d_weight, 0, pass.x.columns);
  backend.RmsNormBackward(pass);
}

ConstTensor ForProducts(const BlockScratch& scratch, ConstMatrix stream) {
  return scratch.rounded.empty() ? ConstTensor(stream) : ConstTensor(scratch.rounded);
}

}  // namespace skerry
