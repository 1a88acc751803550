#include "compression/codec_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"

namespace skerry {
namespace {

constexpr size_t kCountBytes = 4;
constexpr size_t kPartBytes = 9;
constexpr size_t kKinds = static_cast<size_t>(kLastShapeless) + 1;
constexpr std::array<const char*, kKinds> kNames = {"none", "int8",    "bf16", "int4",
                                                    "sign", "ternary", "topk"};

bool IsSound(const CodecChoice& choice) {
  return choice.bytes >= 0 && std::isfinite(choice.error) && choice.error >= 0;
}

double ErrorOfAll(const PartStatistics& statistics, size_t codec) {
  double error = 0;
  for (const auto& choices : statistics) error += choices[codec].error;
  return error;
}

absl::StatusOr<Allocation> Allocate(const PartStatistics& statistics, const TableBudget& budget,
                                    size_t codecs) {
  const int given = (budget.bytes >= 0) + (budget.error >= 0) + (budget.like >= 0);
  if (given != 1 || budget.like >= static_cast<int32_t>(codecs)) {
    return InvalidArgument("a table of codecs has one budget: bytes, error, or like one of them");
  }
  if (budget.bytes >= 0) return AllocateForBytes(statistics, budget.bytes);
  if (budget.error >= 0) return AllocateForError(statistics, budget.error);
  return AllocateForError(statistics, ErrorOfAll(statistics, static_cast<size_t>(budget.like)));
}

}  // namespace

int64_t ValuesOf(const CodecTable& table) {
  return std::accumulate(table.begin(), table.end(), int64_t{0},
                         [](int64_t sum, const TablePart& part) { return sum + part.values; });
}

absl::Status CheckTable(const CodecTable& table) {
  constexpr int64_t kValuesMax = int64_t{1} << 40;
  const auto parts = static_cast<int64_t>(table.size());
  if (parts < 1 || parts > kTablePartsMax) {
    return InvalidArgument("table of codecs: want 1 to %d parts, got %d", kTablePartsMax, parts);
  }
  for (size_t p = 0; p < table.size(); ++p) {
    const TablePart& part = table[p];
    const bool whole = p + 1 == table.size() || part.values % kCodecBlock == 0;
    if (part.values < 1 || part.values > kValuesMax || !whole || part.codec > kLastShapeless) {
      return InvalidArgument("table of codecs: part %d has %d values of codec %d", p, part.values,
                             static_cast<int>(part.codec));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> PartsOf(std::span<const int64_t> tensors) {
  std::vector<int64_t> parts;
  int64_t end = 0, begin = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    SKERRY_CHECK(tensors[t] >= 0);
    end += tensors[t];
    const bool last = t + 1 == tensors.size();
    const int64_t cut = last ? end : (end + kCodecBlock - 1) / kCodecBlock * kCodecBlock;
    if (cut <= begin) continue;
    parts.push_back(cut - begin);
    begin = cut;
  }
  // The last boundaries may have moved past the end.
  if (begin > end) parts.back() -= begin - end;
  return parts;
}

absl::StatusOr<PartStatistics> MeasureParts(std::span<const float> u,
                                            std::span<const int64_t> parts,
                                            std::span<const DeltaCodec> codecs) {
  PartStatistics all;
  size_t first = 0;
  for (const int64_t part : parts) {
    const auto count = static_cast<size_t>(part);
    SKERRY_CHECK(first + count <= u.size());
    auto measured = MeasureCodecs(u.subspan(first, count), codecs);
    if (!measured.ok()) return measured.status();
    all.push_back(*std::move(measured));
    first += count;
  }
  SKERRY_CHECK(first == u.size());
  return all;
}

absl::Status AddStatistics(const PartStatistics& other, PartStatistics* sum) {
  PartStatistics added = *sum;
  if (added.empty()) {
    for (const auto& choices : other) added.emplace_back(choices.size());
  }
  if (added.size() != other.size()) {
    return InvalidArgument("statistics of %d parts, want %d", other.size(), added.size());
  }
  for (size_t p = 0; p < other.size(); ++p) {
    if (other[p].size() != added[p].size()) {
      return InvalidArgument("statistics of part %d: %d codecs, want %d", p, other[p].size(),
                             added[p].size());
    }
    for (size_t c = 0; c < other[p].size(); ++c) {
      if (!IsSound(other[p][c])) return InvalidArgument("statistics of part %d are not sound", p);
      if (__builtin_add_overflow(added[p][c].bytes, other[p][c].bytes, &added[p][c].bytes)) {
        return InvalidArgument("statistics of part %d: too many bytes", p);
      }
      added[p][c].error += other[p][c].error;
      if (!IsSound(added[p][c])) return InvalidArgument("statistics of part %d: too large", p);
    }
  }
  *sum = std::move(added);
  return absl::OkStatus();
}

absl::StatusOr<ChosenTable> ChooseTable(std::span<const int64_t> parts,
                                        std::span<const DeltaCodec> codecs,
                                        const PartStatistics& statistics,
                                        const TableBudget& budget) {
  if (statistics.size() != parts.size() || codecs.empty()) {
    return InvalidArgument("statistics of %d parts and %d codecs, want %d parts", statistics.size(),
                           codecs.size(), parts.size());
  }
  for (const auto& choices : statistics) {
    if (choices.size() != codecs.size()) {
      return InvalidArgument("statistics of %d codecs, want %d", choices.size(), codecs.size());
    }
    for (const CodecChoice& choice : choices) {
      if (!IsSound(choice)) return InvalidArgument("statistics are negative or not finite");
    }
  }
  const auto allocation = Allocate(statistics, budget, codecs.size());
  if (!allocation.ok()) return allocation.status();
  ChosenTable chosen = {.bytes = allocation->bytes, .error = allocation->error};
  for (size_t p = 0; p < parts.size(); ++p) {
    chosen.table.push_back({parts[p], codecs[static_cast<size_t>(allocation->choice[p])]});
  }
  SKERRY_RETURN_IF_ERROR(CheckTable(chosen.table));
  return chosen;
}

CodecTable SliceTable(const CodecTable& table, int64_t first, int64_t count) {
  const int64_t values = ValuesOf(table), end = first + count;
  SKERRY_CHECK(first >= 0 && first % kCodecBlock == 0 && count > 0 && end <= values);
  SKERRY_CHECK(end % kCodecBlock == 0 || end == values);
  CodecTable slice;
  int64_t begin = 0;
  for (const TablePart& part : table) {
    const int64_t from = std::max(begin, first), to = std::min(begin + part.values, end);
    if (from < to) slice.push_back({to - from, part.codec});
    begin += part.values;
  }
  return slice;
}

std::string DescribeTable(const CodecTable& table) {
  std::array<int64_t, kKinds> parts = {}, values = {};
  for (const TablePart& part : table) {
    ++parts[static_cast<size_t>(part.codec)];
    values[static_cast<size_t>(part.codec)] += part.values;
  }
  const auto all = static_cast<double>(ValuesOf(table));
  std::string text;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (parts[kind] == 0) continue;
    text += absl::StrFormat("%-8s %5d parts %13d values %5.1f %%\n", kNames[kind], parts[kind],
                            values[kind], 100 * static_cast<double>(values[kind]) / all);
  }
  return text;
}

Bytes PackTable(const CodecTable& table) {
  Bytes bytes(kCountBytes + kPartBytes * table.size());
  const auto count = static_cast<uint32_t>(table.size());
  std::memcpy(bytes.data(), &count, kCountBytes);
  uint8_t* out = bytes.data() + kCountBytes;
  for (const TablePart& part : table) {
    std::memcpy(out, &part.values, 8);
    out[8] = static_cast<uint8_t>(part.codec);
    out += kPartBytes;
  }
  return bytes;
}

absl::StatusOr<CodecTable> UnpackTable(std::span<const uint8_t> bytes) {
  uint32_t count = 0;
  if (bytes.size() >= kCountBytes) std::memcpy(&count, bytes.data(), kCountBytes);
  if (count > kTablePartsMax || bytes.size() != kCountBytes + kPartBytes * size_t{count}) {
    return InvalidArgument("table of codecs: %d bytes are not %d parts", bytes.size(), count);
  }
  CodecTable table(count);
  const uint8_t* in = bytes.data() + kCountBytes;
  for (TablePart& part : table) {
    std::memcpy(&part.values, in, 8);
    part.codec = static_cast<DeltaCodec>(in[8]);
    in += kPartBytes;
  }
  SKERRY_RETURN_IF_ERROR(CheckTable(table));
  return table;
}

uint32_t TableFingerprint(const CodecTable& table) {
  uint32_t hash = 2166136261;
  for (const uint8_t byte : PackTable(table)) hash = (hash ^ byte) * 16777619;
  return hash;
}

}  // namespace skerry
