#include "kernels/plugin/gpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/plugin/loader.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Shared by a backend and its buffers: whoever is last closes the device.
struct OpenDevice {
  OpenDevice(const GpuTable& of, GpuDevice* opened) : table(of), device(opened) {}
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice() { table.close(device); }
  const GpuTable& table;
  GpuDevice* device;
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

struct SortedTokens {
  std::vector<int32_t> tokens, starts, places;
};

SortedTokens Sort(std::span<const int32_t> tokens) {
  SortedTokens out;
  out.places.resize(tokens.size());
  std::iota(out.places.begin(), out.places.end(), 0);
  std::stable_sort(out.places.begin(), out.places.end(),
                   [&](int32_t a, int32_t b) { return tokens[a] < tokens[b]; });
  for (size_t i = 0; i < out.places.size(); ++i) {
    const int32_t token = tokens[static_cast<size_t>(out.places[i])];
    if (!out.tokens.empty() && out.tokens.back() == token) continue;
    out.tokens.push_back(token);
    out.starts.push_back(static_cast<int32_t>(i));
  }
  out.starts.push_back(static_cast<int32_t>(out.places.size()));
  return out;
}

GpuAttention ArgsOf(const AttentionShape& s, ConstMatrix q, ConstMatrix k, ConstMatrix v) {
  GpuAttention args = {};
  args.sequences = s.sequences;
  args.context = s.context;
  args.heads = s.heads;
  args.kv_heads = s.kv_heads;
  args.head_size = s.head_size;
  args.q = q.values;
  args.k = k.values;
  args.v = v.values;
  return args;
}

class GpuBackend : public Backend {
 public:
  explicit GpuBackend(std::shared_ptr<OpenDevice> open)
      : open_(std::move(open)), table_(open_->table), device_(open_->device) {}
  ~GpuBackend() override { table_.release(device_, angles_); }

  GpuHandle handle() const { return {&table_, device_}; }

  std::string name() const override { return Said(table_.name); }
  std::string numeric_profile() const override { return Said(table_.profile); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) override;
  void Upload(std::span<const float> host, float* device) override {
    table_.upload(device_, host.data(), device, Bytes(host.size()));
  }
  void Download(const float* device, std::span<float> host) override {
    table_.download(device_, device, host.data(), Bytes(host.size()));
  }
  void Synchronize() override {
    GpuText why = {};
    const bool fine = table_.synchronize(device_, &why);
    if (!fine) std::fprintf(stderr, "GPU: %s\n", why.text);
    SKERRY_CHECK(fine, "a GPU that failed computes nothing any more");
  }

