#include "kernels/operation_rates.h"

#include <utility>

#include "common/rng.h"

namespace skerry {
namespace {

// Allocates operands for one list of operations; after the first failure everything is null.
class Operands {
 public:
  explicit Operands(Backend& backend) : backend_(backend) {}

  float* Floats(int64_t count, float scale = 0.5f) {
    auto buffer = backend_.Allocate(count);
    if (!buffer.ok()) {
      failed_ = true;
      return nullptr;
    }
    Rng rng(1);
    std::vector<float> values(static_cast<size_t>(count));
    // A short repeated draw: the values do not matter, but that they are neither zeros nor one.
    std::vector<float> draw(4099);
    for (float& value : draw) value = scale * static_cast<float>(rng.Uniform() - 0.5);
    for (size_t i = 0; i < values.size(); ++i) values[i] = draw[i % draw.size()];
    backend_.Upload(values, (*buffer)->data());
    backend_.Synchronize();
    buffers_.push_back(*std::move(buffer));
    return buffers_.back()->data();
  }
  Matrix Rows(int64_t rows, int64_t columns) { return {Floats(rows * columns), rows, columns}; }
  // Of the backend's compute type.
  Tensor Activations(int64_t rows, int64_t columns) {
    const Matrix values = Rows(rows, columns);
    if (failed_ || backend_.compute_type() == DType::kFloat32) return values;
    auto buffer = backend_.Allocate((rows * columns + 1) / 2);
    if (!buffer.ok()) {
      failed_ = true;
      return {};
    }
    const Tensor rounded((*buffer)->data(), rows, columns, columns, DType::kBfloat16);
    backend_.Cast(values, rounded);
    backend_.Synchronize();
    buffers_.back() = *std::move(buffer);
    return rounded;
  }
  bool failed() const { return failed_; }
  std::vector<std::unique_ptr<Buffer>> Take() { return std::move(buffers_); }

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  bool failed_ = false;
};

Bound ArithmeticOf(const Backend& backend) {
  return backend.compute_type() == DType::kFloat32 ? Bound::kFloat32 : Bound::kBfloat16;
}

// The first operation of a list owns the operands of all.
std::vector<TimedOperation> Finished(std::vector<TimedOperation> operations, Operands& operands) {
  if (operands.failed()) return {};
  operations.front().operands = operands.Take();
  return operations;
}

void Append(std::vector<TimedOperation>& to, std::vector<TimedOperation> more) {
  for (TimedOperation& operation : more) to.push_back(std::move(operation));
}

std::vector<TimedOperation> NormOperations(Backend& backend, int64_t rows, int64_t width) {
  Operands make(backend);
  const Matrix x = make.Rows(rows, width), branch = make.Rows(rows, width);
  const Matrix sum = make.Rows(rows, width);
  const Tensor out = make.Activations(rows, width);
  float *weight = make.Floats(width), *inverse = make.Floats(rows), *d_weight = make.Floats(width);
  const auto bytes = static_cast<double>(rows * width);
  const auto width_of = static_cast<double>(BytesOf(backend.compute_type()));
  std::vector<TimedOperation> operations;
  operations.push_back({"RMSNorm",
                        Bound::kMemory,
                        bytes * (4 + width_of),
                        [=, &backend] {
                          backend.RmsNormForward({x, {}, {}, weight, 1e-5f, out, inverse});
                        },
                        {}});
  operations.push_back({"RMSNorm of a sum",
                        Bound::kMemory,
                        bytes * (12 + width_of),
                        [=, &backend] {
                          backend.RmsNormForward({x, branch, sum, weight, 1e-5f, out, inverse});
                        },
                        {}});
  operations.push_back({"RMSNorm, backward",
                        Bound::kMemory,
                        bytes * (12 + width_of),
                        [=, &backend] {
                          backend.RmsNormBackward({x, weight, inverse, out, sum, {}, d_weight});
                        },
                        {}});
  return Finished(std::move(operations), make);
}

std::vector<TimedOperation> ActivationOperations(Backend& backend, int64_t rows, int64_t width) {
  Operands make(backend);
  const Tensor gate_up = make.Activations(rows, 2 * width), out = make.Activations(rows, width);
  const Tensor d_gate_up = make.Activations(rows, 2 * width);
  const AttentionShape shape = {rows / 1024, 1024, width / 64, width / 64, 64};
  const double bytes = static_cast<double>(rows * width * BytesOf(backend.compute_type()));
  std::vector<TimedOperation> operations;
  operations.push_back({"SwiGLU",
                        Bound::kMemory,
                        bytes * 3,
                        [=, &backend] { backend.SwigluForward(gate_up, out); },
                        {}});
  operations.push_back({"SwiGLU, backward",
                        Bound::kMemory,
                        bytes * 5,
                        [=, &backend] { backend.SwigluBackward(gate_up, out, d_gate_up); },
                        {}});
  // q and k are columns of one product, as in a layer.
  operations.push_back({"RoPE",
                        Bound::kMemory,
                        bytes * 4,
                        [=, &backend] {
                          backend.Rope(shape, 10000, false, gate_up.Columns(0, width),
                                       gate_up.Columns(width, width));
                        },
                        {}});
  return Finished(std::move(operations), make);
}

std::vector<TimedOperation> LossOperations(Backend& backend, int64_t rows) {
  constexpr int64_t kVocabulary = 8192;
  Operands make(backend);
  const Matrix logits = make.Rows(rows, kVocabulary);
  const bool in_place = backend.compute_type() == DType::kFloat32;
  const Tensor d_logits = in_place ? Tensor(logits) : make.Activations(rows, kVocabulary);
  float* losses = make.Floats(rows);
  std::vector<int32_t> targets(static_cast<size_t>(rows));
  for (size_t t = 0; t < targets.size(); ++t) targets[t] = static_cast<int32_t>(t % kVocabulary);
  const auto bytes = static_cast<double>(rows * kVocabulary);
  std::vector<TimedOperation> operations;
  operations.push_back({"cross-entropy with gradient",
                        Bound::kMemory,
                        bytes * static_cast<double>(4 + BytesOf(backend.compute_type())),
                        [=, &backend] {
                          backend.CrossEntropy(targets, {1e-4f, 0}, logits, d_logits, losses);
                        },
                        {}});
  return Finished(std::move(operations), make);
}

std::vector<TimedOperation> UpdateOperations(Backend& backend, int64_t size) {
  Operands make(backend);
  float *parameters = make.Floats(size), *m = make.Floats(size), *v = make.Floats(size);
  float* gradient = make.Floats(size, 1e-3f);
  const bool rounds = backend.compute_type() == DType::kBfloat16;
  void* rounded = rounds ? make.Activations(1, size).values : nullptr;
  backend.Fill(v, 1e-4f, v == nullptr ? 0 : size);
  const UpdateArrays arrays = {gradient, parameters, m, v, static_cast<Bf16*>(rounded)};
  const UpdateRange all = {0, size, 1, 0.1f};
  const auto values = static_cast<double>(size);
  std::vector<TimedOperation> operations;
  operations.push_back({rounds ? "AdamW and bf16 copy" : "AdamW",
                        Bound::kMemory,
                        values * (rounds ? 30 : 28),
                        [=, &backend] {
                          backend.AdamW({1e-4f, 0.9f, 0.95f, 1e-8f, 10}, {&all, 1}, arrays);
                        },
                        {}});
  operations.push_back({"gradient norm",
                        Bound::kMemory,
                        values * 4,
                        [=, &backend] {
                          double sum = 0;
                          backend.SumsOfSquares(gradient, {&all, 1}, {&sum, 1});
                        },
                        {}});
  operations.push_back({"adding gradients",
                        Bound::kMemory,
                        values * 12,
                        [=, &backend] { backend.Add(gradient, m, size); },
                        {}});
  return Finished(std::move(operations), make);
}

}  // namespace

std::vector<TimedOperation> ProductOperations(Backend& backend, const ProductShape& shape) {
  Operands make(backend);
  const Tensor x = make.Activations(shape.tokens, shape.in);
  const Tensor y = make.Activations(shape.tokens, shape.out);
  const Tensor w = make.Activations(shape.out, shape.in);
  const Matrix d_w = make.Rows(shape.out, shape.in);
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  const double work = 2.0 * static_cast<double>(shape.tokens * shape.in * shape.out);
  const Bound bound = ArithmeticOf(backend);
  std::vector<TimedOperation> operations;
  operations.push_back(
      {"forward", bound, work, [=, &backend] { backend.Gemm(kNo, kYes, x, w, 0, y); }, {}});
  operations.push_back(
      {"backward, input", bound, work, [=, &backend] { backend.Gemm(kNo, kNo, y, w, 0, x); }, {}});
  operations.push_back({"backward, weight",
                        bound,
                        work,
                        [=, &backend] { backend.Gemm(kYes, kNo, y, x, 0, d_w); },
                        {}});
  return Finished(std::move(operations), make);
}

std::vector<TimedOperation> AttentionOperations(Backend& backend, const AttentionShape& shape) {
  Operands make(backend);
  const int64_t tokens = shape.sequences * shape.context;
  const int64_t width = shape.heads * shape.head_size, kv = shape.kv_heads * shape.head_size;
  const Tensor qkv = make.Activations(tokens, width + 2 * kv);
  const Tensor d_qkv = make.Activations(tokens, width + 2 * kv);
  const Tensor out = make.Activations(tokens, width), d_out = make.Activations(tokens, width);
  float* log_sum_exp = make.Floats(tokens * shape.heads);
  const auto part = [=](const Tensor& of, int i) {
    return i == 0 ? of.Columns(0, width) : of.Columns(width + (i - 1) * kv, kv);
  };
  const double product = static_cast<double>(tokens * shape.context * width);
  const Bound bound = ArithmeticOf(backend);
  std::vector<TimedOperation> operations;
  operations.push_back({"attention",
                        bound,
                        2 * product,
                        [=, &backend] {
                          backend.AttentionForward(shape, part(qkv, 0), part(qkv, 1), part(qkv, 2),
                                                   out, log_sum_exp);
                        },
                        {}});
  operations.push_back({"attention, backward",
                        bound,
                        5 * product,
                        [=, &backend] {
                          backend.AttentionBackward(shape, part(qkv, 0), part(qkv, 1), part(qkv, 2),
                                                    out, log_sum_exp, d_out, part(d_qkv, 0),
                                                    part(d_qkv, 1), part(d_qkv, 2));
                        },
                        {}});
  return Finished(std::move(operations), make);
}

std::vector<TimedOperation> MemoryOperations(Backend& backend, int64_t tokens) {
  constexpr int64_t kWidth = 1088;  // not a power of two, which would measure cache conflicts
  std::vector<TimedOperation> operations;
  Append(operations, NormOperations(backend, tokens, kWidth));
  Append(operations, ActivationOperations(backend, tokens / 1024 * 1024, kWidth));
  Append(operations, LossOperations(backend, tokens / 8));
  Append(operations, UpdateOperations(backend, tokens * kWidth));
  return operations;
}

}  // namespace skerry
