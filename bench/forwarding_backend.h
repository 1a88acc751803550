// A backend that does what another does, for those that watch one or slow it down.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace skerry {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override {
    inner_->Gemm(ta, tb, a, b, beta, c);
  }
  void Synchronize() override { inner_->Synchronize(); }
  std::string name() const override { return inner_->name(); }
  std::string numeric_profile() const override { return inner_->numeric_profile(); }
  DType compute_type() const override { return inner_->compute_type(); }
  bool is_host() const override { return inner_->is_host(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) override {
    return inner_->Allocate(floats);
  }
  void Upload(std::span<const float> host, float* device) override { inner_->Upload(host, device); }
  void Download(const float* device, std::span<float> host) override {
    inner_->Download(device, host);
  }
  void Cast(ConstTensor x, Tensor y) override { inner_->Cast(x, y); }
  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    inner_->EmbeddingForward(tokens, table, out);
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override {
    inner_->EmbeddingBackward(tokens, d_out, d_table);
  }
  void RmsNormForward(const RmsNormPass& pass) override { inner_->RmsNormForward(pass); }
  void RmsNormBackward(const RmsNormGradient& pass) override { inner_->RmsNormBackward(pass); }
  void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
            Tensor k) override {
    inner_->Rope(shape, angles, inverse, q, k);
  }
  void AddBias(const float* bias, Tensor y) override { inner_->AddBias(bias, y); }
  void BiasBackward(ConstTensor d_y, float* d_bias) override { inner_->BiasBackward(d_y, d_bias); }
  void AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                        Tensor out, float* log_sum_exp) override {
    inner_->AttentionForward(shape, q, k, v, out, log_sum_exp);
  }
  void AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                         ConstTensor out, const float* log_sum_exp, ConstTensor d_out, Tensor d_q,
                         Tensor d_k, Tensor d_v) override {
    inner_->AttentionBackward(shape, q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v);
  }
  void SwigluForward(ConstTensor gate_up, Tensor out) override {
    inner_->SwigluForward(gate_up, out);
  }
  void SwigluBackward(ConstTensor gate_up, ConstTensor d_out, Tensor d_gate_up) override {
    inner_->SwigluBackward(gate_up, d_out, d_gate_up);
  }
  void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                    ConstMatrix logits, Tensor d_logits, float* losses) override {
    inner_->CrossEntropy(targets, terms, logits, d_logits, losses);
  }
  void LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                       float* statistics) override {
    inner_->LogitStatistics(targets, logits, statistics);
  }
  void Add(const float* x, float* y, int64_t n) override { inner_->Add(x, y, n); }
  void Fill(float* y, float value, int64_t n) override { inner_->Fill(y, value, n); }
  void Copy(const float* x, float* y, int64_t n) override { inner_->Copy(x, y, n); }
  void SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                     std::span<double> sums) override {
    inner_->SumsOfSquares(x, ranges, sums);
  }
  void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
             const UpdateArrays& arrays) override {
    inner_->AdamW(step, ranges, arrays);
  }
  void Sgd(float learning_rate, std::span<const UpdateRange> ranges,
           const UpdateArrays& arrays) override {
    inner_->Sgd(learning_rate, ranges, arrays);
  }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace skerry
