#include "localsgd/codec_book.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec_table.h"
#include "compression/loops.h"
#include "compression/mixed.h"

namespace skerry {
namespace {

constexpr int64_t kColumnsOfNoMatrix = 64;

MatrixShape ShapeOr(const MatrixShape& shape, int64_t values) {
  if (!shape.empty()) return shape;
  const int64_t rows = values / kColumnsOfNoMatrix, rest = values % kColumnsOfNoMatrix;
  MatrixShape flat;
  if (rows > 0) flat.push_back({rows, kColumnsOfNoMatrix});
  if (rest > 0) flat.push_back({1, rest});
  return flat;
}

}  // namespace

CodecBook::CodecBook(const OuterConfig& config, int64_t values, const PieceCut& cut,
                     const MatrixShape& shape, const CodecSource& source)
    : values_(values), cut_(cut), down_follows_(config.down_codec == DownCodec::kAuto) {
  const double bits = double{config.budget_bits};
  codecs_ = ForAll(config.codec, bits, shape, source);
  down_ = down_follows_ ? codecs_ : ForAll(DownCodecOf(config), bits, shape, source);
}

CodecBook::Codecs CodecBook::ForAll(DeltaCodec kind, double bits, const MatrixShape& shape,
                                    const CodecSource& source) const {
  const int32_t count = cut_.piece > 0 ? cut_.count() : 1;
  const auto on_device = source ? source(kind) : nullptr;
  if (on_device != nullptr) return Codecs(static_cast<size_t>(count), on_device);
  Codecs codecs;
  for (int32_t i = 0; i < count; ++i) {
    if (kind != DeltaCodec::kLowRank) {  // lives as long as the program
      codecs.emplace_back(std::shared_ptr<const Codec>(), &CodecFor(kind));
      continue;
    }
    const int64_t first = cut_.piece > 0 ? cut_.First(i) : 0;
    const int64_t size = cut_.piece > 0 ? cut_.Size(i) : values_;
    codecs.push_back(std::make_shared<const LowRankCodec>(
        SliceShape(ShapeOr(shape, values_), first, size), bits, BestLoops()));
    SKERRY_CHECK(codecs.back()->EncodedSizeMax(size) >= 0, "the shape is that of the values");
  }
  return codecs;
}

absl::Status CodecBook::SetTable(int64_t first_round, std::span<const uint8_t> packed) {
  SKERRY_ASSIGN_OR_RETURN(CodecTable table, UnpackTable(packed));
  if (ValuesOf(table) != values_) {
    return InvalidArgument("table of codecs for round %d: %d values, want %d", first_round,
                           ValuesOf(table), values_);
  }
  std::vector<CodecTable> parts;
  for (int32_t i = 0; cut_.piece > 0 && i < cut_.count(); ++i) {
    parts.push_back(SliceTable(table, cut_.First(i), cut_.Size(i)));
  }
  if (parts.empty()) parts.push_back(std::move(table));
  Codecs codecs;
  for (CodecTable& part : parts) {
    SKERRY_ASSIGN_OR_RETURN(auto codec, MixedCodec::Make(std::move(part)));
    codecs.push_back(std::move(codec));
  }
  tables_.With([&](Tables& tables) { tables.by_round.emplace(first_round, std::move(codecs)); });
  return absl::OkStatus();
}

std::shared_ptr<const Codec> CodecBook::Find(int64_t round, size_t index) const {
  return tables_.With([&](const Tables& tables) {
    const auto after = tables.by_round.upper_bound(round);
    const bool is_before = after == tables.by_round.begin();
    return is_before ? codecs_.at(index) : std::prev(after)->second.at(index);
  });
}

std::shared_ptr<const Codec> CodecBook::Of(int64_t round) const {
  SKERRY_CHECK(cut_.piece == 0, "messages of this stage are pieces");
  return Find(round, 0);
}

std::shared_ptr<const Codec> CodecBook::OfPiece(int64_t round, int32_t piece) const {
  SKERRY_CHECK(cut_.piece > 0 && piece >= 0 && piece < cut_.count());
  return Find(round, static_cast<size_t>(piece));
}

std::shared_ptr<const Codec> CodecBook::DownOfPiece(int64_t round, int32_t piece) const {
  return down_follows_ ? OfPiece(round, piece) : down_.at(static_cast<size_t>(piece));
}

void CodecBook::ForgetBelow(int64_t round) {
  tables_.With([&](Tables& tables) {
    const auto after = tables.by_round.upper_bound(round);
    if (after == tables.by_round.begin()) return;
    const auto in_force = std::prev(after);
    if (in_force == tables.by_round.begin()) return;
    tables.known_from = in_force->first;
    tables.by_round.erase(tables.by_round.begin(), in_force);
  });
}

bool CodecBook::Remembers(int64_t round) const {
  return tables_.With([&](const Tables& tables) { return round >= tables.known_from; });
}

}  // namespace skerry
