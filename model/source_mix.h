// Several sources as one sequence of units, each with its share of the tokens everywhere in it.
//
// The turn is that of the source which has given out the fewest tokens for its weight (stride
// scheduling), so shares are right to a unit at every place. A source that is over begins again:
// the mix ends when each was read once, or when the turn is that of one that was read `passes_max`
// times. Four passes over the same text teach nearly what as much new text would (Muennighoff and
// others 2023, "Scaling Data-Constrained Language Models").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/unit_source.h"

namespace skerry {

struct WeightedSource {
  UnitSource source;
  double weight = 1;  // > 0
};

// A single source is read once. One thread owns it.
class SourceMix {
 public:
  SourceMix(std::vector<WeightedSource> sources, int passes_max)
      : sources_(std::move(sources)), passes_max_(passes_max) {}

  // Nothing at the end. InvalidArgument if a source has no text.
  absl::StatusOr<std::optional<TokenUnit>> Next();
  // One position a source.
  absl::Status GoTo(const std::vector<UnitSource::Position>& positions);
  const std::vector<WeightedSource>& sources() const { return sources_; }
  double progress() const;  // in [0, 1]

 private:
  size_t Turn() const;
  std::vector<WeightedSource> sources_;
  int passes_max_;
};

}  // namespace skerry
