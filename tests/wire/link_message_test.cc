#include "wire/transport/link_message.h"

#include <catch2/catch.hpp>

#include "common/rng.h"

namespace skerry {
namespace {

ChunkHeader SomeHeader() {
  ChunkHeader header;
  header.session = 0x1122334455667788;
  header.serial = 3;
  header.transfer = 9;
  header.traffic = TrafficClass::kDelta;
  header.envelope_bytes = 120;
  header.total_bytes = 1000;
  header.offset = 900;
  header.digest.emplace().bytes.fill(7);
  return header;
}

std::string Hex(const Bytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t b : bytes) {
    hex += kDigits[b >> 4];
    hex += kDigits[b & 15];
  }
  return hex;
}

template <typename T>
T Again(const T& message) {
  const Bytes bytes = EncodeLink(message);
  const auto decoded = DecodeLink(bytes);
  REQUIRE(decoded.has_value());
  return std::get<T>(*decoded);
}

TEST_CASE("LinkMessage: what is encoded is decoded", "[wire][link]") {
  CHECK(Again(AttachMessage{3, true}) == AttachMessage{3, true});
  CHECK(Again(WantMessage{5}) == WantMessage{5});
  CHECK(Again(ProbeMessage{123456789, true}) == ProbeMessage{123456789, true});
  CHECK(Again(ProbeMessage{123456789, false, true}) == ProbeMessage{123456789, false, true});
  const ProbeMessage timed{123456789, true, false, 987654321};
  CHECK(Again(timed) == timed);
  CHECK(EchoOf(Again(ProbeMessage{123456789, false, true}), 987654321) == timed);
  CHECK(EchoOf(ProbeMessage{123456789}, 987654321) == ProbeMessage{123456789, true});
  const ProbeMessage asks{123456789, false, true, -1, true};
  CHECK(Again(asks) == asks);
  CHECK(EchoOf(Again(asks), 987654321) == timed);
  const AcksMessage acks{1, 2, 3, 4, {5, 6, 7}};
  CHECK(Again(acks) == acks);

  const bool is_short = GENERATE(false, true);
  Bytes chunk = is_short ? EncodeShort(SomeHeader()) : EncodeLink(SomeHeader());
  chunk.insert(chunk.end(), {1, 2, 3});
  const auto decoded = DecodeLink(chunk);
  REQUIRE(decoded.has_value());
  CHECK(std::get<DecodedChunk>(*decoded).header == SomeHeader());
  CHECK(Bytes(std::get<DecodedChunk>(*decoded).bytes.begin(),
              std::get<DecodedChunk>(*decoded).bytes.end()) == Bytes{1, 2, 3});
}

TEST_CASE("LinkMessage: golden bytes of format 2", "[wire][link]") {
  CHECK(Hex(EncodeLink(AttachMessage{3, false})) == "534b594c01030000");
  CHECK(Hex(EncodeLink(WantMessage{5})) == "534b594c020500");
  CHECK(Hex(EncodeLink(AcksMessage{1, 2, 3, 4, {5}})) ==
        "534b594c040100000000000000020000000000000003000000000000000400000000000000010005000000"
        "00000000");
  CHECK(Hex(EncodeLink(ProbeMessage{258, true})) == "534b594c05020100000000000001");
  CHECK(Hex(EncodeLink(ProbeMessage{258, false, true})) == "534b594c05020100000000004000");
  CHECK(Hex(EncodeLink(ProbeMessage{258, true, false, 259})) ==
        "534b594c0602010000000000000301000000000000");
  // What a transport that does not know the bit sends back.
  const Bytes old_echo = EncodeLink(ProbeMessage{258 | int64_t{1} << 62, true});
  CHECK(std::get<ProbeMessage>(*DecodeLink(old_echo)) == ProbeMessage{258, true});
  ChunkHeader header = SomeHeader();
  header.digest.reset();
  CHECK(Hex(EncodeLink(header)) ==
        "534b594c03887766554433221103000000000000000900000000000000027800000000000000e803000000"
        "000000840300000000000000");
  CHECK(Hex(EncodeShort(header)) == "534b594c07887766554433221102030978e8078407");
  CHECK(Hex(EncodeShort(SomeHeader())) ==
        "534b594c07887766554433221182030978e8078407" + Hex(Bytes(32, 7)));
  CHECK(Hex(EncodeLink(ProbeMessage{258, false, true, -1, true})) ==
        "534b594c05020100000000006000");
  // What transports that do not know the question send back: as they were asked, and timed.
  CHECK(std::get<ProbeMessage>(*DecodeLink(EncodeLink(ProbeMessage{258, true, false, 259, false})))
            .asks_short == false);
  Bytes unknown = EncodeLink(ProbeMessage{258 | int64_t{1} << 61, true, false, 259});
  CHECK(std::get<ProbeMessage>(*DecodeLink(unknown)) == ProbeMessage{258, true, false, 259, true});
}

TEST_CASE("LinkMessage: a short number has one form, and is no longer than it may be",
          "[wire][link][hostile]") {
  ChunkHeader header = SomeHeader();
  header.serial = header.transfer = UINT64_MAX;
  header.total_bytes = header.offset = int64_t{1} << 62;
  const Bytes most = EncodeShort(header);
  REQUIRE(DecodeLink(most));
  CHECK(std::get<DecodedChunk>(*DecodeLink(most)).header == header);
  const auto refused = [](Bytes numbers) {
    Bytes chunk = EncodeShort(SomeHeader());
    chunk.resize(4 + 1 + 8 + 1);
    chunk.insert(chunk.end(), numbers.begin(), numbers.end());
    chunk.resize(200, 0);
    return !DecodeLink(chunk).has_value();
  };
  CHECK_FALSE(refused({3, 9, 1, 2, 0}));
  CHECK(refused({0x83, 0x00, 9, 1, 2, 0}));  // 3 in two bytes
  CHECK(refused(Bytes(20, 0xff)));
  CHECK(refused({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 9, 1, 2, 0}));
  CHECK(refused({3, 9, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 2, 0}));
}

TEST_CASE("LinkMessage: an envelope is no link message", "[wire][link]") {
  CHECK_FALSE(IsLinkMessage(Bytes{0, 0, 0, 0, 16, 0, 0, 0}));
  CHECK_FALSE(IsLinkMessage(Bytes{0x53, 0x4b}));
}

TEST_CASE("LinkMessage: whatever else comes is refused", "[wire][link][hostile]") {
  const auto refused = [](Bytes bytes) { return !DecodeLink(bytes).has_value(); };
  Bytes unknown = EncodeLink(WantMessage{1});
  unknown[4] = 99;
  CHECK(refused(unknown));
  CHECK(refused(EncodeLink(AttachMessage{kStripesMax, false})));
  Bytes longer = EncodeLink(ProbeMessage{1, false});
  longer.push_back(0);
  CHECK(refused(longer));
  ChunkHeader control = SomeHeader();
  control.traffic = TrafficClass::kControl;
  CHECK(refused(EncodeLink(control)));
  ChunkHeader negative = SomeHeader();
  negative.offset = -1;
  CHECK(refused(EncodeLink(negative)));
  negative.offset = INT64_MAX;
  CHECK(refused(EncodeLink(negative)));
  AcksMessage many{1, 2, 3, 4, {}};
  many.serials.resize(kAcksAtOnce + 1);
  CHECK(refused(EncodeLink(many)));
  CHECK(refused(EncodeShort(control)));
  CHECK(refused(EncodeShort(negative)));
  for (const Bytes& whole : {EncodeLink(SomeHeader()), EncodeShort(SomeHeader()),
                             EncodeLink(AcksMessage{1, 2, 3, 4, {5}})}) {
    for (size_t size = 0; size < whole.size(); ++size)
      CHECK(refused(Bytes(whole.begin(), whole.begin() + static_cast<int64_t>(size))));
  }
}

TEST_CASE("LinkMessage: noise decodes to something or nothing", "[wire][link][hostile]") {
  Rng rng(5, "link noise");
  int decoded = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = EncodeLink(SomeHeader());
    bytes.resize(4 + rng.Next() % 80);
    for (size_t at = 4; at < bytes.size(); ++at) bytes[at] = static_cast<uint8_t>(rng.Next());
    bytes[4] = static_cast<uint8_t>(rng.Next() % 8);
    decoded += DecodeLink(bytes).has_value() ? 1 : 0;
  }
  CHECK(decoded < 20'000);
}

}  // namespace
}  // namespace skerry
