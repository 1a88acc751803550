#include "kernels/cpu/tiled_products.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "kernels/cpu/even_parts.h"
#include "kernels/host_buffer.h"

namespace skerry {
namespace {

// Rows are packed anew for every strip of columns.
constexpr int64_t kStripColumns = kProductColumns, kStripColumnsLeast = 128;
constexpr int64_t kDepthGrain = 32;
constexpr int64_t kPackedTogether = 4;  // panels
constexpr int64_t kRowsGrain = 48, kRowsMost = 288;
constexpr int64_t kSlicesEach = 4;

// Of the factors' type. Beside a small stage more would be felt.
int64_t StripNumbers(const ProductKernels& kernels) {
  constexpr int64_t kMost = 384 << 10, kCommon = 256 << 10, kCacheLeast = 1 << 20;
  if (kernels.type == DType::kBfloat16) return 2 * kCommon;
  if (kernels.slice_rows == 0) return kCommon;
  const int64_t cache = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), kCacheLeast);
  return std::min(kMost, cache * 3 / 4 / static_cast<int64_t>(sizeof(float)));
}

// What begins at row `row` and column `column` of op(x).
ProductFactor FactorFrom(const ConstTensor& x, Transpose transposed, int64_t row, int64_t column) {
  const bool swaps = transposed == Transpose::kYes;
  const ConstTensor from =
      swaps ? x.Rows(column, 1).Columns(row, 1) : x.Rows(row, 1).Columns(column, 1);
  return {from.values, x.step, swaps};
}

// Pieces of work that the members of a team take as they come.
class Shares {
 public:
  // Those from `first` to `last`, counted from `first`; returns when all of them are done. Every
  // member calls it for the same ranges, one after another.
  template <typename Work>
  void Run(int64_t first, int64_t last, const Work& work) {
    for (int64_t i = taken_; i < last;) {
      if (!taken_.compare_exchange_weak(i, i + 1)) continue;
      work(i - first);
      done_.fetch_add(1, std::memory_order_release);
      i = taken_;
    }
    while (done_.load(std::memory_order_acquire) < last) sched_yield();
  }

 private:
  std::atomic<int64_t> taken_ = 0, done_ = 0;
};

}  // namespace

TiledProducts::TiledProducts(const ProductKernels& kernels, int threads)
    : kernels_(kernels),
      threads_(threads),
      strip_numbers_(StripNumbers(kernels)),
      scratch_(static_cast<size_t>(threads)) {}

bool TiledProducts::Suit(const GemmCall& call) const {
  if (call.a.type != kernels_.type) return false;
  if (call.ta == Transpose::kNo && !kernels_.of_rows_too) return false;
  const auto& [m, n, k] = call.sizes;
  // Sums that c cannot hold as they are go along all of k in one strip.
  if (call.c.type != DType::kFloat32 && k > strip_numbers_ / kStripColumnsLeast) return false;
  return std::min({m, n, k}) >= kernels_.side_least;
}

std::string TiledProducts::Names(const char* instructions) const {
  if (kernels_.side_least > 0) return absl::StrCat("own products and ", GemmLibrary());
  return absl::StrCat("own products, ", instructions);
}

