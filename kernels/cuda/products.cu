// Matrix products by cuBLASLt with float32 sums: of bf16 factors, or of float32 ones in TF32, which
// is ten bits of mantissa, the range of float32 and no converted copies. An algorithm is chosen
// once per shape, by the library's own ranking and not by timing, so that a shape has the same bits
// in every process on equal devices.
#include "kernels/cuda/products.h"

#include <cublasLt.h>

#include <cstdio>
#include <map>
#include <tuple>

#include "kernels/cuda/device.h"

namespace skerry {
namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;
constexpr int kCandidates = 8;

// Transposes, sizes, steps, types, beta, alignment.
using Key = std::tuple<int32_t, int32_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int32_t, int32_t, bool, unsigned>;

struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  // Best first; those before `next` the library has ranked and then refused.
  cublasLtMatmulAlgo_t algorithms[kCandidates] = {};
  int next = 0, count = 0;
};

struct Products {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::map<Key, Plan> plans;
};

// Of the largest power of two that divides an address, as far as the library cares.
unsigned Alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address % 16 == 0 ? 16 : address % 8 == 0 ? 8 : address % 4 == 0 ? 4 : 2;
}

unsigned AlignmentOf(const GpuProduct& p) {
  const unsigned a = Alignment(p.a.values), b = Alignment(p.b.values), c = Alignment(p.c.values);
  const unsigned least = a < b ? a : b;
  return least < c ? least : c;
}

// Row-major matrices are column-major transposed ones: Cᵀ = op(B)ᵀ · op(A)ᵀ, so B comes first.
bool Describe(const GpuProduct& p, Plan* plan) {
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasComputeType_t compute =
      p.a.bf16 != 0 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
  bool fine =
      cublasLtMatmulDescCreate(&plan->product, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
  fine = fine && cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                                sizeof(first)) == CUBLAS_STATUS_SUCCESS;
  fine = fine && cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                                sizeof(second)) == CUBLAS_STATUS_SUCCESS;
  const auto layout = [&](cublasLtMatrixLayout_t* of, const GpuTensor& x) {
    fine = fine && cublasLtMatrixLayoutCreate(
                       of, x.bf16 != 0 ? CUDA_R_16BF : CUDA_R_32F, static_cast<uint64_t>(x.columns),
                       static_cast<uint64_t>(x.rows), x.step) == CUBLAS_STATUS_SUCCESS;
  };
  layout(&plan->b, p.b);
  layout(&plan->a, p.a);
  layout(&plan->c, p.c);
  return fine;
}

void Choose(const Products& products, const GpuProduct& p, Plan* plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return;
  const size_t workspace = kWorkspaceBytes;
  const uint32_t alignment = AlignmentOf(p);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  cublasLtMatmulHeuristicResult_t ranked[kCandidates] = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(products.handle, plan->product, plan->b, plan->a, plan->c,
                                     plan->c, preference, kCandidates, ranked, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
    if (ranked[i].state == CUBLAS_STATUS_SUCCESS) plan->algorithms[plan->count++] = ranked[i].algo;
  }
}

Plan& PlanOf(Products& products, const GpuProduct& p) {
  const Key key = {p.transpose_a, p.transpose_b, p.m,      p.n,      p.k,         p.a.step,
                   p.b.step,      p.c.step,      p.a.bf16, p.c.bf16, p.beta != 0, AlignmentOf(p)};
  const auto [it, fresh] = products.plans.try_emplace(key);
  Plan& plan = it->second;
  if (fresh && Describe(p, &plan)) Choose(products, p, &plan);
  return plan;
}

}  // namespace

void* OpenProducts() {
  auto* products = new Products;
  const bool fine = cublasLtCreate(&products->handle) == CUBLAS_STATUS_SUCCESS;
  products->workspace = fine ? cuda::TakeMemory(kWorkspaceBytes) : nullptr;
  if (products->workspace != nullptr) return products;
  CloseProducts(products);
  return nullptr;
}

void CloseProducts(void* opened) {
  auto* products = static_cast<Products*>(opened);
  for (auto& [key, plan] : products->plans) {
    if (plan.product != nullptr) cublasLtMatmulDescDestroy(plan.product);
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  cuda::GiveMemory(products->workspace);
  if (products->handle != nullptr) cublasLtDestroy(products->handle);
  delete products;
}

size_t ProductsVersion() {
  return cublasLtGetVersion();
}

void MultiplyOnGpu(GpuDevice* device, const GpuProduct* args) {
  auto& products = *static_cast<Products*>(device->products);
  Plan& plan = PlanOf(products, *args);
  const float alpha = 1;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  for (; plan.next < plan.count; ++plan.next) {
    status = cublasLtMatmul(products.handle, plan.product, &alpha, args->b.values, plan.b,
                            args->a.values, plan.a, &args->beta, args->c.values, plan.c,
                            args->c.values, plan.c, &plan.algorithms[plan.next], products.workspace,
                            kWorkspaceBytes, device->stream);
    if (status == CUBLAS_STATUS_SUCCESS) return;
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) break;
  }
  GpuText words = {};
  std::snprintf(words.text, sizeof(words.text),
                "cuBLASLt refuses a product of %lld x %lld x %lld: %s",
                static_cast<long long>(args->m), static_cast<long long>(args->n),
                static_cast<long long>(args->k), cublasLtGetStatusString(status));
  cuda::NoteFailure(*device, words.text);
}

}  // namespace skerry
