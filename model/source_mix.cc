#include "model/source_mix.h"

#include <algorithm>

#include "common/status.h"

namespace skerry {

size_t SourceMix::Turn() const {
  const auto given = [](const WeightedSource& s) {
    return static_cast<double>(s.source.position().tokens) / s.weight;
  };
  const auto least = std::min_element(
      sources_.begin(), sources_.end(),
      [&](const WeightedSource& a, const WeightedSource& b) { return given(a) < given(b); });
  return static_cast<size_t>(least - sources_.begin());
}

absl::StatusOr<std::optional<TokenUnit>> SourceMix::Next() {
  const auto was_read = [](const WeightedSource& s) { return s.source.position().pass > 0; };
  while (!std::all_of(sources_.begin(), sources_.end(), was_read)) {
    UnitSource& source = sources_[Turn()].source;
    if (source.position().pass >= passes_max_) return std::nullopt;
    SKERRY_ASSIGN_OR_RETURN(auto unit, source.Next());
    if (unit.has_value()) return unit;
    if (source.position().tokens == 0) {
      return InvalidArgument("%s: has no text",
                             source.files().empty() ? "no file" : source.files().front());
    }
  }
  return std::nullopt;
}

absl::Status SourceMix::GoTo(const std::vector<UnitSource::Position>& positions) {
  if (positions.size() != sources_.size()) {
    return DataLoss("%d positions of %d sources", positions.size(), sources_.size());
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    SKERRY_RETURN_IF_ERROR(sources_[i].source.GoTo(positions[i]));
  }
  return absl::OkStatus();
}

double SourceMix::progress() const {
  double least = 1, most = 0;
  for (const WeightedSource& s : sources_) {
    const double passes = static_cast<double>(s.source.position().pass) + s.source.progress();
    least = std::min(least, passes);
    most = std::max(most, passes / passes_max_);
  }
  return std::clamp(sources_.size() == 1 ? least : std::max(least, most), 0.0, 1.0);
}

}  // namespace skerry