absl::Status TiledProducts::Run(const GemmCall& call) {
  const auto& [m, n, k] = call.sizes;
  SKERRY_CHECK(call.a.type == kernels_.type);
  const bool whole = call.c.type != DType::kFloat32;
  const int64_t most = whole ? std::min(strip_numbers_ / k, kStripColumns) : kStripColumns;
  const int64_t columns = std::min(EvenPart(n, most, kernels_.panel), n);
  const int64_t depth = whole ? k : std::min(EvenPart(k, strip_numbers_ / columns, kDepthGrain), k);
  const int64_t floats = PackedFloats(Cuts(columns, kernels_.panel) * kernels_.panel, depth);
  if (panels_ == nullptr || panels_->size() < floats) {
    panels_.reset();
    SKERRY_ASSIGN_OR_RETURN(panels_, AllocateHostBuffer(floats));
  }
  for (auto& scratch : scratch_) {
    if (scratch != nullptr) continue;
    SKERRY_ASSIGN_OR_RETURN(scratch, AllocateHostBuffer(kernels_.scratch));
  }
  strips_.clear();
  for (int64_t column = 0; column < n; column += columns) {
    for (int64_t begin = 0; begin < k; begin += depth)
      strips_.push_back({column, std::min(columns, n - column), begin, std::min(depth, k - begin)});
  }
  if (threads_ > 1) {
    RunTogether(call);
    return absl::OkStatus();
  }
  for (const Strip& strip : strips_) {
    Pack(call, strip, 0, Cuts(strip.columns, kernels_.panel));
    Multiply(call, strip, 0, m, scratch_.front()->data());
  }
  return absl::OkStatus();
}

int64_t TiledProducts::PackedFloats(int64_t columns, int64_t depth) const {
  const int64_t packed = Cuts(depth, kernels_.depth_step) * kernels_.depth_step;
  return columns * packed * BytesOf(kernels_.type) / static_cast<int64_t>(sizeof(float));
}

void TiledProducts::Pack(const GemmCall& call, const Strip& strip, int64_t first_panel,
                         int64_t panels) {
  const int64_t first = first_panel * kernels_.panel;
  const int64_t columns = std::min(panels * kernels_.panel, strip.columns - first);
  kernels_.pack_factor(FactorFrom(call.b, call.tb, strip.begin, strip.first_column + first),
                       columns, strip.depth, panels_->data() + PackedFloats(first, strip.depth));
}

void TiledProducts::Multiply(const GemmCall& call, const Strip& strip, int64_t first_row,
                             int64_t rows, float* scratch) const {
  kernels_.multiply_packed({.rows = rows,
                            .columns = strip.columns,
                            .depth = strip.depth,
                            .a = FactorFrom(call.a, call.ta, first_row, strip.begin),
                            .panels = panels_->data(),
                            .c = call.c.Rows(first_row, 1).Columns(strip.first_column, 1).values,
                            .c_step = call.c.step,
                            .c_type = call.c.type,
                            .adds = call.beta == 1 || strip.begin > 0,
                            .scratch = scratch});
}

// Of what one member multiplies at a time. Where each tile is packed for itself few rows cost
// nothing, and whole tiles are what matters.
int64_t TiledProducts::SliceRows(int64_t m) const {
  if (kernels_.slice_rows > 0) return kernels_.slice_rows;
  return EvenPart(m, std::min(kRowsMost, Cuts(m, kSlicesEach * threads_)), kRowsGrain);
}

void TiledProducts::RunTogether(const GemmCall& call) {
  const int64_t m = call.sizes.m, rows = SliceRows(m), slices = Cuts(m, rows);
  Shares packing, multiplying;
#pragma omp parallel num_threads(threads_)
  {
    float* const scratch = scratch_[static_cast<size_t>(omp_get_thread_num())]->data();
    int64_t packed = 0, multiplied = 0;  // of strips before
    for (const Strip& strip : strips_) {
      const int64_t panels = Cuts(strip.columns, kernels_.panel);
      const int64_t pieces = Cuts(panels, kPackedTogether);
      packing.Run(packed, packed + pieces, [&](int64_t i) {
        const int64_t first = i * kPackedTogether;
        Pack(call, strip, first, std::min(kPackedTogether, panels - first));
      });
      multiplying.Run(multiplied, multiplied + slices, [&](int64_t i) {
        Multiply(call, strip, i * rows, std::min(rows, m - i * rows), scratch);
      });
      packed += pieces, multiplied += slices;
    }
  }
}

std::vector<TiledProducts> OwnProducts(const KernelTable& kernels, int threads) {
  std::vector<TiledProducts> own;
  for (const ProductKernels* products : {kernels.products, kernels.bf16_products}) {
    if (products != nullptr) own.emplace_back(*products, threads);
  }
  return own;
}

}  // namespace skerry
