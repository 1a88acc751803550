// The bounds of everything that comes in. A frame beyond one of them is refused before anything is
// allocated for it, and never sent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skerry::limits {

inline constexpr size_t kEnvelopeBytesMax = size_t{1} << 20;
inline constexpr size_t kPayloadPartBytes = size_t{1} << 20;   // the payload's ZeroMQ parts
inline constexpr size_t kPayloadBytesMax = size_t{256} << 20;  // one activation, one delta
inline constexpr size_t kPayloadPartsMax = kPayloadBytesMax / kPayloadPartBytes;
inline constexpr int64_t kPartBytesMax = int64_t{4} << 20;  // ZMQ_MAXMSGSIZE

// What somebody who is not admitted may send at once: a Hello without payload.
inline constexpr size_t kStrangerEnvelopeBytesMax = size_t{16} << 10;

inline constexpr size_t kTextBytesMax = 4096;
inline constexpr size_t kShardsMax = 8192;
inline constexpr size_t kPeersMax = 4096;
inline constexpr size_t kStagesMax = 1024;
inline constexpr size_t kReplicasMax = 1024;  // of one stage
inline constexpr size_t kRemadeMax = 4096;    // entries of one stage
inline constexpr int32_t kRoundsCoveredMax = 1 << 16;
inline constexpr size_t kPathsMax = 4096;
inline constexpr size_t kPathSlotsMax = 1024;
inline constexpr size_t kPlanSlotsMax = 65536;  // replicas and slots of a plan together
inline constexpr size_t kDeadMax = 4096;
inline constexpr size_t kJoiningMax = 4096;
inline constexpr size_t kSlowLinksMax = 16384;
inline constexpr size_t kAbsentMax = 16384;
inline constexpr size_t kLossesMax = 16384;
inline constexpr size_t kParticipantsMax = 1024;
inline constexpr size_t kTableBytesMax = size_t{64} << 10;

}  // namespace skerry::limits
