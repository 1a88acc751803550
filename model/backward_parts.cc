#include "model/backward_parts.h"

#include <algorithm>

#include "common/check.h"

namespace skerry {
namespace {

int64_t OffsetOf(const ParameterLayout& layout, int32_t layer) {
  const auto block =
      std::find_if(layout.blocks().begin(), layout.blocks().end(),
                   [&](const ParameterBlock& b) { return b.name == LayerBlockName(layer); });
  SKERRY_CHECK(block != layout.blocks().end());
  return block->offset;
}

}  // namespace

std::vector<BackwardPart> BackwardParts(const ParameterLayout& layout, int32_t first_layer,
                                        int32_t last_layer, int64_t least, int32_t ladder) {
  std::vector<int64_t> offsets;
  for (int32_t layer = first_layer; layer < last_layer; ++layer)
    offsets.push_back(OffsetOf(layout, layer));
  return CutBackward(offsets, layout.size(), first_layer, least, ladder);
}

std::vector<BackwardPart> BackwardCuts(const std::vector<BackwardPart>& parts,
                                       const ParameterLayout& layout, int32_t last_layer,
                                       int64_t least, int32_t ladder) {
  std::vector<BackwardPart> cuts;
  const int64_t wanted = std::max(least, layout.size() / kBackwardCutsMax);
  int32_t above = last_layer;
  for (const BackwardPart& part : parts) {
    int64_t end = part.offset + part.size;
    for (int32_t layer = above - 1; layer > part.down_to; --layer) {
      if (ladder > 0 && layer % ladder != 0) continue;
      const int64_t offset = OffsetOf(layout, layer);
      if (end - offset < wanted) continue;
      cuts.push_back({layer, offset, end - offset});
      end = offset;
    }
    cuts.push_back({part.down_to, part.offset, end - part.offset});
    above = part.down_to;
  }
  return cuts;
}

}  // namespace skerry
