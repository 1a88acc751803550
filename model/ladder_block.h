// Ladder residual (Zhang et al., "Ladder-Residual: parallelism-aware architecture for accelerating
// large model inference with communication overlapping", 2025, section 3): a half of a layer reads
// the stream without what the half before it adds, so that the sum of that over devices can run
// while the half computes. Within TransformerConfig::ladder consecutive layers, a ladder, of halves
// h = 0 … H − 1 (attention and MLP in turn, each behind its norm):
//
//   s₀ = s₁ = the ladder's input     b_h = half_h(norm_h(s_h))     s_h = s_{h−1} + b_{h−2}
//   output = s_{H−1} + (b_{H−2} + b_{H−1})
//
// Between ladders the stream is whole, so where stages are cut, all of them at such places, changes
// nothing: one stream crosses, and a stage that is left out is the identity. Of the 2·ladder sums
// of a ladder all but the last can hide.
//
// The way back is a ladder, too. With g_h = ∂loss/∂s_h, g_H = g_{H+1} = ∂loss/∂output:
// ∂loss/∂b_h = g_{h+2}, g_h = g_{h+1} + norm_hᵀ(half_hᵀ(g_{h+2})), so the sum of what enters norm_h
// runs while half h − 1 goes back.
//
// Names as in transformer_block.h: a layer's attention reads stash.x, its MLP stash.y, which are
// one in the first layer of a ladder. A layer that is computed again keeps both, with their inverse
// RMS, so that nothing is summed again.
#pragma once

#include <cstdint>
#include <optional>

#include "model/transformer_block.h"

namespace skerry {

// Of a layer in its ladder.
struct LadderPlace {
  bool is_first = false, is_last = false;
  // `layer` counts from the model's first. Without a ladder: neither.
  static LadderPlace Of(int32_t ladder, int32_t layer) {
    if (ladder == 0) return {};
    return {layer % ladder == 0, (layer + 1) % ladder == 0};
  }
};

// Layers in their order. Input and output as of BlockForward, the output of a last layer; between
// layers of a ladder `before` is the y of the layer before.
void LadderForward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                   const BlockStash& stash, const BlockScratch& scratch, LadderPlace place,
                   ConstMatrix before);

// Fills what of the stash is shared from x, y and the inverse RMS, as LadderForward did; overwrites
// scratch.normed. Sums that are under way go on.
void LadderRefill(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                  const BlockStash& stash, const BlockScratch& scratch);

// The way back through whole ladders, the last layer first. `stream` [T, d] is ∂loss/∂output when a
// ladder's last layer begins, and ∂loss/∂input when its first one has ended; scratch.rounded
// follows it, from BeginBackward on. All outlive it.
class LadderBackward {
 public:
  LadderBackward(Backend& backend, const PassShape& shape, const BlockScratch& scratch,
                 Matrix stream)
      : backend_(backend), shape_(shape), scratch_(scratch), stream_(stream) {}

  // Every tensor of `gradients` is written when the call for the layer before has ended, or this
  // one's, if it is the first of its ladder; until then x, y and the inverse RMS of `stash` stay.
  void Layer(LadderPlace place, const BlockWeights& weights, const BlockStash& stash,
             const BlockGradients& gradients);

 private:
  // What a layer has left to do when its halves have gone back: through its norms.
  struct Norms {
    BlockWeights weights;
    BlockStash stash;
    BlockGradients gradients;
  };
  void ThroughMlpNorm(const Norms& norms);
  void ThroughAttentionNorm(const Norms& norms);
  // d_normed, or where that widens `wide`, = d_out·weight, of which a sum begins; meanwhile
  // d_weight = d_outᵀ·scratch.normed.
  void BeginToNorm(const ConstTensor& d_out, const ConstTensor& weight, const Tensor& d_normed,
                   Matrix wide, Matrix d_weight);
  // What BeginToNorm began, of all devices, in the compute type.
  ConstTensor EndToNorm(const Tensor& d_normed, Matrix wide);
  // Sums are float32; in bf16 they are made in a branch, which is idle on the way back.
  bool Widens() const { return scratch_.sum != nullptr && !scratch_.rounded.empty(); }

  Backend& backend_;
  const PassShape& shape_;
  const BlockScratch& scratch_;
  Matrix stream_;
  std::optional<Norms> above_;  // the layer above in the ladder
};

}  // namespace skerry
