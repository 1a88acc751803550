#include "common/digests.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "common/digest.h"
#include "common/digest_lanes.h"

namespace skerry {
namespace {

// `which`: up to as many inputs as there are lanes, of one length; a lane that has none repeats the
// first.
void RunLanes(const DigestLanesTable& table, std::span<const std::span<const uint8_t>> inputs,
              std::span<const size_t> which, std::span<Digest> digests) {
  const uint8_t* lanes[kDigestLanesMax];
  uint8_t out[kDigestLanesMax][sizeof(Digest{}.bytes)];
  for (size_t lane = 0; lane < kDigestLanesMax; ++lane) {
    lanes[lane] = inputs[which[lane < which.size() ? lane : 0]].data();
  }
  table.run(lanes, inputs[which[0]].size(), out);
  for (size_t lane = 0; lane < which.size(); ++lane) {
    std::memcpy(digests[which[lane]].bytes.data(), out[lane], sizeof(out[lane]));
  }
}

}  // namespace

std::vector<Digest> DigestsOf(std::span<const std::span<const uint8_t>> inputs) {
  return DigestsOf(inputs, RunnableDigestLanes()[0]);
}

std::vector<Digest> DigestsOf(std::span<const std::span<const uint8_t>> inputs,
                              const DigestLanesTable& table) {
  const auto lanes = static_cast<size_t>(std::max(table.lanes, 1));
  std::vector<Digest> digests(inputs.size());
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < inputs.size(); ++i) by_length[inputs[i].size()].push_back(i);
  for (const auto& [length, all] : by_length) {
    for (size_t first = 0; first < all.size(); first += lanes) {
      const auto which = std::span(all).subspan(first, std::min(lanes, all.size() - first));
      if (which.size() > 1 && length > 0) {
        RunLanes(table, inputs, which, digests);
      } else {
        for (const size_t i : which) digests[i] = DigestOf(inputs[i]);
      }
    }
  }
  return digests;
}

}  // namespace skerry
