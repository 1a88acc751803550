#include "sim/packet/segments.h"

#include <algorithm>

#include "common/check.h"

namespace skerry {
namespace {

constexpr size_t kIpHeaderMin = 20, kTcpHeaderMin = 20;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kFin = 0x01, kPush = 0x08, kCongestionWindowReduced = 0x80;

uint16_t Read16(const uint8_t* at) {
  return static_cast<uint16_t>(at[0] << 8 | at[1]);
}

uint32_t Read32(const uint8_t* at) {
  return static_cast<uint32_t>(Read16(at)) << 16 | Read16(at + 2);
}

void Write16(uint8_t* at, size_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

void Write32(uint8_t* at, uint32_t value) {
  Write16(at, value >> 16);
  Write16(at + 2, value & 0xffff);
}

void SealIpHeader(uint8_t* ip, size_t header_bytes) {
  Write16(ip + 10, 0);
  Write16(ip + 10, static_cast<uint16_t>(~InternetSum(ip, header_bytes)));
}

// The sum of addresses, protocol and length, which the kernel that completes the checksum expects
// in the checksum's place.
uint16_t PseudoHeaderSum(const uint8_t* ip, size_t tcp_bytes) {
  return InternetSum(ip + 12, 8, kTcp + static_cast<uint32_t>(tcp_bytes));
}

}  // namespace

uint16_t InternetSum(const uint8_t* bytes, size_t size, uint32_t start) {
  uint64_t sum = start;
  for (size_t i = 0; i + 1 < size; i += 2) sum += Read16(bytes + i);
  if (size % 2 == 1) sum += static_cast<uint64_t>(bytes[size - 1]) << 8;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

int64_t PacketShape::SegmentBytes(int32_t segment) const {
  if (segments == 1) return total_bytes;
  if (segment + 1 < segments) return header_bytes + segment_payload;
  return total_bytes - (segments - 1) * segment_payload;
}

std::optional<PacketShape> ShapeOf(const Packet& packet) {
  const std::vector<uint8_t>& bytes = packet.bytes;
  if (bytes.size() < kIpHeaderMin || bytes[0] >> 4 != 4) return std::nullopt;
  const size_t ip_header = size_t{4} * (bytes[0] & 0x0f);
  if (ip_header < kIpHeaderMin || Read16(&bytes[2]) != bytes.size()) return std::nullopt;
  PacketShape shape;
  shape.source = Read32(&bytes[12]);
  shape.destination = Read32(&bytes[16]);
  shape.total_bytes = static_cast<int32_t>(bytes.size());
  if (packet.offload.gso_type == 0) return shape;
  const bool is_tcp4 = (packet.offload.gso_type & ~OffloadHeader::kEcn) == OffloadHeader::kTcp4;
  if (!is_tcp4 || packet.offload.gso_size == 0 || bytes[9] != kTcp) return std::nullopt;
  if (bytes.size() < ip_header + kTcpHeaderMin) return std::nullopt;
  const size_t header = ip_header + size_t{4} * (bytes[ip_header + 12] >> 4);
  if (header < ip_header + kTcpHeaderMin || header >= bytes.size()) return std::nullopt;
  const size_t payload = bytes.size() - header;
  shape.header_bytes = static_cast<int32_t>(header);
  shape.segment_payload = packet.offload.gso_size;
  shape.segments =
      static_cast<int32_t>((payload + packet.offload.gso_size - 1) / packet.offload.gso_size);
  return shape;
}

Packet CutPiece(const Packet& whole, const PacketShape& shape, int32_t first, int32_t count) {
  SKERRY_CHECK(first >= 0 && count > 0 && first + count <= shape.segments);
  if (count == shape.segments) return whole;
  const auto header = static_cast<size_t>(shape.header_bytes);
  const size_t ip_header = size_t{4} * (whole.bytes[0] & 0x0f);
  const auto segment = static_cast<size_t>(shape.segment_payload);
  const size_t begin = header + static_cast<size_t>(first) * segment;
  const size_t end = std::min(whole.bytes.size(), begin + static_cast<size_t>(count) * segment);

  Packet piece;
  piece.bytes.reserve(header + end - begin);
  piece.bytes.assign(whole.bytes.begin(), whole.bytes.begin() + static_cast<ptrdiff_t>(header));
  piece.bytes.insert(piece.bytes.end(), whole.bytes.begin() + static_cast<ptrdiff_t>(begin),
                     whole.bytes.begin() + static_cast<ptrdiff_t>(end));
  uint8_t* const ip = piece.bytes.data();
  uint8_t* const tcp = ip + ip_header;
  Write16(ip + 2, piece.bytes.size());
  Write16(ip + 4, static_cast<size_t>(Read16(ip + 4)) + static_cast<size_t>(first));
  SealIpHeader(ip, ip_header);
  Write32(tcp + 4, Read32(tcp + 4) + static_cast<uint32_t>(first) * static_cast<uint32_t>(segment));
  if (end < whole.bytes.size()) tcp[13] &= static_cast<uint8_t>(~(kFin | kPush));
  if (first > 0) tcp[13] &= static_cast<uint8_t>(~kCongestionWindowReduced);
  Write16(tcp + 16, PseudoHeaderSum(ip, piece.bytes.size() - ip_header));

  piece.offload = whole.offload;
  piece.offload.flags |= OffloadHeader::kNeedsChecksum;
  piece.offload.checksum_start = static_cast<uint16_t>(ip_header);
  piece.offload.checksum_offset = 16;
  piece.offload.header_bytes = static_cast<uint16_t>(header);
  if (count == 1) {
    piece.offload.gso_type = 0;
    piece.offload.gso_size = 0;
  }
  return piece;
}

}  // namespace skerry