  void Gemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
            Matrix c) override;
  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    CheckEmbedding(tokens, table, out);
    table_.embedding_forward(device_, tokens.data(), out.rows, out.columns, table.values,
                             out.values);
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override;
  void RmsNormForward(ConstMatrix x, const float* weight, float epsilon, Matrix out,
                      float* inverse_rms) override;
  void RmsNormBackward(ConstMatrix x, const float* weight, const float* inverse_rms,
                       ConstMatrix d_out, Matrix d_x, float* d_weight) override;
  void Rope(const AttentionShape& shape, float base, bool inverse, Matrix q, Matrix k) override;
  void AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                        Matrix out, float* log_sum_exp) override;
  void AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                         ConstMatrix out, const float* log_sum_exp, ConstMatrix d_out, Matrix d_q,
                         Matrix d_k, Matrix d_v) override;
  void SwigluForward(ConstMatrix gate_up, Matrix out) override {
    CheckSwiglu(gate_up, out);
    const GpuSwiglu args = {out.rows, out.columns, gate_up.values, nullptr, out.values};
    table_.swiglu_forward(device_, &args);
  }
  void SwigluBackward(ConstMatrix gate_up, ConstMatrix d_out, Matrix d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up));
    const GpuSwiglu args = {d_out.rows, d_out.columns, gate_up.values, d_out.values,
                            d_gate_up.values};
    table_.swiglu_backward(device_, &args);
  }
  float CrossEntropy(std::span<const int32_t> targets, bool gradient, Matrix logits) override {
    SKERRY_CHECK(logits.rows >= 1, "a mean needs a token");
    CheckTokens(targets, logits.rows, logits.columns);
    const GpuCrossEntropy args = {logits.rows, logits.columns, targets.data(), gradient,
                                  logits.values};
    return static_cast<float>(table_.cross_entropy(device_, &args));
  }
  void Add(const float* x, float* y, int64_t n) override { table_.add(device_, x, y, n); }
  void Fill(float* y, float value, int64_t n) override { table_.fill(device_, y, value, n); }
  void Copy(const float* x, float* y, int64_t n) override {
    table_.copy(device_, x, y, n * kFloat);
  }
  double SumOfSquares(const float* x, int64_t n) override {
    return table_.sum_of_squares(device_, x, n);
  }
  void AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m, float* v,
             int64_t n) override;
  void Sgd(float learning_rate, float scale, const float* gradient, float* parameters,
           int64_t n) override {
    table_.sgd(device_, learning_rate * scale, gradient, parameters, n);
  }

 private:
  static int64_t Bytes(size_t floats) { return static_cast<int64_t>(floats) * kFloat; }
  std::string Said(void (*what)(GpuDevice*, GpuText*)) const {
    GpuText text = {};
    what(device_, &text);
    return text.text;
  }
  void PrepareAngles(const AttentionShape& shape, float base);

  std::shared_ptr<OpenDevice> open_;
  const GpuTable& table_;
  GpuDevice* device_;
  RopeTable rope_;
  // Cosines, then sines of the model's rotation; kept, a model has one.
  void* angles_ = nullptr;
  int64_t angles_context_ = 0, angles_half_ = 0;
  float angles_base_ = 0;
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

void GpuBackend::Gemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
                      Matrix c) {
  const GemmSizes sizes = CheckGemm(ta, tb, a, b, beta, c);
  if (c.size() == 0) return;
  if (sizes.k == 0) {
    if (beta == 0) Fill(c.values, 0, c.size());
    return;
  }
  const GpuProduct args = {ta == Transpose::kYes,
                           tb == Transpose::kYes,
                           sizes.m,
                           sizes.n,
                           sizes.k,
                           a.values,
                           b.values,
                           beta,
                           c.values};
  table_.product(device_, &args);
}

void GpuBackend::EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                                   Matrix d_table) {
  CheckEmbedding(tokens, d_table, d_out);
  const SortedTokens sorted = Sort(tokens);
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

void GpuBackend::RmsNormForward(ConstMatrix x, const float* weight, float epsilon, Matrix out,
                                float* inverse_rms) {
  SKERRY_CHECK(SameShape(x, out));
  const GpuRmsNorm args = {x.rows,  x.columns,   x.values,   weight, nullptr,
                           epsilon, inverse_rms, out.values, nullptr};
  table_.rms_norm_forward(device_, &args);
}

void GpuBackend::RmsNormBackward(ConstMatrix x, const float* weight, const float* inverse_rms,
                                 ConstMatrix d_out, Matrix d_x, float* d_weight) {
  SKERRY_CHECK(SameShape(x, d_out) && SameShape(x, d_x));
  const GpuRmsNorm args = {
      x.rows,     x.columns, x.values, weight, d_out.values, 0, const_cast<float*>(inverse_rms),
      d_x.values, d_weight};
  table_.rms_norm_backward(device_, &args);
}

void GpuBackend::PrepareAngles(const AttentionShape& shape, float base) {
  const int64_t half = shape.head_size / 2;
  if (angles_ != nullptr && angles_context_ == shape.context && angles_half_ == half &&
      angles_base_ == base) {
    return;
  }
  table_.release(device_, angles_);
  const int64_t values = shape.context * half;
  angles_ = table_.allocate(device_, 2 * values * kFloat);
  SKERRY_CHECK(angles_ != nullptr, "no GPU memory for the angles of one context");
  angles_context_ = shape.context;
  angles_half_ = half;
  angles_base_ = base;
  rope_.Prepare(shape.context, shape.head_size, base);
  float* to = static_cast<float*>(angles_);
  table_.upload(device_, rope_.cosines(), to, values * kFloat);
  table_.upload(device_, rope_.sines(), to + values, values * kFloat);
}

void GpuBackend::Rope(const AttentionShape& shape, float base, bool inverse, Matrix q, Matrix k) {
  CheckRope(shape, q, k);
  PrepareAngles(shape, base);
  const float* cosines = static_cast<const float*>(angles_);
  const float* sines = cosines + angles_context_ * angles_half_;
  for (const Matrix& x : {q, k}) {
    const GpuRope args = {x.rows,  x.columns, shape.context, shape.head_size,
                          cosines, sines,     inverse,       x.values};
    table_.rope(device_, &args);
  }
}

void GpuBackend::AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                  ConstMatrix v, Matrix out, float* log_sum_exp) {
  CheckAttention(shape, q, k);
  SKERRY_CHECK(SameShape(k, v) && SameShape(q, out));
  GpuAttention args = ArgsOf(shape, q, k, v);
  args.out = out.values;
  args.log_sum_exp = log_sum_exp;
  table_.attention_forward(device_, &args);
}

