#include "wire/transport/path_check.h"

#include <algorithm>

namespace skerry {
namespace {

// Of a CURVE message: flags and length of its frame, name, nonce, seal, its own flags.
constexpr size_t kCurveBytes = 9 + 8 + 8 + 16 + 1;

// What is left by the usual tunnels: 1492 PPPoE, 1480 IPv6 in IPv4, 1476 GRE, 1460 DS-Lite, 1450
// VXLAN, 1420 WireGuard, 1280 the least of IPv6. 1500 where the network here takes larger ones.
constexpr int kSizes[] = {576,  1000, 1200, 1280, 1320, 1360, 1380, 1400, 1412,
                          1420, 1440, 1450, 1460, 1476, 1480, 1492, 1500};

}  // namespace

std::vector<int> SizesToAsk(const PathPackets& packets) {
  std::vector<int> sizes;
  for (const int size : kSizes) {
    if (size < packets.mtu) sizes.push_back(size);
  }
  sizes.push_back(packets.mtu);
  return sizes;
}

size_t PaddingOfPacket(const PathPackets& packets, int packet_bytes) {
  const size_t others = static_cast<size_t>(packets.headers) + kCurveBytes + kReachBytes;
  return static_cast<size_t>(packet_bytes) - std::min(static_cast<size_t>(packet_bytes), others);
}

size_t PaddingOfSeveral(const PathPackets& packets) {
  return std::min(static_cast<size_t>(packets.mtu) * 3, kReachPaddingMax);
}

PathVerdict Judge(const PathPackets& packets, const PathAnswers& answers) {
  const std::vector<PathAnswer>& found = answers.sizes;
  const bool is_busy = answers.large == PathAnswer::kShort ||
                       std::find(found.begin(), found.end(), PathAnswer::kShort) != found.end();
  if (answers.first == PathAnswer::kNone || is_busy) return {PathIs::kUnasked};
  const bool came = answers.large == PathAnswer::kWhole;
  if (came && answers.large_in_time) return {PathIs::kGood};
  const auto lost = std::find(found.begin(), found.end(), PathAnswer::kNone);
  // If it came late, though all sizes pass at once, something was lost and repeated.
  if (lost == found.end()) return {came ? PathIs::kGood : PathIs::kLossy};
  // That a small one is lost and a larger one is not has other reasons.
  const bool parts = lost != found.begin() && std::count(lost, found.end(), PathAnswer::kNone) ==
                                                  std::distance(lost, found.end());
  if (!parts) return {PathIs::kLossy};
  const std::vector<int> sizes = SizesToAsk(packets);
  const auto passing = static_cast<size_t>(lost - found.begin());
  return {PathIs::kHole, sizes[passing - 1], sizes[passing]};
}

std::optional<ReachNonce> PathDesk::AnswerTo(Instant now, const ReachNonce& question) {
  if (question.is_answer) return std::nullopt;
  if (!bucket_.IsLimited()) bucket_.SetRate(now, kBytesPerS);
  const double left = kBytesPerS + bucket_.Tokens(now);
  if (left < 0) return std::nullopt;
  const size_t padding = left > kBytesPerS / 2 ? question.padding : 0;
  bucket_.Spend(now, static_cast<double>(kReachBytes + padding));
  return ReachNonce{question.nonce, true, padding};
}

}  // namespace skerry
