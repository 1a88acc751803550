#include "model/head.h"

#include "common/check.h"

namespace skerry {

template <typename T>
EndTensors<T> EndTensors<T>::At(const ParameterLayout& layout, T* arena) {
  const auto tensor = [&](const char* name) {
    const TensorSlot* slot = layout.Find(name);
    return slot == nullptr ? BasicMatrix<T>{}
                           : BasicMatrix<T>{arena + slot->offset, slot->rows, slot->columns};
  };
  EndTensors ends;
  ends.embedding = tensor("model.embed_tokens.weight");
  ends.norm = tensor("model.norm.weight").values;
  ends.head = tensor("lm_head.weight");
  SKERRY_CHECK(ends.embedding.values != nullptr && ends.norm != nullptr, "stage 0 holds the ends");
  if (ends.head.values == nullptr) ends.head = ends.embedding;
  return ends;
}

template struct EndTensors<float>;
template struct EndTensors<const float>;

HeadScratch::HeadScratch(const PassShape& shape, FloatCarver& carver) {
  normed = carver.TakeMatrix(shape.tokens(), shape.hidden);
  d_normed = carver.TakeMatrix(shape.tokens(), shape.hidden);
  logits = carver.TakeMatrix(shape.tokens(), shape.vocab);
  inverse_rms = carver.Take(shape.tokens());
}

void HeadForward(Backend& backend, const PassShape& shape, const EndTensors<const float>& weights,
                 ConstMatrix x, const HeadScratch& scratch) {
  backend.RmsNormForward(x, weights.norm, shape.norm_epsilon, scratch.normed, scratch.inverse_rms);
  backend.Gemm(Transpose::kNo, Transpose::kYes, scratch.normed, weights.head, 0, scratch.logits);
}

void HeadBackward(Backend& backend, const EndTensors<const float>& weights, ConstMatrix x,
                  const HeadScratch& scratch, const EndTensors<float>& gradients, Matrix d_x) {
  backend.Gemm(Transpose::kYes, Transpose::kNo, scratch.logits, scratch.normed, 0, gradients.head);
  backend.Gemm(Transpose::kNo, Transpose::kNo, scratch.logits, weights.head, 0, scratch.d_normed);
  backend.Fill(d_x.values, 0, d_x.size());
  backend.Fill(gradients.norm, 0, x.columns);
  backend.RmsNormBackward(x, weights.norm, scratch.inverse_rms, scratch.d_normed, d_x,
                          gradients.norm);
}

void EmbeddingGradient(Backend& backend, std::span<const int32_t> tokens, ConstMatrix d_out,
                       const EndTensors<float>& gradients) {
  if (!gradients.is_tied()) backend.Fill(gradients.embedding.values, 0, gradients.embedding.size());
  backend.EmbeddingBackward(tokens, d_out, gradients.embedding);
}

}  // namespace skerry
