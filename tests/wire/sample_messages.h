// One message of every kind, every field different from its default.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wire/courier.h"

namespace skerry {

// (name of the golden file, message), in the order of the variant.
std::vector<std::pair<std::string, Message>> SampleMessages();

inline NodeId SampleNode(uint8_t first) {
  NodeId id;
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<uint8_t>(first + i);
  return id;
}

// The frame around a sample message.
FrameHeader SampleHeader();

}  // namespace skerry
