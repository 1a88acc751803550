#include "wire/message/traffic.h"

#include <string>

namespace skerry {

TrafficClass ClassOf(const Message& message) {
  if (!IsBulk(message)) return TrafficClass::kControl;
  if (const auto* chunk = std::get_if<ObjectChunk>(&message))
    return chunk->object.rfind("shard/", 0) == 0 ? TrafficClass::kData : TrafficClass::kState;
  if (std::holds_alternative<Delta>(message) || std::holds_alternative<DeltaSum>(message) ||
      std::holds_alternative<SumShown>(message)) {
    return TrafficClass::kDelta;
  }
  // Nobody waits for a check.
  const bool can_wait =
      std::holds_alternative<Ping>(message) || std::holds_alternative<WorkCopy>(message);
  if (can_wait) return TrafficClass::kData;
  return TrafficClass::kActivation;
}

}  // namespace skerry
