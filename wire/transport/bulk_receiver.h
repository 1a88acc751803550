// Puts the frames of one peer together again from their chunks (link_message.h).
//
// Bounds. A chunk is refused, before anything is allocated for it, if it is malformed, disagrees
// with the earlier ones of its frame, overlaps them, lies more than kAheadMax beyond what is
// complete, goes beyond the credit, or if the peer's unfinished frames would hold more than
// kUnfinishedBytesMax. Buffers grow with what has arrived, whatever the header announces.
//
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/instant.h"
#include "wire/codec/limits.h"
#include "wire/transport/link_message.h"

namespace skerry {

class BulkReceiver {
 public:
  static constexpr int64_t kCreditBytes = int64_t{64} << 20;
  static constexpr int64_t kAheadMax = kCreditBytes;
  // A sender begins the next frame of a class when it has sent the last one: one largest frame a
  // class, and a window.
  static constexpr int64_t kUnfinishedBytesMax =
      static_cast<int64_t>((kTrafficClasses - 1) *
                           (limits::kPayloadBytesMax + limits::kEnvelopeBytesMax)) +
      kCreditBytes;
  static constexpr size_t kUnfinishedMax = 1024;  // frames
  static constexpr size_t kFinishedKept = 4096;   // so that late repeats are known
  static constexpr size_t kOldSessionsMax = 16;

  // A frame whose bytes are those that were sent.
  struct Arrived {
    Bytes envelope;
    Payload payload;
  };
  enum class Verdict : uint8_t { kTaken, kRepeated, kRefused };

  // `arrived` is set when this chunk completed a frame. A frame whose digest differs is dropped and
  // counted. `via`: the connection that it came over, by whatever number.
  Verdict Take(const DecodedChunk& chunk, uint16_t via, std::optional<Arrived>& arrived);

  // What has come over one of the connections since the last call, to be sent back over that one: a
  // lost packet then holds up the acknowledgements of no other. nullopt: nothing.
  struct Acks {
    uint16_t via = 0;
    AcksMessage message;
  };
  std::optional<Acks> TakeAcks(Instant now);

  bool OwesAcks() const { return !serials_.empty(); }

  int64_t unfinished_bytes() const { return unfinished_bytes_; }
  int64_t corrupt() const { return corrupt_; }

 private:
  struct Frame {
    int64_t envelope_bytes = 0, total_bytes = 0;
    std::map<int64_t, int64_t> beyond;  // [begin, end) of what came out of order, disjoint
    int64_t complete = 0;               // all bytes before this have come
    Bytes envelope, payload;
    DigestStream hash;
    std::optional<Digest> digest;
  };

  bool FollowSession(uint64_t session);
  void Owe(uint16_t via, uint64_t serial);
  bool IsPlausible(const DecodedChunk& chunk) const;
  bool Fits(const Frame* frame, const DecodedChunk& chunk) const;
  static bool IsRepeat(const Frame& frame, int64_t begin, int64_t end);
  void Keep(Frame& frame, const DecodedChunk& chunk);
  void HashTo(Frame& frame, int64_t end);
  void Finish(std::map<uint64_t, Frame>::iterator at, std::optional<Arrived>& arrived);

  uint64_t session_ = 0;
  std::deque<uint64_t> old_sessions_;
  std::map<uint64_t, Frame> frames_;                   // by transfer
  std::set<uint64_t> finished_;                        // transfers; the oldest are forgotten
  std::map<uint16_t, std::vector<uint64_t>> serials_;  // to acknowledge, by connection
  int64_t received_bytes_ = 0;  // of its sender's life, without repeats; at most
  int64_t granted_bytes_ = kCreditBytes;
  int64_t unfinished_bytes_ = 0;
  int64_t corrupt_ = 0;
};

}  // namespace skerry
