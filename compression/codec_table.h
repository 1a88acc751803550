// Which codec each tensor of a delta travels as: the table that all ends of a round share, how it
// is made from statistics and an operator's budget, and how it is written down.
//
// A table cuts the flat delta of a stage into *parts*, in order. Parts begin at multiples of
// kCodecBlock, so that ranges of a message cut at blocks cut its parts at blocks; hence a part is a
// tensor but for less than a block at its ends, and tensors smaller than that share one
// (PartsOf).
//
// The operator says what a message may take, or what it may lose: bytes, a squared error, or "what
// int4 for all would lose". Every replica measures its parts now and then (MeasureParts), someone
// adds that up and chooses (ChooseTable, allocator.h), and the table is committed before a round
// that uses it. Equal statistics give equal tables everywhere; to add in one order is the caller's
// part. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/run_config.h"
#include "compression/allocator.h"

namespace skerry {

inline constexpr int64_t kTablePartsMax = 1 << 16;

struct TablePart {
  int64_t values = 0;
  DeltaCodec codec = DeltaCodec::kNone;
  bool operator==(const TablePart&) const = default;
};
using CodecTable = std::vector<TablePart>;

// Values of all parts.
int64_t ValuesOf(const CodecTable& table);

// InvalidArgument unless there are 1 to kTablePartsMax parts of known codecs, each with values and
// all but the last with whole blocks.
absl::Status CheckTable(const CodecTable& table);

// The lengths of the parts for tensors of these lengths: every boundary between two tensors moves
// to the next multiple of kCodecBlock, boundaries that meet become one.
std::vector<int64_t> PartsOf(std::span<const int64_t> tensors);

// What `codecs` would take and lose for every part of `u`; part after part as in MeasureCodecs.
using PartStatistics = std::vector<std::vector<CodecChoice>>;
absl::StatusOr<PartStatistics> MeasureParts(std::span<const float> u,
                                            std::span<const int64_t> parts,
                                            std::span<const DeltaCodec> codecs);

// *sum ← *sum + other, all entries; an empty sum takes the shape of `other`. InvalidArgument for
// another shape or an entry that is negative or not finite; then *sum is unchanged.
absl::Status AddStatistics(const PartStatistics& other, PartStatistics* sum);

// Exactly one of the three.
struct TableBudget {
  int64_t bytes = -1;  // of the messages measured
  double error = -1;   // squared, of the messages measured
  int32_t like = -1;   // the error that codecs[like] for all parts would have
};

struct ChosenTable {
  CodecTable table = {};
  int64_t bytes = 0;  // what the messages measured would take with it, headers aside
  double error = 0;   // and lose
};

// The table of fewest bytes within an error, or of least error within bytes. InvalidArgument:
// statistics of another shape than parts and codecs, or not one budget. FailedPrecondition: no
// choice is within the budget.
absl::StatusOr<ChosenTable> ChooseTable(std::span<const int64_t> parts,
                                        std::span<const DeltaCodec> codecs,
                                        const PartStatistics& statistics,
                                        const TableBudget& budget);

// The table of `count` > 0 values from `first` on, both within the table (CHECK); `first` is a
// multiple of kCodecBlock, and so is `count` unless the slice reaches the end. A slice's message
// decodes to the bits of the whole one's where codecs work by blocks; top-k chooses among tiles
// counted from where a part begins, so within a cut part it may choose others.
CodecTable SliceTable(const CodecTable& table, int64_t first, int64_t count);

// For people: a line for each codec used, with its parts, values and share of the whole.
std::string DescribeTable(const CodecTable& table);

// number of parts (4 bytes) · for each: values (8), codec (1); little-endian. Unpacking is total:
// InvalidArgument for bytes that are not a table.
Bytes PackTable(const CodecTable& table);
absl::StatusOr<CodecTable> UnpackTable(std::span<const uint8_t> bytes);

// FNV-1a of the packed table: what tells that two ends mean the same one.
uint32_t TableFingerprint(const CodecTable& table);

}  // namespace skerry
