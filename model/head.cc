#include "model/head.h"

#include <algorithm>
#include <vector>

#include "common/check.h"

namespace skerry {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kNorm = "model.norm.weight";

const TensorSlot& Slot(const ParameterLayout& layout, const char* name) {
  const TensorSlot* slot = layout.Find(name);
  SKERRY_CHECK(slot != nullptr, "stage 0 holds the ends");
  return *slot;
}

const TensorSlot& HeadSlot(const ParameterLayout& layout) {
  const TensorSlot* slot = layout.Find("lm_head.weight");
  return slot == nullptr ? Slot(layout, kEmbedding) : *slot;
}

Matrix MatrixAt(const TensorSlot& slot, float* arena) {
  return {arena + slot.offset, slot.rows, slot.columns};
}

// scratch.d_logits and losses [targets] of what HeadLogits made.
void ScoreChunk(Backend& backend, const PassShape& shape, std::span<const int32_t> targets,
                CrossEntropyTerms terms, const HeadScratch& scratch, float* losses) {
  const auto rows = static_cast<int64_t>(targets.size());
  const ConstMatrix logits{scratch.logits.values, rows, scratch.logits.columns};
  if (scratch.sum != nullptr) {
    backend.LogitStatistics(targets, logits, scratch.statistics + shape.shard.rank * 3 * rows);
    scratch.sum->Gather(scratch.statistics, 3 * rows);
    terms.statistics = scratch.statistics;
    terms.parts = shape.shard.devices;
  }
  backend.CrossEntropy(targets, terms, logits, scratch.d_logits.Rows(0, rows), losses);
}

}  // namespace

std::vector<int32_t> OwnTokens(const PassShape& shape, std::span<const int32_t> tokens) {
  std::vector<int32_t> own;
  own.reserve(tokens.size());
  for (const int32_t token : tokens) {
    const int64_t row = token - shape.first_token;
    const bool is_here = row >= 0 && row < shape.vocab;
    own.push_back(is_here ? static_cast<int32_t>(row) : kTokenElsewhere);
  }
  return own;
}

EndWeights EndWeights::At(const ParameterLayout& layout, const WeightArena& arena) {
  const TensorSlot& embedding = Slot(layout, kEmbedding);
  const TensorSlot& head = HeadSlot(layout);
  return {{arena.values + embedding.offset, embedding.rows, embedding.columns},
          arena.values + Slot(layout, kNorm).offset,
          arena.Product(head, head.rows)};
}

EndGradients EndGradients::At(const ParameterLayout& layout, float* arena) {
  return {MatrixAt(Slot(layout, kEmbedding), arena), arena + Slot(layout, kNorm).offset,
          MatrixAt(HeadSlot(layout), arena)};
}

HeadScratch::HeadScratch(const PassShape& shape, int64_t logits_rows, FloatCarver& carver) {
  const int64_t t = shape.tokens();
  normed = carver.TakeTensor(t, shape.hidden, shape.compute);
  d_normed = carver.TakeTensor(t, shape.hidden, shape.compute);
  logits = carver.TakeMatrix(logits_rows, shape.vocab);
  d_logits = shape.compute == DType::kFloat32
                 ? Tensor(logits)
                 : carver.TakeTensor(logits_rows, shape.vocab, shape.compute);
  inverse_rms = carver.Take(t);
  losses = carver.Take(t);
  const int32_t devices = shape.shard.devices;
  statistics = devices > 1 ? carver.Take(devices * 3 * logits_rows) : nullptr;
}

void HeadNorm(Backend& backend, const PassShape& shape, const EndWeights& weights, ConstMatrix x,
              const HeadScratch& scratch) {
  backend.RmsNormForward({x,
                          {},
                          {},
                          weights.norm,
                          shape.norm_epsilon,
                          scratch.normed.Rows(0, x.rows),
                          scratch.inverse_rms});
}

void HeadLogits(Backend& backend, const EndWeights& weights, const HeadScratch& scratch,
                int64_t first, int64_t rows) {
  const Matrix logits{scratch.logits.values, rows, scratch.logits.columns};
  backend.Gemm(Transpose::kNo, Transpose::kYes, scratch.normed.Rows(first, rows), weights.head, 0,
               logits);
}

void HeadLosses(Backend& backend, const PassShape& shape, const EndWeights& weights,
                std::span<const int32_t> targets, const HeadScratch& scratch) {
  for (int64_t first = 0; first < shape.tokens(); first += scratch.logits.rows) {
    const int64_t rows = std::min(scratch.logits.rows, shape.tokens() - first);
    HeadLogits(backend, weights, scratch, first, rows);
    backend.CrossEntropy(targets.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)), {},
                         {scratch.logits.values, rows, shape.vocab}, {}, scratch.losses + first);
  }
}

void HeadForwardBackward(Backend& backend, const PassShape& shape, const EndWeights& weights,
                         std::span<const int32_t> targets, float z_loss, ConstMatrix x,
                         const HeadScratch& scratch, const EndGradients& gradients, Matrix d_x) {
  const int64_t tokens = shape.tokens();
  const CrossEntropyTerms terms = {1 / static_cast<float>(shape.mean_tokens), z_loss};
  // Parts are summed in float32, in memory that is idle until then.
  const bool widens = scratch.sum != nullptr && scratch.d_normed.type != DType::kFloat32;
  const Tensor d_normed = widens ? Tensor(d_x) : scratch.d_normed;
  HeadNorm(backend, shape, weights, x, scratch);
  for (int64_t first = 0; first < tokens; first += scratch.logits.rows) {
    const int64_t rows = std::min(scratch.logits.rows, tokens - first);
    HeadLogits(backend, weights, scratch, first, rows);
    ScoreChunk(backend, shape,
               targets.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)), terms,
               scratch, scratch.losses + first);
    const Tensor d_logits = scratch.d_logits.Rows(0, rows);
    backend.Gemm(Transpose::kYes, Transpose::kNo, d_logits, scratch.normed.Rows(first, rows),
                 first == 0 ? 0.0f : 1.0f, gradients.head);
    backend.Gemm(Transpose::kNo, Transpose::kNo, d_logits, weights.head, 0,
                 d_normed.Rows(first, rows));
  }
  if (scratch.sum != nullptr) scratch.sum->Add(d_normed.floats(), d_normed.size());
  if (widens) backend.Cast(d_normed, scratch.d_normed);
  backend.Fill(d_x.values, 0, d_x.size());
  backend.Fill(gradients.norm, 0, x.columns);
  backend.RmsNormBackward(
      {x, weights.norm, scratch.inverse_rms, scratch.d_normed, d_x, {}, gradients.norm});
}

float MeanLoss(Backend& backend, const HeadScratch& scratch, int64_t tokens) {
  std::vector<float> losses(static_cast<size_t>(tokens));
  backend.Download(scratch.losses, losses);
  backend.Synchronize();
  double sum = 0;
  for (const float loss : losses) sum += loss;
  return static_cast<float>(sum / static_cast<double>(tokens));
}

void EmbeddingGradient(Backend& backend, std::span<const int32_t> tokens, ConstMatrix d_out,
                       const EndGradients& gradients) {
  if (!gradients.is_tied()) backend.Fill(gradients.embedding.values, 0, gradients.embedding.size());
  backend.EmbeddingBackward(tokens, d_out, gradients.embedding);
}

}  // namespace skerry
