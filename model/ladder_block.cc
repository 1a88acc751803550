#include "model/ladder_block.h"

#include "common/check.h"
#include "model/block_halves.h"

namespace skerry {
namespace {

void BeginSum(const BlockScratch& scratch, Matrix branch) {
  if (scratch.sum != nullptr) scratch.sum->Begin(branch.values, branch.size());
}

void EndSum(const BlockScratch& scratch) {
  if (scratch.sum != nullptr) scratch.sum->End();
}

}  // namespace

void LadderForward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                   const BlockStash& stash, const BlockScratch& scratch, LadderPlace place,
                   ConstMatrix before) {
  const LayerPass p{backend, shape, weights, stash, scratch};
  const bool is_given = before.values == nullptr;
  if (!place.is_first) EndSum(scratch);  // of the attention before
  backend.RmsNormForward({is_given ? ConstMatrix(stash.x) : before,
                          is_given ? ConstMatrix() : ConstMatrix(scratch.branch), stash.x,
                          weights.input_norm, shape.norm_epsilon, scratch.normed,
                          stash.inverse_rms1});
  FillAttention(p);
  AttentionBranch(p, scratch.branch);
  BeginSum(scratch, scratch.branch);

  if (!place.is_first) EndSum(scratch);  // of the MLP before
  backend.RmsNormForward({stash.x, place.is_first ? ConstMatrix() : ConstMatrix(scratch.mlp_branch),
                          stash.y, weights.post_norm, shape.norm_epsilon, scratch.normed,
                          stash.inverse_rms2});
  FillGateUp(p);
  MlpBranch(p, scratch.mlp_branch);
  BeginSum(scratch, scratch.mlp_branch);
  if (!place.is_last) return;
  EndSum(scratch);
  EndSum(scratch);
  backend.Add(scratch.mlp_branch.values, scratch.branch.values, scratch.branch.size());
}

void LadderRefill(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                  const BlockStash& stash, const BlockScratch& scratch) {
  const LayerPass p{backend, shape, weights, stash, scratch};
  backend.RmsNormForward({stash.x,
                          {},
                          {},
                          weights.input_norm,
                          shape.norm_epsilon,
                          scratch.normed,
                          stash.inverse_rms1});
  FillAttention(p);
  backend.RmsNormForward(
      {stash.y, {}, {}, weights.post_norm, shape.norm_epsilon, scratch.normed, stash.inverse_rms2});
  FillGateUp(p);
}

void LadderBackward::Layer(LadderPlace place, const BlockWeights& weights, const BlockStash& stash,
                           const BlockGradients& gradients) {
  SKERRY_CHECK(above_.has_value() != place.is_last, "layers of a ladder go back in their order");
  const LayerPass p{backend_, shape_, weights, stash, scratch_};
  if (above_) ThroughMlpNorm(*above_);
  MlpToNormBackward(p, ForProducts(scratch_, stream_), gradients);
  BeginToNorm(scratch_.d_gate_up, weights.gate_up, scratch_.mlp_d_normed, scratch_.mlp_branch,
              gradients.gate_up);
  if (above_) ThroughAttentionNorm(*above_);
  AttentionToNormBackward(p, ForProducts(scratch_, stream_), gradients);
  BeginToNorm(scratch_.d_qkv, weights.qkv, scratch_.d_normed, scratch_.branch, gradients.qkv);
  above_.reset();
  const Norms norms{weights, stash, gradients};
  if (place.is_first) {
    ThroughMlpNorm(norms);
    ThroughAttentionNorm(norms);
  } else {
    above_.emplace(norms);
  }
}

void LadderBackward::BeginToNorm(const ConstTensor& d_out, const ConstTensor& weight,
                                 const Tensor& d_normed, Matrix wide, Matrix d_weight) {
  const Tensor sum = Widens() ? Tensor(wide) : d_normed;
  backend_.Gemm(Transpose::kNo, Transpose::kNo, d_out, weight, 0, sum);
  if (scratch_.sum != nullptr) scratch_.sum->Begin(sum.floats(), sum.size());
  backend_.Gemm(Transpose::kYes, Transpose::kNo, d_out, scratch_.normed, 0, d_weight);
}

ConstTensor LadderBackward::EndToNorm(const Tensor& d_normed, Matrix wide) {
  EndSum(scratch_);
  if (!Widens()) return d_normed;
  // One at a time: the other half's is float32 until then.
  backend_.Cast(wide, scratch_.d_normed);
  return scratch_.d_normed;
}

void LadderBackward::ThroughMlpNorm(const Norms& n) {
  const ConstTensor d_normed = EndToNorm(scratch_.mlp_d_normed, scratch_.mlp_branch);
  NormBackward(backend_, {n.stash.y, n.weights.post_norm, n.stash.inverse_rms2, d_normed, stream_,
                          scratch_.rounded, n.gradients.post_norm});
}

void LadderBackward::ThroughAttentionNorm(const Norms& n) {
  const ConstTensor d_normed = EndToNorm(scratch_.d_normed, scratch_.branch);
  NormBackward(backend_, {n.stash.x, n.weights.input_norm, n.stash.inverse_rms1, d_normed, stream_,
                          scratch_.rounded, n.gradients.input_norm});
}

}  // namespace skerry
