#include "model/tensor_split.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

TensorSplit::Piece TensorSplit::PieceOf(const TensorSlot& own, const TensorSlot& whole,
                                        const TensorShard& shard) {
  Piece piece = {own.offset, whole.offset, 1, own.size(), 0, whole.block, false};
  if (own.rows < whole.rows) {
    const bool is_of_vocab = whole.decays && !whole.is_hidden_matrix;
    const int64_t first =
        is_of_vocab ? VocabRowsOf(whole.rows, shard).first : shard.rank * own.rows;
    piece.whole += first * own.columns;
  }
  if (own.columns < whole.columns) {
    piece.whole += shard.rank * own.columns;
    piece.rows = own.rows;
    piece.columns = own.columns;
    piece.step = whole.columns;
  }
  return piece;
}

absl::StatusOr<TensorSplit> TensorSplit::Of(const RunConfig& config, int32_t first_layer,
                                            int32_t last_layer, bool holds_ends, int32_t devices) {
  SKERRY_CHECK(devices >= 1);
  SKERRY_RETURN_IF_ERROR(CheckTensorSplit(config, devices));
  ParameterLayout whole =
      ParameterLayout::ForStage(config.model, first_layer, last_layer, holds_ends);
  std::vector<std::vector<Piece>> pieces;
  for (int32_t rank = 0; rank < devices; ++rank) {
    const TensorShard shard = {devices, rank};
    const auto own =
        ParameterLayout::ForStage(config.model, first_layer, last_layer, holds_ends, shard);
    std::vector<Piece>& of_device = pieces.emplace_back();
    for (const TensorSlot& slot : own.tensors()) {
      const TensorSlot* in_whole = whole.Find(slot.name);
      SKERRY_CHECK(in_whole != nullptr, "a device holds tensors of its stage");
      of_device.push_back(PieceOf(slot, *in_whole, shard));
      of_device.back().is_shared = slot.size() == in_whole->size();
    }
  }
  return TensorSplit(std::move(whole), std::move(pieces));
}

std::vector<TensorSplit::Piece> TensorSplit::Counted(int32_t rank) const {
  std::vector<Piece> counted = pieces_[static_cast<size_t>(rank)];
  if (rank > 0) std::erase_if(counted, [](const Piece& piece) { return piece.is_shared; });
  return counted;
}

void TensorSplit::Read(int32_t rank, Backend& backend, const float* own,
                       std::span<float> whole) const {
  SKERRY_CHECK(std::ssize(whole) == whole_.size());
  std::vector<float> dense;
  for (const Piece& piece : Counted(rank)) {
    if (piece.rows == 1) {
      backend.Download(own + piece.own, whole.subspan(static_cast<size_t>(piece.whole),
                                                      static_cast<size_t>(piece.columns)));
      continue;
    }
    dense.resize(static_cast<size_t>(piece.size()));
    backend.Download(own + piece.own, dense);
    backend.Synchronize();
    for (int64_t r = 0; r < piece.rows; ++r) {
      std::copy_n(dense.begin() + r * piece.columns, piece.columns,
                  whole.begin() + piece.whole + r * piece.step);
    }
  }
  backend.Synchronize();
}

void TensorSplit::Write(int32_t rank, Backend& backend, std::span<const float> whole,
                        float* own) const {
  SKERRY_CHECK(std::ssize(whole) == whole_.size());
  std::vector<float> dense;
  for (const Piece& piece : pieces_[static_cast<size_t>(rank)]) {
    if (piece.rows == 1) {
      backend.Upload(
          whole.subspan(static_cast<size_t>(piece.whole), static_cast<size_t>(piece.columns)),
          own + piece.own);
      continue;
    }
    dense.resize(static_cast<size_t>(piece.size()));
    for (int64_t r = 0; r < piece.rows; ++r) {
      std::copy_n(whole.begin() + piece.whole + r * piece.step, piece.columns,
                  dense.begin() + r * piece.columns);
    }
    backend.Upload(dense, own + piece.own);
    backend.Synchronize();
  }
  backend.Synchronize();
}

std::vector<float> TensorSplit::ReadShared(int32_t rank, Backend& backend, const float* own) const {
  std::vector<float> values;
  for (const Piece& piece : pieces_[static_cast<size_t>(rank)]) {
    if (!piece.is_shared) continue;
    const size_t first = values.size();
    values.resize(first + static_cast<size_t>(piece.size()));
    backend.Download(own + piece.own, std::span(values).subspan(first));
    backend.Synchronize();
  }
  return values;
}

void TensorSplit::Squares(int32_t rank, Backend& backend, const float* own,
                          std::span<double> squares) const {
  SKERRY_CHECK(squares.size() == whole_.blocks().size());
  const std::vector<Piece> counted = Counted(rank);
  std::vector<UpdateRange> ranges;
  for (const Piece& piece : counted) ranges.push_back({piece.own, piece.size(), 1, 0});
  std::vector<double> sums(ranges.size());
  backend.SumsOfSquares(own, ranges, sums);
  std::fill(squares.begin(), squares.end(), 0);
  for (size_t i = 0; i < counted.size(); ++i) {
    squares[static_cast<size_t>(counted[i].block)] += sums[i];
  }
}

}  // namespace skerry
