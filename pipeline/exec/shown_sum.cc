#include "pipeline/exec/shown_sum.h"

#include <utility>
#include <vector>

#include "common/status.h"
#include "pipeline/exec/pieces.h"

namespace skerry {

Payload PackShown(const ShownSum& shown) {
  std::vector<Piece> all;
  const auto add = [&all](const Payload& bytes) {
    all.push_back({static_cast<int32_t>(all.size()), bytes});
  };
  add(shown.sums);
  for (const Payload& part : shown.parts) add(part);
  for (const ShownSum::Piece& piece : shown.drawn) {
    add(piece.left_over);
    for (const Payload& message : piece.messages) add(message);
  }
  return PackPieces(all);
}

absl::StatusOr<ShownSum> UnpackShown(const Payload& packed, size_t participants, size_t drawn) {
  SKERRY_ASSIGN_OR_RETURN(std::vector<Piece> all, UnpackPieces(packed));
  const size_t want = 1 + participants + drawn * (1 + participants);
  if (all.size() != want) return InvalidArgument("want %d parts, got %d", want, all.size());
  size_t next = 0;
  const auto take = [&] { return std::move(all[next++].message); };
  ShownSum shown;
  shown.sums = take();
  for (size_t i = 0; i < participants; ++i) shown.parts.push_back(take());
  for (size_t i = 0; i < drawn; ++i) {
    ShownSum::Piece piece{take(), {}};
    for (size_t j = 0; j < participants; ++j) piece.messages.push_back(take());
    shown.drawn.push_back(std::move(piece));
  }
  return shown;
}

Payload WithSums(const Payload& packed, size_t participants, size_t drawn, const Payload& sums) {
  auto shown = UnpackShown(packed, participants, drawn);
  if (!shown.ok()) return packed;
  shown->sums = sums;
  return PackShown(*shown);
}

std::map<int32_t, Payload> SumsOf(const ShownSum& shown) {
  std::map<int32_t, Payload> sums;
  auto pieces = UnpackPieces(shown.sums);
  if (!pieces.ok()) return sums;
  for (Piece& piece : *pieces) sums[piece.index] = std::move(piece.message);
  return sums;
}

}  // namespace skerry
