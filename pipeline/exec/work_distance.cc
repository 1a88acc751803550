#include "pipeline/exec/work_distance.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"

namespace skerry {
namespace {

std::span<const float> Floats(const Payload& payload) {
  return {reinterpret_cast<const float*>(payload->data()), payload->size() / sizeof(float)};
}

// |said − made| / |made − from|
float Distance(const Payload& from, const Payload& said, const Payload& made) {
  const auto f = Floats(from), s = Floats(said), m = Floats(made);
  if (f.size() != m.size() || s.size() != m.size()) return kWorkDistanceMax;
  double apart = 0, added = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    const double between = double{s[i]} - double{m[i]}, own = double{m[i]} - double{f[i]};
    apart += between * between;
    added += own * own;
  }
  if (apart == 0) return 0;
  const double distance = std::sqrt(apart / added);
  return distance < double{kWorkDistanceMax} ? static_cast<float>(distance) : kWorkDistanceMax;
}

}  // namespace

absl::StatusOr<WorkDistance> MeasureWork(StageWork& work, const WorkParts& parts) {
  std::array<Payload, kWorkParts> values;
  for (size_t i = 0; i < kWorkParts; ++i) {
    values[i] = parts[i].values;
    if (parts[i].codec == DeltaCodec::kNone) continue;
    SKERRY_ASSIGN_OR_RETURN(values[i], work.DecodeBoundary(parts[i].codec, values[i]));
  }
  const auto of = [&](WorkPart part) -> const Payload& {
    return values[static_cast<size_t>(part)];
  };
  SKERRY_ASSIGN_OR_RETURN(const StageWork::Recomputed made,
                          work.Recompute(of(WorkPart::kInput), of(WorkPart::kGradient)));
  return WorkDistance{Distance(of(WorkPart::kInput), of(WorkPart::kOutput), made.out),
                      Distance(of(WorkPart::kGradient), of(WorkPart::kDescended), made.d_in)};
}

}  // namespace skerry
