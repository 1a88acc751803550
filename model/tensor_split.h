// A stage whose tensors are shared out over n devices: which part of which tensor is whose, and
// copies between the whole stage's arrays and a device's.
//
// As Megatron-LM does it (Shoeybi et al., 2019, section 3): heads/n query heads with their
// key/value heads and ffn/n of the MLP are one device's in every layer. So q, k, v, their biases,
// gate and up are cut by rows, o and down by columns; embedding and head by rows of the vocabulary
// (common/device_split.h); norms are on every device. A device's arena is in the order of
// ParameterLayout.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device_split.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/parameter_layout.h"

namespace skerry {

// Immutable after construction; any thread. `own` is an array of device `rank`, of its layout's
// size, on `backend`; `whole` one of the stage in host memory.
class TensorSplit {
 public:
  // The errors of CheckTensorSplit (common/device_split.h). devices ≥ 1.
  static absl::StatusOr<TensorSplit> Of(const RunConfig& config, int32_t first_layer,
                                        int32_t last_layer, bool holds_ends, int32_t devices);

  const ParameterLayout& whole() const { return whole_; }

  // whole ← what is the device's: of what all have, the first one's. Together all devices write
  // every value once. One tensor at a time passes through host memory.
  void Read(int32_t rank, Backend& backend, const float* own, std::span<float> whole) const;
  // own ← its part of whole; synchronizes.
  void Write(int32_t rank, Backend& backend, std::span<const float> whole, float* own) const;
  // What all devices have, tensor by tensor.
  std::vector<float> ReadShared(int32_t rank, Backend& backend, const float* own) const;

  // Σ gradient² by block of the whole stage, of what is the device's as in Read, in a fixed order.
  // squares [whole().blocks().size()].
  void Squares(int32_t rank, Backend& backend, const float* own, std::span<double> squares) const;

 private:
  // A tensor of one device: `rows` runs of `columns` values, dense there, every `step` in the
  // whole.
  struct Piece {
    int64_t own = 0, whole = 0;  // offsets
    int64_t rows = 1, columns = 0, step = 0;
    int32_t block = 0;       // of the whole layout
    bool is_shared = false;  // all devices have it
    int64_t size() const { return rows * columns; }
  };
  TensorSplit(ParameterLayout whole, std::vector<std::vector<Piece>> pieces)
      : whole_(std::move(whole)), pieces_(std::move(pieces)) {}
  static Piece PieceOf(const TensorSlot& own, const TensorSlot& whole, const TensorShard& shard);
  // Those of a device that count where each value of the stage counts once.
  std::vector<Piece> Counted(int32_t rank) const;

  ParameterLayout whole_;
  std::vector<std::vector<Piece>> pieces_;  // by device
};

}  // namespace skerry