void GpuBackend::AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                   ConstMatrix v, ConstMatrix out, const float* log_sum_exp,
                                   ConstMatrix d_out, Matrix d_q, Matrix d_k, Matrix d_v) {
  CheckAttention(shape, q, k);
  SKERRY_CHECK(SameShape(k, v) && SameShape(q, out) && SameShape(q, d_out));
  SKERRY_CHECK(SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
  GpuAttention args = ArgsOf(shape, q, k, v);
  args.out = const_cast<float*>(out.values);
  args.log_sum_exp = const_cast<float*>(log_sum_exp);
  args.d_out = d_out.values;
  args.d_q = d_q.values;
  args.d_k = d_k.values;
  args.d_v = d_v.values;
  table_.attention_backward(device_, &args);
}

void GpuBackend::AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m,
                       float* v, int64_t n) {
  CheckAdamW(step);
  const double beta1 = step.beta1, beta2 = step.beta2, lr = step.learning_rate;
  const double correct1 = 1 - std::pow(beta1, static_cast<double>(step.step));
  const double correct2 = 1 - std::pow(beta2, static_cast<double>(step.step));
  GpuAdamW args = {};
  args.n = n;
  args.gradient = gradient;
  args.parameters = parameters;
  args.m = m;
  args.v = v;
  args.scale = step.gradient_scale;
  args.beta1 = step.beta1;
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.beta2 = step.beta2;
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  args.keep = static_cast<float>(1 - lr * step.weight_decay);
  args.rate = static_cast<float>(lr / correct1);
  args.root = static_cast<float>(1 / std::sqrt(correct2));
  args.epsilon = step.epsilon;
  table_.adamw(device_, &args);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(const GpuTable& table, int device) {
  GpuText why = {};
  const int count = table.count(&why);
  if (count == 0) return Unavailable("no usable GPU: %s", why.text);
  if (device < 0 || device >= count) {
    return Unavailable("there is no GPU %d: this machine has %d usable, counted from 0", device,
                       count);
  }
  GpuDevice* opened = table.open(device, &why);
  if (opened == nullptr) return Unavailable("GPU %d: %s", device, why.text);
  return std::make_unique<GpuBackend>(std::make_shared<OpenDevice>(table, opened));
}

GpuHandle GpuOf(Backend& backend) {
  const auto* gpu = dynamic_cast<const GpuBackend*>(&backend);
  return gpu == nullptr ? GpuHandle{} : gpu->handle();
}

int64_t DeviceMemoryFree(Backend& backend) {
  const GpuHandle gpu = GpuOf(backend);
  return gpu.device == nullptr ? -1 : gpu.table->memory_free(gpu.device);
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device) {
  const auto table = LoadGpuTable(DefaultGpuSearch());
  if (!table.ok()) {
    return Annotate(table.status(), absl::StrFormat("CUDA device %d", device));
  }
  return CreateGpuBackend(**table, device);
}

}  // namespace skerry
