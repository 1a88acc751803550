#include <catch2/catch.hpp>
#include <numeric>

#include "sim/packet/segments.h"

using namespace skerry;

namespace {

constexpr size_t kIp = 20, kTcp = 32;  // with a time stamp, as Linux sends
constexpr uint8_t kFin = 0x01, kPush = 0x08, kAck = 0x10, kCwr = 0x80;

uint32_t Number(const Packet& packet, size_t at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | packet.bytes[at + static_cast<size_t>(i)];
  return value;
}

// A super-packet as the kernel hands it over: 10.77.0.1 to 10.77.0.2, sequence number 0xfffffff0 so
// that it wraps, every payload byte its own position.
Packet SuperPacket(size_t payload, uint16_t segment, uint8_t flags = kAck) {
  Packet packet;
  packet.bytes = {0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2};
  packet.bytes.resize(kIp + kTcp + payload);
  std::iota(packet.bytes.begin() + kIp + kTcp, packet.bytes.end(), uint8_t{0});
  packet.bytes[2] = static_cast<uint8_t>(packet.bytes.size() >> 8);
  packet.bytes[3] = static_cast<uint8_t>(packet.bytes.size());
  packet.bytes[kIp + 4] = packet.bytes[kIp + 5] = packet.bytes[kIp + 6] = 0xff;
  packet.bytes[kIp + 7] = 0xf0;
  packet.bytes[kIp + 12] = kTcp / 4 << 4;
  packet.bytes[kIp + 13] = flags;
  packet.offload = {
      OffloadHeader::kNeedsChecksum, OffloadHeader::kTcp4, kIp + kTcp, segment, kIp, 16};
  return packet;
}

}  // namespace

TEST_CASE("segments: a super-packet is charged the headers of every segment") {
  const Packet packet = SuperPacket(3 * 1448 + 100, 1448);
  const auto shape = ShapeOf(packet);
  REQUIRE(shape);
  CHECK(shape->segments == 4);
  CHECK(shape->SegmentBytes(0) == 1500);
  CHECK(shape->SegmentBytes(2) == 1500);
  CHECK(shape->SegmentBytes(3) == 152);
  CHECK(shape->source == 0x0a4d0001);
  CHECK(shape->destination == 0x0a4d0002);
}

TEST_CASE("segments: a packet that is none is one segment of its own size") {
  Packet packet = SuperPacket(500, 1448);
  packet.offload = {};
  const auto shape = ShapeOf(packet);
  REQUIRE(shape);
  CHECK(shape->segments == 1);
  CHECK(shape->SegmentBytes(0) == 552);
}

TEST_CASE("segments: what cannot be cut is refused") {
  Packet packet = SuperPacket(3000, 1448);
  SECTION("IPv6") {
    packet.bytes[0] = 0x65;
  }
  SECTION("a length that lies") {
    packet.bytes[3] ^= 1;
  }
  SECTION("an offload for IPv6") {
    packet.offload.gso_type = 4;
  }
  SECTION("segments of nothing") {
    packet.offload.gso_size = 0;
  }
  SECTION("a TCP header beyond the end") {
    packet.bytes.resize(kIp + 10);
  }
  SECTION("no packet at all") {
    packet.bytes.clear();
  }
  CHECK_FALSE(ShapeOf(packet));
}

TEST_CASE("segments: pieces carry every byte once, with headers that are right for each") {
  const Packet whole = SuperPacket(5 * 1000 + 7, 1000, kAck | kPush | kFin | kCwr);
  const auto shape = ShapeOf(whole);
  REQUIRE(shape->segments == 6);
  struct Run {
    int32_t first, count;
  };
  // As if the first, a middle and the last segment were lost, and as if nothing was.
  const auto runs =
      GENERATE(std::vector<Run>{{1, 5}}, std::vector<Run>{{0, 3}, {4, 2}}, std::vector<Run>{{0, 5}},
               std::vector<Run>{{0, 1}, {1, 1}, {2, 3}, {5, 1}});
  for (const Run run : runs) {
    const Packet piece = CutPiece(whole, *shape, run.first, run.count);
    INFO("segments " << run.first << " to " << run.first + run.count - 1);
    const bool has_last = run.first + run.count == 6;
    const size_t payload = piece.bytes.size() - kIp - kTcp;
    CHECK(payload == static_cast<size_t>(run.count) * 1000 - (has_last ? 1000 - 7 : 0));
    const size_t begin = kIp + kTcp + static_cast<size_t>(run.first) * 1000;
    CHECK(std::equal(piece.bytes.begin() + kIp + kTcp, piece.bytes.end(),
                     whole.bytes.begin() + static_cast<ptrdiff_t>(begin)));

    CHECK(Number(piece, 2, 2) == piece.bytes.size());
    CHECK(Number(piece, 4, 2) == ((0xffff + static_cast<uint32_t>(run.first)) & 0xffff));
    CHECK(InternetSum(piece.bytes.data(), kIp) == 0xffff);  // RFC 1071: a valid header sums to this
    CHECK(Number(piece, kIp + 4, 4) == 0xfffffff0 + 1000 * static_cast<uint32_t>(run.first));
    const uint8_t flags = piece.bytes[kIp + 13];
    CHECK((flags & kAck) != 0);
    CHECK(((flags & (kPush | kFin)) == (kPush | kFin)) == has_last);
    CHECK(((flags & kCwr) != 0) == (run.first == 0));

    CHECK(piece.offload.flags == OffloadHeader::kNeedsChecksum);
    CHECK(piece.offload.checksum_start == kIp);
    CHECK(piece.offload.checksum_offset == 16);
    CHECK(piece.offload.gso_type == (run.count == 1 ? 0 : OffloadHeader::kTcp4));
    CHECK(piece.offload.gso_size == (run.count == 1 ? 0 : 1000));
    CHECK(ShapeOf(piece)->segments == run.count);
  }
}

TEST_CASE("segments: the receiving kernel completes a piece's checksum to a valid one") {
  const Packet whole = SuperPacket(2500, 1000);
  Packet piece = CutPiece(whole, *ShapeOf(whole), 1, 1);
  const size_t tcp_bytes = piece.bytes.size() - kIp;
  // What a kernel or a card does: sum from checksum_start, the sum in place included, inverted.
  const auto sum = static_cast<uint16_t>(
      ~InternetSum(piece.bytes.data() + piece.offload.checksum_start, tcp_bytes));
  piece.bytes[kIp + 16] = static_cast<uint8_t>(sum >> 8);
  piece.bytes[kIp + 17] = static_cast<uint8_t>(sum);
  // RFC 9293: pseudo-header and segment together sum to all ones.
  const uint32_t pseudo = 0x0a4d + 0x0001 + 0x0a4d + 0x0002 + 6 + static_cast<uint32_t>(tcp_bytes);
  CHECK(InternetSum(piece.bytes.data() + kIp, tcp_bytes, pseudo) == 0xffff);
}

TEST_CASE("segments: the whole of a packet is left as it is") {
  const Packet whole = SuperPacket(2500, 1000, kAck | kPush);
  const Packet piece = CutPiece(whole, *ShapeOf(whole), 0, 3);
  CHECK(piece.bytes == whole.bytes);
  CHECK(piece.offload.gso_size == 1000);
}
