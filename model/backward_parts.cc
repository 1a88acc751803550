#include "model/backward_parts.h"

#include <algorithm>

#include "common/check.h"

namespace skerry {

std::vector<BackwardPart> BackwardParts(const ParameterLayout& layout, int32_t first_layer,
                                        int32_t last_layer, int64_t least, int32_t ladder) {
  std::vector<BackwardPart> parts;
  const int64_t wanted = std::max(least, layout.size() / kBackwardPartsMax);
  int64_t end = layout.size();
  for (int32_t layer = last_layer - 1; layer > first_layer; --layer) {
    if (ladder > 0 && layer % ladder != 0) continue;
    const auto block =
        std::find_if(layout.blocks().begin(), layout.blocks().end(),
                     [&](const ParameterBlock& b) { return b.name == LayerBlockName(layer); });
    SKERRY_CHECK(block != layout.blocks().end());
    const bool is_enough = end - block->offset >= wanted;
    if (!is_enough || std::ssize(parts) == kBackwardPartsMax - 1) continue;
    parts.push_back({layer, block->offset, end - block->offset});
    end = block->offset;
  }
  parts.push_back({first_layer, 0, end});
  return parts;
}

}  // namespace skerry
