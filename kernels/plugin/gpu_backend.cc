#include "kernels/plugin/gpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/plugin/gpu_arguments.h"
#include "kernels/plugin/loader.h"
#include "kernels/plugin/sorted_tokens.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Shared by a backend and its buffers: whoever is last closes the device.
struct OpenDevice {
  OpenDevice(const GpuTable& of, GpuDevice* opened, int number)
      : table(of), device(opened), index(number) {}
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice() { table.close(device); }
  const GpuTable& table;
  GpuDevice* device;
  int index;
};

class GpuBuffer : public Buffer {
 public:
  GpuBuffer(std::shared_ptr<OpenDevice> owner, void* memory, int64_t size)
      : owner_(std::move(owner)), memory_(memory), size_(size) {}
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  ~GpuBuffer() override { owner_->table.release(owner_->device, memory_); }

  float* data() override { return static_cast<float*>(memory_); }
  int64_t size() const override { return size_; }

 private:
  std::shared_ptr<OpenDevice> owner_;
  void* memory_;
  int64_t size_;
};

GpuFailure& FailureEnds() {
  static GpuFailure ends;
  return ends;
}

[[noreturn]] void Fail(int index, const std::string& why) {
  static std::mutex first;
  first.lock();  // for good: the process ends
  if (FailureEnds()) FailureEnds()(index, why);
  std::fprintf(stderr, "GPU %d: %s\n", index, why.c_str());
  SKERRY_CHECK(false, "a GPU that failed computes nothing any more");
}

class GpuBackend : public Backend {
 public:
  GpuBackend(std::shared_ptr<OpenDevice> open, DType compute)
      : open_(std::move(open)), table_(open_->table), device_(open_->device), compute_(compute) {}
  ~GpuBackend() override { table_.release(device_, angles_); }

  GpuHandle handle() const { return {&table_, device_, open_->index}; }

  std::string name() const override { return Said(table_.name); }
  std::string numeric_profile() const override {
    const bool bf16 = compute_ == DType::kBfloat16;
    return Said(table_.profile) + (bf16 ? ", bf16 between products" : ", float32 between products");
  }
  DType compute_type() const override { return compute_; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) override;
  void Upload(std::span<const float> host, float* device) override {
    table_.upload(device_, host.data(), device, Bytes(host.size()));
  }
  void Download(const float* device, std::span<float> host) override {
    table_.download(device_, device, host.data(), Bytes(host.size()));
  }
  void Synchronize() override {
    GpuText why = {};
    if (!table_.synchronize(device_, &why)) Fail(open_->index, why.text);
  }

  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override;
  void Cast(ConstTensor x, Tensor y) override {
    SKERRY_CHECK(SameShape(x, y));
    const GpuTensor from = TensorOf(x), to = TensorOf(y);
    table_.cast(device_, &from, &to);
  }
  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    CheckEmbedding(tokens, table, out);
    table_.embedding_forward(device_, tokens.data(), out.rows, out.columns, table.values,
                             out.values);
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override;
  void RmsNormForward(const RmsNormPass& pass) override;
  void RmsNormBackward(const RmsNormGradient& pass) override;
  void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
            Tensor k) override;
  void AddBias(const float* bias, Tensor y) override {
    const GpuTensor to = TensorOf(y);
    table_.add_bias(device_, bias, &to);
  }
  void BiasBackward(ConstTensor d_y, float* d_bias) override {
    const GpuTensor from = TensorOf(d_y);
    table_.sum_rows(device_, &from, d_bias);
  }
  void AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                        Tensor out, float* log_sum_exp) override;
  void AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                         ConstTensor out, const float* log_sum_exp, ConstTensor d_out, Tensor d_q,
                         Tensor d_k, Tensor d_v) override;
  void SwigluForward(ConstTensor gate_up, Tensor out) override {
    CheckSwiglu(gate_up, out);
    const GpuSwiglu args = {out.rows, out.columns, TensorOf(gate_up), {}, TensorOf(out)};
    table_.swiglu_forward(device_, &args);
  }
  void SwigluBackward(ConstTensor gate_up, ConstTensor d_out, Tensor d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up));
    const GpuSwiglu args = {d_out.rows, d_out.columns, TensorOf(gate_up), TensorOf(d_out),
                            TensorOf(d_gate_up)};
    table_.swiglu_backward(device_, &args);
  }
  void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                    ConstMatrix logits, Tensor d_logits, float* losses) override;
  void LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                       float* statistics) override;
  void Add(const float* x, float* y, int64_t n) override { table_.add(device_, x, y, n); }
  void Fill(float* y, float value, int64_t n) override { table_.fill(device_, y, value, n); }
  void Copy(const float* x, float* y, int64_t n) override {
    table_.copy(device_, x, y, n * kFloat);
  }
  void SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                     std::span<double> sums) override {
    SKERRY_CHECK(ranges.size() == sums.size());
    const std::vector<GpuRange> all = RangesOf(ranges, 0);
    table_.sums_of_squares(device_, x, all.data(), static_cast<int64_t>(all.size()), sums.data());
  }
  void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
             const UpdateArrays& arrays) override;
  void Sgd(float learning_rate, std::span<const UpdateRange> ranges,
           const UpdateArrays& arrays) override;

 private:
  static int64_t Bytes(size_t floats) { return static_cast<int64_t>(floats) * kFloat; }
  std::string Said(void (*what)(GpuDevice*, GpuText*)) const {
    GpuText text = {};
    what(device_, &text);
    return text.text;
  }
  void PrepareAngles(const AttentionShape& shape, const RopeAngles& angles);

  std::shared_ptr<OpenDevice> open_;
  const GpuTable& table_;
  GpuDevice* device_;
  DType compute_;
  RopeTable rope_;
  // Cosines, then sines of the model's rotation; kept, a model has one.
  void* angles_ = nullptr;
  int64_t angles_context_ = 0, angles_half_ = 0;
  RopeAngles angles_are_;
};

