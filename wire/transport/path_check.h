// Whether packets of every size pass on the way to a coordinator and back. Where they do not and
// nobody says so (no ICMP comes back), connections stand, small messages pass, and bulk never
// arrives.
//
// A stranger asks the coordinator for a nonce: first alone, then, over the same connection, with
// enough padding to fill packets of the largest size, which come back as large. If they do not
// come, each of a few sizes is asked for over a connection of its own, in one packet.
//
// Pure; path_asker.h asks, Transport answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "wire/transport/relay_message.h"
#include "wire/transport/token_bucket.h"

namespace skerry {

// Of IP packets with TCP.
struct PathPackets {
  int mtu = 0;      // the largest that leaves here
  int headers = 0;  // so much of one is not TCP's payload
};

enum class PathAnswer : uint8_t { kNone, kShort, kWhole };  // kShort: without the padding

struct PathAnswers {
  PathAnswer first = PathAnswer::kNone;  // to the nonce alone
  PathAnswer large = PathAnswer::kNone;
  bool large_in_time = false;
  std::vector<PathAnswer> sizes;  // to SizesToAsk, likewise
};

enum class PathIs : uint8_t {
  kGood,
  kUnasked,  // no answer to small questions, or the coordinator has too much to do for large ones
  kLossy,    // nothing large came, yet no size stands out
  kHole,     // what is larger than `passes` does not pass
};
struct PathVerdict {
  PathIs is = PathIs::kUnasked;
  int passes = 0, lost = 0;  // packets, in bytes; of a hole
};

// Of packets, up to the largest, ascending.
std::vector<int> SizesToAsk(const PathPackets& packets);
// Padding of a question that fills a packet of so many bytes; of one that takes several.
size_t PaddingOfPacket(const PathPackets& packets, int packet_bytes);
size_t PaddingOfSeveral(const PathPackets& packets);

PathVerdict Judge(const PathPackets& packets, const PathAnswers& answers);

// What a coordinator answers strangers: never more bytes than came, and of all together kBytesPerS
// and as many ahead.
class PathDesk {
 public:
  static constexpr double kBytesPerS = 256 << 10;

  // When half of what is ahead is spent it is without padding, so that who asked can tell that from
  // a way that swallows large packets; when all is, there is none.
  std::optional<ReachNonce> AnswerTo(Instant now, const ReachNonce& question);

 private:
  TokenBucket bucket_;
};

}  // namespace skerry
