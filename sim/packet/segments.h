// IPv4 packets as the kernel hands them over with generic segmentation offload: a TCP packet may be
// a super-packet of up to 64 KB that stands for many segments on the line.
//
// What the line does, it does to segments: each is charged its own headers, each can be lost alone.
// So a super-packet is looked at as segments, and what is left of it is cut out as pieces: runs of
// neighbouring segments with headers of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace skerry {

// struct virtio_net_hdr of linux/virtio_net.h, little-endian machines; offsets count from the IP
// header.
struct OffloadHeader {
  static constexpr uint8_t kNeedsChecksum = 1;
  static constexpr uint8_t kTcp4 = 1;
  static constexpr uint8_t kEcn = 0x80;

  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t header_bytes = 0;
  uint16_t gso_size = 0;  // payload of a full segment
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
};
static_assert(sizeof(OffloadHeader) == 10);

struct Packet {
  OffloadHeader offload;
  std::vector<uint8_t> bytes;  // from the IP header on
};

// A packet as a row of segments. Bytes are those of IP packets, headers included.
struct PacketShape {
  uint32_t source = 0, destination = 0;  // host byte order
  int32_t header_bytes = 0;              // IP and TCP; 0 if the packet is never cut
  int32_t segment_payload = 0;           // of all segments but the last
  int32_t segments = 1;
  int32_t total_bytes = 0;  // of the packet itself

  int64_t SegmentBytes(int32_t segment) const;
};

// nullopt for what is not a well-formed IPv4 packet, or asks for an offload that is not TCP over
// IPv4: nobody here could cut it.
std::optional<PacketShape> ShapeOf(const Packet& packet);

// Segments first … first + count − 1 of `whole`, whose shape is `shape`, as a packet: own lengths,
// IP identification and checksum, TCP sequence number and pseudo-header sum; FIN and PSH only with
// the last segment, CWR only with the first. The TCP checksum itself is left to the receiving
// kernel, as in `whole`.
Packet CutPiece(const Packet& whole, const PacketShape& shape, int32_t first, int32_t count);

// The Internet checksum's sum (RFC 1071) of `size` bytes, folded, not inverted.
uint16_t InternetSum(const uint8_t* bytes, size_t size, uint32_t start = 0);

}  // namespace skerry
