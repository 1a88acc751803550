#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/cpu/even_parts.h"
#include "kernels/cpu/limits.h"
#include "kernels/host_buffer.h"

namespace skerry {
namespace {

using Dims = dnnl::memory::dims;

// op(x) [rows, columns]
dnnl::memory::desc Describe(int64_t rows, int64_t columns, const ConstTensor& x,
                            Transpose transposed) {
  // A step means nothing where there is one row, but oneDNN wants a possible one.
  const int64_t step = std::max(x.step, x.columns);
  const Dims strides = transposed == Transpose::kYes ? Dims{1, step} : Dims{step, 1};
  const bool is_float = x.type == DType::kFloat32;
  return {{rows, columns},
          is_float ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
          strides};
}

absl::Status FromError(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) return ResourceExhausted("oneDNN: %s", error.what());
  return Internal("oneDNN: %s", error.what());
}

// Rows of a slice: an eighth of them, but enough for packing the other factor anew to cost little.
int64_t SliceRows(const GemmSizes& sizes) {
  constexpr int64_t kSlices = 8, kGrain = 32, kRowsMin = 96;
  return std::max(kRowsMin, Cuts(Cuts(sizes.m, kSlices), kGrain) * kGrain);
}

const char* InstructionSet() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2-VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512-VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512-BF16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AMX";
    default:
      return "its own choice of instructions";
  }
}

}  // namespace

struct GemmCache::Engine {
  explicit Engine(int threads)
      : scratch(static_cast<size_t>(threads)), packed(static_cast<size_t>(threads)) {
    for (int i = 0; i < threads; ++i) streams.emplace_back(engine);
  }
  // Every product may use `floats` from now on, on every thread. Aligned: a packed matrix that
  // straddles cache lines costs a third of the speed.
  static absl::Status Reserve(std::vector<std::unique_ptr<Buffer>>& rooms, int64_t floats) {
    for (auto& room : rooms) {
      if (room != nullptr && room->size() >= floats) continue;
      SKERRY_ASSIGN_OR_RETURN(room, AllocateHostBuffer(floats));
    }
    return absl::OkStatus();
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  // One for each thread and for all products: those run one after another.
  std::vector<dnnl::stream> streams;
  std::vector<std::unique_ptr<Buffer>> scratch;
  std::vector<std::unique_ptr<Buffer>> packed;  // slices of a transposed factor
};

// A primitive for one thread, with four memories for each that may run it. Their addresses are set
// anew for every run, which allocates nothing.
struct GemmCache::Product {
  Product(const GemmCall& call, Engine& device);
  absl::Status Run(const GemmCall& call, Engine& device, size_t thread);

  struct Memories {
    dnnl::memory a, b, c, scratch;
  };
  dnnl::matmul primitive;
  std::vector<Memories> memories;
  int64_t scratch_floats = 0;
};

GemmCache::Product::Product(const GemmCall& call, Engine& device) {
  const auto& [m, n, k] = call.sizes;
  const auto a_desc = Describe(m, k, call.a, call.ta), b_desc = Describe(k, n, call.b, call.tb);
  const auto c_desc = Describe(m, n, call.c, Transpose::kNo);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (call.beta == 1) {
    dnnl::post_ops accumulate;
    accumulate.append_sum(1.0f);
    attributes.set_post_ops(accumulate);
  }
  const dnnl::matmul::primitive_desc plan({a_desc, b_desc, c_desc}, attributes, device.engine);
  primitive = dnnl::matmul(plan);
  const auto scratch_desc = plan.scratchpad_desc();
  scratch_floats = static_cast<int64_t>(scratch_desc.get_size() / sizeof(float)) + 1;
  for (size_t i = 0; i < device.streams.size(); ++i) {
    memories.push_back({{a_desc, device.engine, DNNL_MEMORY_NONE},
                        {b_desc, device.engine, DNNL_MEMORY_NONE},
                        {c_desc, device.engine, DNNL_MEMORY_NONE},
                        {scratch_desc, device.engine, DNNL_MEMORY_NONE}});
  }
}

absl::Status GemmCache::Product::Run(const GemmCall& call, Engine& device, size_t thread) {
  auto& [a, b, c, scratch] = memories[thread];
  try {
    a.set_data_handle(const_cast<void*>(call.a.values));
    b.set_data_handle(const_cast<void*>(call.b.values));
    c.set_data_handle(call.c.values);
    scratch.set_data_handle(device.scratch[thread]->data());
    // The C++ wrapper would build a map of the arguments for every call.
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, a.get()},
                                    {DNNL_ARG_WEIGHTS, b.get()},
                                    {DNNL_ARG_DST, c.get()},
                                    {DNNL_ARG_SCRATCHPAD, scratch.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), device.streams[thread].get(),
                                                   std::size(args), args),
                            "a matrix product failed");
    device.streams[thread].wait();
  } catch (const dnnl::error& error) {
    return FromError(error);
  }
  return absl::OkStatus();
}

