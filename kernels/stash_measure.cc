#include <algorithm>
#include <chrono>
#include <functional>

#include "common/status.h"
#include "kernels/host_buffer.h"
#include "kernels/stash_store.h"

namespace skerry {
namespace {

constexpr int64_t kPiece = int64_t{4} << 20;  // bytes
constexpr int32_t kPieces = static_cast<int32_t>(kMeasuredBytes / kPiece);
constexpr double kSecondsMax = 0.5;  // each way

// Of as many pieces as there is time for, at most `pieces`; says how many.
absl::StatusOr<double> RateOf(StashStore& store, int32_t& pieces,
                              const std::function<int64_t(int32_t)>& start) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int32_t done = 0;
  while (done < pieces && (done == 0 || seconds() < kSecondsMax)) {
    SKERRY_RETURN_IF_ERROR(store.Wait(start(done)));
    ++done;
  }
  pieces = done;
  return static_cast<double>(done * kPiece) / std::max(seconds(), 1e-9);
}

}  // namespace

absl::StatusOr<StashRates> MeasureStashFile(const std::string& directory) {
  constexpr int64_t kFloats = kPiece / static_cast<int64_t>(sizeof(float));
  SKERRY_ASSIGN_OR_RETURN(const auto buffer, AllocateHostBuffer(kFloats, kStashBorder));
  std::fill_n(buffer->data(), kFloats, 0.1f);
  SKERRY_ASSIGN_OR_RETURN(const auto store, OpenStashFile(directory, kPieces, kFloats));
  StashRates rates;
  int32_t pieces = kPieces;
  SKERRY_ASSIGN_OR_RETURN(rates.write_bytes_per_s, RateOf(*store, pieces, [&](int32_t piece) {
                            return store->Write(piece, buffer->data());
                          }));
  SKERRY_ASSIGN_OR_RETURN(rates.read_bytes_per_s, RateOf(*store, pieces, [&](int32_t piece) {
                            return store->Read(piece, buffer->data());
                          }));
  return rates;
}

}  // namespace skerry
