// Each part of a delta in a codec of its own, by a table that both ends share (codec_table.h).
//
//   the table's fingerprint (4 bytes)
//   for every part where it ends, counted from the first part's beginning (4 bytes each)
//   the parts' messages
//
// all little-endian. A message takes at most 4 GiB. Errors, idempotence, exact sums and total
// decoding are those of the parts (codec.h); a message made with another table is refused.
//
// Unlike the other codecs it is made for one number of values: `n` of every call, or the size of
// every span, is ValuesOf(table) (CHECK). Immutable, any number of threads may share one.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/codec.h"
#include "compression/codec_table.h"
#include "compression/loops.h"

namespace skerry {

class MixedCodec final : public Codec {
 public:
  // InvalidArgument: not a table, or one whose messages may exceed 4 GiB.
  static absl::StatusOr<std::unique_ptr<const MixedCodec>> Make(
      CodecTable table, const CodecLoops& loops = BestLoops());

  const CodecTable& table() const { return table_; }
  int64_t values() const { return begins_.back(); }

  int64_t EncodedSizeMin(int64_t n) const override;
  int64_t EncodedSizeMax(int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  MixedCodec(CodecTable table, const CodecLoops& loops);

  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override;

  const Codec& CodecOf(size_t part) const {
    return *codecs_[static_cast<size_t>(table_[part].codec)];
  }
  size_t HeaderBytes() const { return 4 + 4 * table_.size(); }
  // The message of a part within one that passed Check.
  std::span<const uint8_t> MessageOf(size_t part, std::span<const uint8_t> bytes) const;
  template <typename Visit>
  void ForParts(int64_t first, size_t size, Visit&& visit) const;

  CodecTable table_;
  uint32_t fingerprint_;
  std::vector<int64_t> begins_;  // of the parts, and the end
  std::array<std::unique_ptr<const Codec>, static_cast<size_t>(kLastShapeless) + 1> codecs_;
  int64_t size_min_ = 0, size_max_ = 0;
};

}  // namespace skerry
