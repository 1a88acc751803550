#include "localsgd/table_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/fixed_point.h"

namespace skerry {
namespace {

size_t IndexOf(std::span<const DeltaCodec> codecs, DeltaCodec codec) {
  const auto it = std::find(codecs.begin(), codecs.end(), codec);
  SKERRY_CHECK(it != codecs.end());
  return static_cast<size_t>(it - codecs.begin());
}

// The table's fingerprint and the ends of parts, once for each piece; a piece's edge may cut a
// part.
int64_t HeaderBytes(size_t parts, const PieceCut& cut) {
  const int64_t pieces = cut.piece > 0 ? cut.count() : 1;
  return 4 * pieces + 4 * (static_cast<int64_t>(parts) + pieces - 1);
}

TableBudget BudgetOf(const OuterConfig& outer, size_t like, int64_t values, int64_t header_bytes,
                     int64_t messages) {
  if (outer.budget == CodecBudget::kError) return {.like = static_cast<int32_t>(like)};
  const double bytes = static_cast<double>(outer.budget_bits) * static_cast<double>(values) / 8;
  const auto each = static_cast<int64_t>(bytes) - header_bytes;
  return {.bytes = std::max<int64_t>(each, 0) * messages};
}

}  // namespace

std::vector<DeltaCodec> TableCodecs(const RunConfig& config) {
  const OuterConfig& outer = config.outer;
  std::vector<DeltaCodec> codecs(std::begin(kTableCodecs), std::end(kTableCodecs));
  for (const DeltaCodec codec : kTableCodecsInWeights) {
    const bool runs_long = config.steps / outer.inner_steps >= kTableTopKRoundsMin;
    if (outer.residual != ResidualPlace::kWeights) continue;
    if (codec != DeltaCodec::kTopK || runs_long) codecs.push_back(codec);
  }
  if (std::find(codecs.begin(), codecs.end(), outer.codec) == codecs.end()) {
    codecs.push_back(outer.codec);
  }
  return codecs;
}

MatrixShape ShapeOf(const ParameterLayout& layout) {
  MatrixShape shape;
  for (const TensorSlot& tensor : layout.tensors()) {
    shape.push_back(tensor.columns == 1 ? MatrixRun{1, tensor.rows}
                                        : MatrixRun{tensor.rows, tensor.columns});
  }
  return shape;
}

std::vector<int64_t> TableParts(const ParameterLayout& layout) {
  std::vector<int64_t> sizes;
  for (const TensorSlot& tensor : layout.tensors()) sizes.push_back(tensor.size());
  std::vector<int64_t> parts = PartsOf(sizes);
  while (parts.size() > kTablePartsOnWireMax) {
    std::vector<int64_t> joined;
    for (size_t i = 0; i < parts.size(); i += 2) {
      joined.push_back(parts[i] + (i + 1 < parts.size() ? parts[i + 1] : 0));
    }
    parts = std::move(joined);
  }
  return parts;
}

DeltaStatistics SaidOf(const PartStatistics& statistics) {
  DeltaStatistics said;
  for (const auto& choices : statistics) {
    for (const CodecChoice& choice : choices) {
      said.bytes.push_back(choice.bytes);
      said.errors.push_back(choice.error);
    }
  }
  return said;
}

absl::StatusOr<PartStatistics> HeardOf(const DeltaStatistics& said, std::span<const int64_t> parts,
                                       std::span<const DeltaCodec> codecs) {
  const size_t count = parts.size() * codecs.size();
  if (said.bytes.size() != count || said.errors.size() != count) {
    return InvalidArgument("statistics of %d sizes and %d errors, want %d tensors by %d codecs",
                           said.bytes.size(), said.errors.size(), parts.size(), codecs.size());
  }
  PartStatistics heard;
  size_t at = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const double error_max = static_cast<double>(parts[p]) * std::pow(2.0 * kMagnitudeMax, 2);
    std::vector<CodecChoice>& choices = heard.emplace_back();
    for (const DeltaCodec codec : codecs) {
      const CodecChoice choice = {said.bytes[at], said.errors[at]};
      ++at;
      const Codec& of = CodecFor(codec);
      if (choice.bytes < of.EncodedSizeMin(parts[p]) ||
          choice.bytes > of.EncodedSizeMax(parts[p])) {
        return InvalidArgument("statistics: tensor %d in %d bytes of codec %d", p, choice.bytes,
                               static_cast<int>(codec));
      }
      if (!(choice.error >= 0 && choice.error <= error_max)) {
        return InvalidArgument("statistics: tensor %d with an error of %g", p, choice.error);
      }
      choices.push_back(choice);
    }
  }
  return heard;
}

absl::StatusOr<RoundTable> ChooseRoundTable(const RunConfig& config, std::span<const int64_t> parts,
                                            const PieceCut& cut,
                                            std::span<const PartStatistics> statistics) {
  if (statistics.empty()) return InvalidArgument("table of codecs: nobody's statistics");
  const std::vector<DeltaCodec> codecs = TableCodecs(config);
  PartStatistics sum;
  for (const PartStatistics& one : statistics) SKERRY_RETURN_IF_ERROR(AddStatistics(one, &sum));
  const auto messages = static_cast<int64_t>(statistics.size());
  const int64_t values = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const int64_t header = HeaderBytes(parts.size(), cut);
  const size_t like = IndexOf(codecs, config.outer.codec);
  RoundTable round;
  auto chosen =
      ChooseTable(parts, codecs, sum, BudgetOf(config.outer, like, values, header, messages));
  if (absl::IsFailedPrecondition(chosen.status())) {
    round.is_over_budget = true;
    chosen = ChooseTable(parts, codecs, sum, {.error = std::numeric_limits<double>::max()});
  }
  SKERRY_RETURN_IF_ERROR(chosen.status());
  double error = 0;
  for (const auto& choices : sum) error += choices[like].error;
  round.bits = 8 *
               (static_cast<double>(chosen->bytes) / static_cast<double>(messages) +
                static_cast<double>(header)) /
               static_cast<double>(values);
  round.error_ratio = error > 0 ? chosen->error / error : 1;
  round.table = std::move(chosen->table);
  return round;
}

}  // namespace skerry