absl::StatusOr<std::unique_ptr<Buffer>> GpuBackend::Allocate(int64_t floats) {
  SKERRY_CHECK(floats >= 0);
  constexpr int64_t kFloatsMax = INT64_MAX / 8;
  void* memory = floats > kFloatsMax
                     ? nullptr
                     : table_.allocate(device_, std::max<int64_t>(floats, 1) * kFloat);
  if (memory == nullptr) {
    return ResourceExhausted(
        "no GPU memory for %d float32 values (%d MiB free); use a smaller microbatch", floats,
        table_.memory_free(device_) >> 20);
  }
  return std::make_unique<GpuBuffer>(open_, memory, floats);
}

void GpuBackend::Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
                      Tensor c) {
  const GemmSizes sizes = CheckGemm(ta, tb, a, b, beta, c);
  if (c.size() == 0 || (sizes.k == 0 && beta == 1)) return;
  if (sizes.k == 0) {
    SKERRY_CHECK(c.type == DType::kFloat32 && ConstTensor(c).is_dense());
    return Fill(c.floats(), 0, c.size());
  }
  GpuProduct args = {};
  args.transpose_a = ta == Transpose::kYes ? 1 : 0;
  args.transpose_b = tb == Transpose::kYes ? 1 : 0;
  args.m = sizes.m;
  args.n = sizes.n;
  args.k = sizes.k;
  args.a = TensorOf(a);
  args.b = TensorOf(b);
  args.beta = beta;
  args.c = TensorOf(c);
  table_.product(device_, &args);
}

void GpuBackend::EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                                   Matrix d_table) {
  CheckEmbedding(tokens, d_table, d_out);
  const SortedTokens sorted = SortTokens(tokens);
  const GpuScatter args = {static_cast<int64_t>(sorted.tokens.size()),
                           d_out.rows,
                           d_out.columns,
                           sorted.tokens.data(),
                           sorted.starts.data(),
                           sorted.places.data(),
                           d_out.values,
                           d_table.values};
  table_.embedding_backward(device_, &args);
}

void GpuBackend::RmsNormForward(const RmsNormPass& pass) {
  CheckRmsNorm(pass);
  const GpuRmsNorm args = {pass.x.rows,        pass.x.columns,     pass.x.values,
                           pass.addend.values, pass.weight,        pass.sum.values,
                           pass.epsilon,       TensorOf(pass.out), pass.inverse_rms};
  table_.rms_norm_forward(device_, &args);
}

void GpuBackend::RmsNormBackward(const RmsNormGradient& pass) {
  CheckRmsNorm(pass);
  const GpuRmsNormGradient args = {pass.x.rows,     pass.x.columns,   pass.x.values,
                                   pass.weight,     pass.inverse_rms, TensorOf(pass.d_out),
                                   pass.d_x.values, pass.d_weight,    TensorOf(pass.rounded)};
  table_.rms_norm_backward(device_, &args);
}

void GpuBackend::PrepareAngles(const AttentionShape& shape, const RopeAngles& angles) {
  const int64_t half = shape.head_size / 2;
  if (angles_ != nullptr && angles_context_ == shape.context && angles_half_ == half &&
      angles_are_ == angles) {
    return;
  }
  table_.release(device_, angles_);
  const int64_t values = shape.context * half;
  angles_ = table_.allocate(device_, 2 * values * kFloat);
  SKERRY_CHECK(angles_ != nullptr, "no GPU memory for the angles of one context");
  angles_context_ = shape.context;
  angles_half_ = half;
  angles_are_ = angles;
  rope_.Prepare(shape.context, shape.head_size, angles);
  float* to = static_cast<float*>(angles_);
  table_.upload(device_, rope_.cosines(), to, values * kFloat);
  table_.upload(device_, rope_.sines(), to + values, values * kFloat);
}

