#include "compression/mixed.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/check.h"
#include "common/status.h"
#include "compression/block_code.h"

namespace skerry {
namespace {

uint32_t Load32(const uint8_t* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const MixedCodec>> MixedCodec::Make(CodecTable table,
                                                                   const CodecLoops& loops) {
  SKERRY_RETURN_IF_ERROR(CheckTable(table));
  std::unique_ptr<const MixedCodec> codec(new MixedCodec(std::move(table), loops));
  if (codec->size_max_ > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("table of codecs: a message may take %d bytes, at most 4 GiB are told",
                           codec->size_max_);
  }
  return codec;
}

MixedCodec::MixedCodec(CodecTable table, const CodecLoops& loops)
    : table_(std::move(table)), fingerprint_(TableFingerprint(table_)), begins_({0}) {
  size_min_ = size_max_ = static_cast<int64_t>(HeaderBytes());
  for (size_t p = 0; p < table_.size(); ++p) {
    const TablePart& part = table_[p];
    auto& codec = codecs_[static_cast<size_t>(part.codec)];
    if (!codec) codec = MakeCodec(part.codec, loops);
    begins_.push_back(begins_.back() + part.values);
    size_min_ += codec->EncodedSizeMin(part.values);
    size_max_ += codec->EncodedSizeMax(part.values);
  }
}

int64_t MixedCodec::EncodedSizeMin(int64_t n) const {
  SKERRY_CHECK(n == values(), "the table's number of values");
  return size_min_;
}

int64_t MixedCodec::EncodedSizeMax(int64_t n) const {
  SKERRY_CHECK(n == values(), "the table's number of values");
  return size_max_;
}

std::optional<size_t> MixedCodec::EncodeInto(const DeltaSource& source,
                                             std::span<uint8_t> out) const {
  std::memcpy(out.data(), &fingerprint_, 4);
  size_t offset = HeaderBytes();
  for (size_t p = 0; p < table_.size(); ++p) {
    const auto first = static_cast<size_t>(begins_[p]);
    const auto count = static_cast<size_t>(table_[p].values);
    const DeltaSource part = source.Part(first, count);
    const Codec& codec = CodecOf(p);
    const auto room = static_cast<size_t>(codec.EncodedSizeMax(table_[p].values));
    const auto size = codec.EncodeInto(part, out.subspan(offset, room));
    if (!size) return std::nullopt;
    offset += *size;
    const auto end = static_cast<uint32_t>(offset - HeaderBytes());
    std::memcpy(out.data() + 4 + 4 * p, &end, 4);
  }
  return offset;
}

std::span<const uint8_t> MixedCodec::MessageOf(size_t part, std::span<const uint8_t> bytes) const {
  const size_t begin = part == 0 ? 0 : Load32(bytes.data() + 4 * part);
  const size_t end = Load32(bytes.data() + 4 + 4 * part);
  return bytes.subspan(HeaderBytes() + begin, end - begin);
}

absl::Status MixedCodec::CheckContent(std::span<const uint8_t> bytes, int64_t) const {
  if (Load32(bytes.data()) != fingerprint_) {
    return InvalidArgument("delta of table %08x, want %08x", Load32(bytes.data()), fingerprint_);
  }
  size_t before = 0;
  for (size_t p = 0; p < table_.size(); ++p) {
    const size_t end = Load32(bytes.data() + 4 + 4 * p);
    if (end < before || end > bytes.size() - HeaderBytes()) {
      return InvalidArgument("delta: part %d ends at byte %d, after %d of %d", p, end, before,
                             bytes.size() - HeaderBytes());
    }
    before = end;
    SKERRY_RETURN_IF_ERROR(CodecOf(p).Check(MessageOf(p, bytes), table_[p].values));
  }
  if (before == bytes.size() - HeaderBytes()) return absl::OkStatus();
  return InvalidArgument("delta: its parts take %d bytes, %d came", before,
                         bytes.size() - HeaderBytes());
}

// Calls visit(part, first value within it, where it begins in the range, how many) for the parts
// of the range.
template <typename Visit>
void MixedCodec::ForParts(int64_t first, size_t size, Visit&& visit) const {
  CheckRange(values(), first, size);
  const int64_t end = first + static_cast<int64_t>(size);
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), first);
  auto part = static_cast<size_t>(after - begins_.begin()) - 1;
  for (int64_t at = first; at < end; ++part) {
    const int64_t to = std::min(end, begins_[part + 1]);
    visit(part, at - begins_[part], static_cast<size_t>(at - first), static_cast<size_t>(to - at));
    at = to;
  }
}

void MixedCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                 int64_t weight, std::span<int64_t> sum) const {
  SKERRY_CHECK(n == values(), "the table's number of values");
  ForParts(first, sum.size(), [&](size_t part, int64_t local, size_t start, size_t count) {
    CodecOf(part).AccumulateRange(MessageOf(part, bytes), table_[part].values, local, weight,
                                  sum.subspan(start, count));
  });
}

void MixedCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                             std::span<float> values) const {
  SKERRY_CHECK(n == this->values(), "the table's number of values");
  ForParts(first, values.size(), [&](size_t part, int64_t local, size_t start, size_t count) {
    CodecOf(part).DecodeRange(MessageOf(part, bytes), table_[part].values, local,
                              values.subspan(start, count));
  });
}

}  // namespace skerry
