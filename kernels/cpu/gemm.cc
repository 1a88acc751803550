#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "common/check.h"
#include "common/status.h"
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
  // Every product may use `floats` from now on. Aligned: a packed matrix that straddles cache lines
  // costs a third of the speed.
  absl::Status Reserve(int64_t floats) {
    if (scratch != nullptr && scratch->size() >= floats) return absl::OkStatus();
    SKERRY_ASSIGN_OR_RETURN(scratch, AllocateHostBuffer(floats));
    return absl::OkStatus();
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unique_ptr<Buffer> scratch;  // one for all: products run one after another
};

// A primitive with its four memories. Their addresses are set anew for every run, which allocates
// nothing.
struct GemmCache::Product {
  Product(const GemmCall& call, Engine& device);
  absl::Status Run(const GemmCall& call, Engine& device);

  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratch;
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
  a = dnnl::memory(a_desc, device.engine, DNNL_MEMORY_NONE);
  b = dnnl::memory(b_desc, device.engine, DNNL_MEMORY_NONE);
  c = dnnl::memory(c_desc, device.engine, DNNL_MEMORY_NONE);
  scratch = dnnl::memory(scratch_desc, device.engine, DNNL_MEMORY_NONE);
}

absl::Status GemmCache::Product::Run(const GemmCall& call, Engine& device) {
  try {
    a.set_data_handle(const_cast<void*>(call.a.values));
    b.set_data_handle(const_cast<void*>(call.b.values));
    c.set_data_handle(call.c.values);
    scratch.set_data_handle(device.scratch->data());
    // The C++ wrapper would build a map of the arguments for every call.
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, a.get()},
                                    {DNNL_ARG_WEIGHTS, b.get()},
                                    {DNNL_ARG_DST, c.get()},
                                    {DNNL_ARG_SCRATCHPAD, scratch.get()}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), device.stream.get(), std::size(args), args),
        "a matrix product failed");
    device.stream.wait();
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
    if (!engine_) engine_ = std::make_unique<Engine>();
    auto product = std::make_unique<Product>(call, *engine_);
    SKERRY_RETURN_IF_ERROR(engine_->Reserve(product->scratch_floats));
    return (products_[key] = std::move(product)).get();
  } catch (const dnnl::error& error) {
    return FromError(error);
  }
}

absl::Status GemmCache::Run(const GemmCall& call) {
  thread_local int team_of_this_thread = 0;
  if (team_of_this_thread != threads_) {
    omp_set_num_threads(threads_);
    team_of_this_thread = threads_;
  }
  SKERRY_ASSIGN_OR_RETURN(Product* const product, Find(call));
  return product->Run(call, *engine_);
}

bool MultipliesBfloat16() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

std::string GemmLibrary() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrFormat("oneDNN %d.%d.%d, %s", version->major, version->minor, version->patch,
                         InstructionSet());
}

}  // namespace skerry