void GpuBackend::Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
                      Tensor k) {
  CheckRope(shape, q, k);
  PrepareAngles(shape, angles);
  const float* cosines = static_cast<const float*>(angles_);
  const float* sines = cosines + angles_context_ * angles_half_;
  for (const Tensor& x : {q, k}) {
    const GpuRope args = {shape.context, shape.head_size, cosines,
                          sines,         inverse ? 1 : 0, TensorOf(x)};
    table_.rope(device_, &args);
  }
}

void GpuBackend::AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                  ConstTensor v, Tensor out, float* log_sum_exp) {
  CheckAttentionForward(shape, q, k, v, out);
  GpuAttention args = ArgsOf(shape, q, k, v, out);
  args.log_sum_exp = log_sum_exp;
  table_.attention_forward(device_, &args);
}

void GpuBackend::AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                   ConstTensor v, ConstTensor out, const float* log_sum_exp,
                                   ConstTensor d_out, Tensor d_q, Tensor d_k, Tensor d_v) {
  CheckAttentionForward(shape, q, k, v, out);
  SKERRY_CHECK(SameShape(q, d_out) && SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
  SKERRY_CHECK(SameType({q, d_out, d_q, d_k, d_v}));
  GpuAttention args = ArgsOf(shape, q, k, v, out);
  args.log_sum_exp = const_cast<float*>(log_sum_exp);
  args.d_out = TensorOf(d_out);
  args.d_q = TensorOf(d_q);
  args.d_k = TensorOf(d_k);
  args.d_v = TensorOf(d_v);
  table_.attention_backward(device_, &args);
}

void GpuBackend::CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                              ConstMatrix logits, Tensor d_logits, float* losses) {
  CheckCrossEntropy(targets, terms, logits, d_logits);
  GpuCrossEntropy args = LossArgsOf(targets, logits);
  args.gradient_scale = terms.gradient_scale;
  args.z_loss = terms.z_loss;
  args.parts = terms.parts;
  args.statistics = const_cast<float*>(terms.statistics);
  args.d_logits = TensorOf(d_logits);
  args.losses = losses;
  table_.cross_entropy(device_, &args);
}

void GpuBackend::LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                                 float* statistics) {
  CheckTokens(targets, logits.rows, logits.columns);
  GpuCrossEntropy args = LossArgsOf(targets, logits);
  args.statistics = statistics;
  table_.logit_statistics(device_, &args);
}

void GpuBackend::AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
                       const UpdateArrays& arrays) {
  CheckAdamW(step);
  const double beta1 = step.beta1, beta2 = step.beta2, lr = step.learning_rate;
  const auto steps = static_cast<double>(step.step);
  const std::vector<GpuRange> all = RangesOf(ranges, lr);
  GpuUpdate args = UpdateOf(all, arrays);
  args.m = arrays.m;
  args.v = arrays.v;
  args.beta1 = step.beta1;
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.beta2 = step.beta2;
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  args.rate = static_cast<float>(lr / (1 - std::pow(beta1, steps)));
  args.root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, steps)));
  args.epsilon = step.epsilon;
  table_.update(device_, &args);
}

void GpuBackend::Sgd(float learning_rate, std::span<const UpdateRange> ranges,
                     const UpdateArrays& arrays) {
  const std::vector<GpuRange> all = RangesOf(ranges, 0);
  GpuUpdate args = UpdateOf(all, arrays);
  args.rate = learning_rate;
  table_.update(device_, &args);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(const GpuTable& table, int device,
                                                          DType compute) {
  GpuText why = {};
  const int count = table.count(&why);
  if (count == 0) return Unavailable("no usable GPU: %s", why.text);
  if (device < 0 || device >= count) {
    return Unavailable("there is no GPU %d: this machine has %d usable, counted from 0", device,
                       count);
  }
  GpuDevice* opened = table.open(device, &why);
  if (opened == nullptr) return Unavailable("GPU %d: %s", device, why.text);
  return std::make_unique<GpuBackend>(std::make_shared<OpenDevice>(table, opened, device), compute);
}

int UsableGpus() {
  const auto table = LoadGpuTable(DefaultGpuSearch());
  GpuText why = {};
  return table.ok() ? (*table)->count(&why) : 0;
}

void OnGpuFailure(GpuFailure end) {
  FailureEnds() = std::move(end);
}

GpuHandle GpuOf(Backend& backend) {
  const auto* gpu = dynamic_cast<const GpuBackend*>(&backend);
  return gpu == nullptr ? GpuHandle{} : gpu->handle();
}

int64_t DeviceMemoryFree(Backend& backend) {
  const GpuHandle gpu = GpuOf(backend);
  return gpu.device == nullptr ? -1 : gpu.table->memory_free(gpu.device);
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device, DType compute) {
  const auto table = LoadGpuTable(DefaultGpuSearch());
  if (!table.ok()) {
    return Annotate(table.status(), absl::StrFormat("CUDA device %d", device));
  }
  return CreateGpuBackend(**table, device, compute);
}

}  // namespace skerry