GemmCache::GemmCache(int threads) : threads_(threads) {
  SKERRY_CHECK(threads >= 1, "a team has at least the calling thread");
}
GemmCache::~GemmCache() = default;

absl::StatusOr<GemmCache::Product*> GemmCache::Find(const GemmCall& call) {
  const Key key = {call.ta == Transpose::kYes,
                   call.tb == Transpose::kYes,
                   call.sizes.m,
                   call.sizes.n,
                   call.sizes.k,
                   call.beta == 1,
                   call.a.step,
                   call.b.step,
                   call.c.step,
                   call.a.type == DType::kBfloat16,
                   call.c.type == DType::kBfloat16};
  const auto found = products_.find(key);
  if (found != products_.end()) return found->second.get();
  try {
    if (!engine_) engine_ = std::make_unique<Engine>(threads_);
    auto product = std::make_unique<Product>(call, *engine_);
    SKERRY_RETURN_IF_ERROR(Engine::Reserve(engine_->scratch, product->scratch_floats));
    return (products_[key] = std::move(product)).get();
  } catch (const dnnl::error& error) {
    return FromError(error);
  }
}

absl::Status GemmCache::Run(const GemmCall& call) {
  // Every primitive is made for one thread; teams are ours.
  thread_local bool alone = false;
  if (!alone) omp_set_num_threads(1);
  alone = true;
  const int64_t rows = SliceRows(call.sizes);
  if (threads_ > 1 && rows < call.sizes.m) return RunSlices(call, rows);
  SKERRY_ASSIGN_OR_RETURN(Product* const product, Find(call));
  return product->Run(call, *engine_, 0);
}

namespace {

// The same factor without gaps, in `room`.
ConstTensor Packed(const ConstTensor& x, Buffer& room) {
  const auto bytes = static_cast<size_t>(x.columns * BytesOf(x.type));
  auto* to = reinterpret_cast<char*>(room.data());
  for (int64_t r = 0; r < x.rows; ++r, to += bytes) std::memcpy(to, x.Rows(r, 1).values, bytes);
  return {room.data(), x.rows, x.columns, x.columns, x.type};
}

}  // namespace

absl::Status GemmCache::RunSlices(const GemmCall& call, int64_t slice_rows) {
  const int64_t m = call.sizes.m, slices = Cuts(m, slice_rows);
  // Of a transposed factor a slice is some columns. For those oneDNN has only its older kernel,
  // which is slower and takes memory of its own at every call; for the same columns put together,
  // the one that it has for the whole.
  const bool packs = call.ta == Transpose::kYes;
  if (!engine_) engine_ = std::make_unique<Engine>(threads_);
  if (packs) {
    const int64_t bytes = slice_rows * call.sizes.k * BytesOf(call.a.type);
    SKERRY_RETURN_IF_ERROR(Engine::Reserve(engine_->packed, (bytes + 3) / 4));
  }
  const auto slice_at = [&](int64_t i) {
    const int64_t first = i * slice_rows, rows = std::min(slice_rows, m - first);
    GemmCall slice = call;
    slice.sizes.m = rows;
    slice.a = packs ? call.a.Columns(first, rows) : call.a.Rows(first, rows);
    slice.c = call.c.Rows(first, rows);
    return slice;
  };
  const auto shape_at = [&](int64_t i) {
    GemmCall slice = slice_at(i);
    if (packs) slice.a.step = slice.a.columns;
    return slice;
  };
  // The last slice may be of another shape. Both are found before the team starts.
  SKERRY_ASSIGN_OR_RETURN(Product* const whole, Find(shape_at(0)));
  SKERRY_ASSIGN_OR_RETURN(Product* const last, Find(shape_at(slices - 1)));
  std::vector<absl::Status> results(static_cast<size_t>(threads_));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
  for (int64_t i = 0; i < slices; ++i) {
    const auto thread = static_cast<size_t>(omp_get_thread_num());
    Product* const product = i + 1 == slices ? last : whole;
    GemmCall slice = slice_at(i);
    if (packs) slice.a = Packed(slice.a, *engine_->packed[thread]);
    results[thread].Update(product->Run(slice, *engine_, thread));
  }
  for (const absl::Status& result : results) SKERRY_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

bool MultipliesBfloat16() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

bool Bfloat16Pays() {
  if (dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx) return true;
  return MultipliesBfloat16() && PairsBeatFloats();
}

std::string GemmLibrary() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrFormat("oneDNN %d.%d.%d, %s", version->major, version->minor, version->patch,
                         InstructionSet());
}

}  // namespace skerry
