// The halves of a layer, attention and MLP, as every wiring has them: without what a wiring decides
// (transformer_block.h, ladder_block.h), which is the stream that a half reads and when its branch
// is summed over devices and added. Products as in transformer_block.h; of one device.
#pragma once

#include "model/transformer_block.h"

namespace skerry {

// A layer and what it is computed with.
struct LayerPass {
  Backend& backend;
  const PassShape& shape;
  const BlockWeights& weights;
  const BlockStash& stash;
  const BlockScratch& scratch;
};

// scratch.normed → stash.qkv, attention, log_sum_exp.
void FillAttention(const LayerPass& p);
// scratch.normed → stash.gate_up.
void FillGateUp(const LayerPass& p);

// What each half adds to the stream, from the stash, this device's part of it: `branch` [T, d].
void AttentionBranch(const LayerPass& p, Matrix branch);
void MlpBranch(const LayerPass& p, Matrix branch);

// From d_branch [T, d], the gradient of that, of the compute type: gradients.o, qkv_bias and
// scratch.d_qkv; gradients.down and scratch.d_gate_up. scratch.normed is that of the half again.
void AttentionToNormBackward(const LayerPass& p, const ConstTensor& d_branch,
                             const BlockGradients& gradients);
void MlpToNormBackward(const LayerPass& p, const ConstTensor& d_branch,
                       const BlockGradients& gradients);

// stream += what goes back through a norm of x, `rounded` follows it, d_weight is written.
void NormBackward(Backend& backend, const RmsNormGradient& pass);

// The stream's gradient as products read it.
ConstTensor ForProducts(const BlockScratch& scratch, ConstMatrix stream);

}  // namespace skerry
