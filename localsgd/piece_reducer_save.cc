// PieceReducer::Save and Restore. Layout, little-endian, without padding:
//
//   Header · of each piece with a left-over: index u32, whether it is being handed on u32 (0, 1),
//   its largest value when that began f32, s [size of the piece] f32 · BLAKE2b-256 of all before
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/digest.h"
#include "common/status.h"
#include "localsgd/piece_reducer.h"

namespace skerry {
namespace {

constexpr uint32_t kMagic = 0x52504b53;  // "SKPR"
constexpr uint32_t kFormat = 1;

struct Header {
  uint32_t magic = kMagic;
  uint32_t format = kFormat;
  int64_t parameters = 0;
  int64_t piece = 0;
  int64_t held = 0;  // pieces that follow
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

struct Entry {
  uint32_t index = 0;
  uint32_t is_handed_on = 0;
  float largest = 0;
};
static_assert(sizeof(Entry) == 12 && std::is_trivially_copyable_v<Entry>);

void Append(const void* data, size_t bytes, Bytes* out) {
  if (bytes == 0) return;
  const size_t at = out->size();
  out->resize(at + bytes);
  std::memcpy(out->data() + at, data, bytes);
}

// False: so many are not there.
bool Take(std::span<const uint8_t>* rest, void* data, size_t bytes) {
  if (rest->size() < bytes) return false;
  if (bytes > 0) std::memcpy(data, rest->data(), bytes);
  *rest = rest->subspan(bytes);
  return true;
}

}  // namespace

Bytes PieceReducer::Save() const {
  const Header header = {kMagic, kFormat, cut_.parameters, cut_.piece, std::ssize(residuals_)};
  Bytes out;
  Append(&header, sizeof(header), &out);
  for (const auto& [piece, residual] : residuals_) {
    const auto handed = handing_on_.find(piece);
    const bool is_handed_on = handed != handing_on_.end();
    const Entry entry = {static_cast<uint32_t>(piece), is_handed_on ? 1u : 0u,
                         is_handed_on ? handed->second : 0.0f};
    Append(&entry, sizeof(entry), &out);
    Append(residual.data(), residual.size() * sizeof(float), &out);
  }
  const Digest digest = DigestOf(std::span<const uint8_t>(out));
  Append(digest.bytes.data(), digest.bytes.size(), &out);
  return out;
}

absl::StatusOr<PieceReducer> PieceReducer::Restore(const OuterConfig& config, const PieceCut& cut,
                                                   std::span<const uint8_t> saved,
                                                   std::shared_ptr<CodecBook> codecs) {
  Header header;
  if (saved.size() < sizeof(header) + sizeof(Digest)) {
    return DataLoss("saved reducer: %d bytes are too few", saved.size());
  }
  auto rest = saved.first(saved.size() - sizeof(Digest));
  const Digest digest = DigestOf(rest);
  if (std::memcmp(digest.bytes.data(), saved.data() + rest.size(), sizeof(Digest)) != 0) {
    return DataLoss("saved reducer: digest mismatch; the bytes are damaged");
  }
  Take(&rest, &header, sizeof(header));
  if (header.magic != kMagic || header.format != kFormat || header.parameters != cut.parameters ||
      header.piece != cut.piece || header.held < 0 || header.held > cut.count()) {
    return DataLoss("saved reducer: of another stage, cut or format");
  }
  PieceReducer reducer(config, cut, 0, std::move(codecs));
  int64_t last = -1;
  for (int64_t i = 0; i < header.held; ++i) {
    Entry entry;
    if (!Take(&rest, &entry, sizeof(entry)) || int64_t{entry.index} <= last ||
        int64_t{entry.index} >= cut.count() || entry.is_handed_on > 1) {
      return DataLoss("saved reducer: the piece of number %d is wrong", i);
    }
    last = int64_t{entry.index};
    const auto piece = static_cast<int32_t>(entry.index);
    std::vector<float> residual(static_cast<size_t>(cut.Size(piece)));
    if (!Take(&rest, residual.data(), residual.size() * sizeof(float)) ||
        !std::all_of(residual.begin(), residual.end(), [](float x) { return std::isfinite(x); })) {
      return DataLoss("saved reducer: what is left over of piece %d", piece);
    }
    if (entry.is_handed_on == 1) reducer.handing_on_[piece] = entry.largest;
    reducer.residuals_[piece] = std::move(residual);
  }
  if (!rest.empty()) return DataLoss("saved reducer: %d bytes too many", rest.size());
  return reducer;
}

}  // namespace skerry
