#include "wire/codec/codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "absl/strings/str_format.h"
#include "common/digest.h"
#include "common/rng.h"
#include "sample_messages.h"
#include "wire/codec/limits.h"

namespace skerry {
namespace {

const NodeId kSender = SampleNode(100);
const NodeId kRecipient = SampleNode(200);

FrameExpectation Expectation() {
  return {SampleHeader().run, kRecipient, {}};
}
Frame FrameOf(const Message& message) {
  return {SampleHeader(), Share(message)};
}
EncodedFrame Encoded(const Message& message) {
  auto encoded = Encode(FrameOf(message), kSender, kRecipient);
  REQUIRE(encoded.ok());
  return *std::move(encoded);
}

std::string Hex(std::span<const uint8_t> bytes) {
  std::string hex;
  for (const uint8_t b : bytes) hex += absl::StrFormat("%02x", b);
  return hex;
}
Bytes FromHex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string GoldenPath(const std::string& name) {
  return std::string(SKERRY_GOLDEN_DIR) + "/v1/" + name + ".hex";
}

TEST_CASE("Codec: every message is decoded as it was encoded", "[wire][codec]") {
  const auto samples = SampleMessages();
  std::set<size_t> kinds;
  for (const auto& [name, message] : samples) kinds.insert(message.index());
  CHECK(kinds.size() == std::variant_size_v<MessageVariant>);
  for (const auto& [name, message] : samples) {
    INFO(name);
    const EncodedFrame encoded = Encoded(message);
    const auto decoded = Decode(encoded.envelope, encoded.payload, Expectation());
    REQUIRE(decoded.ok());
    CHECK(decoded->sender == kSender);
    CHECK(decoded->frame.header == SampleHeader());
    REQUIRE(decoded->frame.message);
    CHECK(*decoded->frame.message == message);
  }
}

TEST_CASE("Codec: a signature travels although nothing is stated", "[wire][codec]") {
  SumsHeld held{1, 2, 3, {}};
  held.signature.back() = 9;
  const EncodedFrame encoded = Encoded(held);
  const auto decoded = Decode(encoded.envelope, encoded.payload, Expectation());
  REQUIRE(decoded.ok());
  CHECK(*decoded->frame.message == Message(held));
}

TEST_CASE("Codec: a model from elsewhere travels whole", "[wire][codec]") {
  Welcome welcome;
  TransformerConfig& model = welcome.config.model;
  model.qkv_bias = true;
  model.rope_scaling = RopeScaling::kLlama3;
  model.rope_factor = 8;
  model.rope_low_frequency = 1.25f;
  model.rope_high_frequency = 5;
  model.rope_original_context = 8192;
  model.positions = 131072;

  const EncodedFrame encoded = Encoded(welcome);
  const auto decoded = Decode(encoded.envelope, encoded.payload, Expectation());

  REQUIRE(decoded.ok());
  CHECK(*decoded->frame.message == Message(welcome));
}

TEST_CASE("Codec: a ladder travels, with a number of layers that older programs refuse",
          "[wire][codec]") {
  const auto has = [](const EncodedFrame& encoded, int32_t number) {
    uint8_t bytes[sizeof(number)];
    std::memcpy(bytes, &number, sizeof(number));
    return std::search(encoded.envelope.begin(), encoded.envelope.end(), std::begin(bytes),
                       std::end(bytes)) != encoded.envelope.end();
  };
  constexpr int32_t kLayers = 3333;  // as no other number there
  Welcome welcome;
  welcome.config.model.layers = kLayers;
  CHECK(has(Encoded(welcome), kLayers));
  welcome.config.model.ladder = 11;
  const EncodedFrame encoded = Encoded(welcome);
  CHECK(has(encoded, -kLayers));
  CHECK_FALSE(has(encoded, kLayers));
  const auto decoded = Decode(encoded.envelope, encoded.payload, Expectation());
  REQUIRE(decoded.ok());
  CHECK(*decoded->frame.message == Message(welcome));

  // What such a program makes of it: a number that is not said to be a ladder's.
  welcome.config.model.ladder = 0;
  welcome.config.model.layers = GENERATE(-kLayers, std::numeric_limits<int32_t>::min());
  const EncodedFrame older = Encoded(welcome);
  CHECK(absl::IsInvalidArgument(Decode(older.envelope, nullptr, Expectation()).status()));
}

TEST_CASE("Codec: a sequence without a message is one withdrawn, in lanes of bulk only",
          "[wire][codec]") {
  Frame frame{SampleHeader(), nullptr};
  frame.header.sequence = 7;
  frame.header.lane = GENERATE(uint8_t{0}, uint8_t{2});
  const auto encoded = Encode(frame, kSender, kRecipient);
  REQUIRE(encoded.ok());
  const auto decoded = Decode(encoded->envelope, nullptr, Expectation());
  CHECK(decoded.ok() == (frame.header.lane > 0));
  if (decoded.ok()) CHECK(decoded->frame.header == frame.header);
}

TEST_CASE("Codec: an acknowledgement alone has no message", "[wire][codec]") {
  Frame frame{SampleHeader(), nullptr};
  frame.header.sequence = 0;
  const auto encoded = Encode(frame, kSender, kRecipient);
  REQUIRE(encoded.ok());
  const auto decoded = Decode(encoded->envelope, nullptr, Expectation());
  REQUIRE(decoded.ok());
  CHECK_FALSE(decoded->frame.message);
  CHECK(decoded->frame.header == frame.header);
}

// Run by hand when a message is added: test_wire_codec '[.golden-write]'. Files that exist stay.
TEST_CASE("Codec: write golden bytes of new messages", "[.golden-write]") {
  for (const auto& [name, message] : SampleMessages()) {
    if (std::ifstream(GoldenPath(name))) continue;
    const EncodedFrame encoded = Encoded(message);
    std::ofstream(GoldenPath(name)) << Hex(encoded.envelope) << "\n"
                                    << Hex(View(encoded.payload)) << "\n";
  }
}

TEST_CASE("Codec: golden bytes of version 1 decode for ever", "[wire][codec]") {
  for (const auto& [name, message] : SampleMessages()) {
    INFO(name);
    std::ifstream file(GoldenPath(name));
    std::string envelope, payload;
    REQUIRE(std::getline(file, envelope));
    std::getline(file, payload);
    const auto decoded = Decode(FromHex(envelope), MakePayload(FromHex(payload)), Expectation());
    REQUIRE(decoded.ok());
    CHECK(decoded->frame.header == SampleHeader());
    CHECK(*decoded->frame.message == message);
  }
}

TEST_CASE("Codec: what is for others, from others or of another run is refused",
          "[wire][codec][error]") {
  const EncodedFrame encoded = Encoded(Pong{1});
  FrameExpectation expectation = Expectation();
  SECTION("another run") {
    expectation.run = RunId();
    CHECK(absl::IsFailedPrecondition(Decode(encoded.envelope, nullptr, expectation).status()));
  }
  SECTION("another recipient") {
    expectation.recipient = kSender;
    CHECK(absl::IsFailedPrecondition(Decode(encoded.envelope, nullptr, expectation).status()));
  }
  SECTION("another key") {
    expectation.is_sender = [](const NodeId& sender) { return sender != kSender; };
    CHECK(absl::IsPermissionDenied(Decode(encoded.envelope, nullptr, expectation).status()));
  }
}

TEST_CASE("Codec: a payload must be the one that was announced", "[wire][codec][error]") {
  const EncodedFrame encoded = Encoded(ObjectChunk{"weights", 0, 100, MakePayload(Bytes(100, 7))});
  const auto decode = [&](Bytes payload) {
    return Decode(encoded.envelope, MakePayload(std::move(payload)), Expectation()).status();
  };
  CHECK(decode(Bytes(100, 7)).ok());
  CHECK(absl::IsDataLoss(decode(Bytes(100, 8))));
  CHECK(absl::IsInvalidArgument(decode(Bytes(99, 7))));
  CHECK(absl::IsInvalidArgument(decode({})));
  CHECK(absl::IsInvalidArgument(
      Decode(Encoded(Pong{1}).envelope, MakePayload(Bytes(1)), Expectation()).status()));
}

TEST_CASE("Codec: what no receiver would take is not sent", "[wire][codec][error]") {
  const double bad =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  Message message;
  SECTION("a loss") {
    message = StepReport{1, {{0, 1, static_cast<float>(bad)}}};
  }
  SECTION("a time") {
    message = LinkReading{kSender, bad, 1};
  }
  SECTION("a long text") {
    message = Leave{std::string(limits::kTextBytesMax + 1, 'x')};
  }
  SECTION("a long list") {
    message = RoundCommit{0, 0, std::vector<Participant>(limits::kParticipantsMax + 1)};
  }
  CHECK(absl::IsInvalidArgument(Encode(FrameOf(message), kSender, kRecipient).status()));
}

TEST_CASE("Codec: the longest lists of a round arrive", "[wire][codec]") {
  DeltaStatistics statistics{1, 2, {}, {}};
  RoundApplied applied{1, 2, {}, 0.5, 0.125, {}, 10, 20};
  for (size_t i = 0; i < kDeltaStatisticsMax; ++i) {
    statistics.bytes.push_back(static_cast<int64_t>(i));
    statistics.errors.push_back(0.5 * static_cast<double>(i));
  }
  for (size_t i = 0; i < limits::kParticipantsMax; ++i) applied.screened.push_back(kSender);
  for (const Message& message : {Message(statistics), Message(applied)}) {
    const EncodedFrame encoded = Encoded(message);
    const auto decoded = Decode(encoded.envelope, nullptr, Expectation());
    REQUIRE(decoded.ok());
    CHECK((*decoded->frame.message == message));
  }
}

TEST_CASE("Codec: control characters do not reach a terminal", "[wire][codec]") {
  const EncodedFrame encoded = Encoded(Leave{"a\x1b[2Jb\nc\x7f"});
  const auto decoded = Decode(encoded.envelope, nullptr, Expectation());
  REQUIRE(decoded.ok());
  CHECK(std::get<Leave>(*decoded->frame.message).reason == "a?[2Jb?c?");
}

TEST_CASE("Codec: a configuration that breaks the rules of run.toml is refused",
          "[wire][codec][error]") {
  Welcome welcome;
  welcome.run = SampleHeader().run;
  welcome.config.model.heads = 0;
  const EncodedFrame encoded = Encoded(welcome);
  CHECK(absl::IsInvalidArgument(Decode(encoded.envelope, nullptr, Expectation()).status()));
}

TEST_CASE("Codec: no prefix of any message decodes, and none crashes", "[wire][codec][fuzz]") {
  for (const auto& [name, message] : SampleMessages()) {
    INFO(name);
    const EncodedFrame encoded = Encoded(message);
    for (size_t size = 0; size < encoded.envelope.size(); ++size) {
      const auto prefix = std::span(encoded.envelope).first(size);
      CHECK_FALSE(Decode(prefix, encoded.payload, Expectation()).ok());
    }
  }
}

// A mutant may decode (a number changed); then its values must keep the rules all the same.
TEST_CASE("Codec: 20,000 mutations of every message decode to a frame or an error",
          "[wire][codec][fuzz]") {
  int64_t decoded_mutants = 0;
  for (const auto& [name, message] : SampleMessages()) {
    const EncodedFrame encoded = Encoded(message);
    Rng rng(1, name);
    for (int i = 0; i < 20'000; ++i) {
      Bytes bytes = encoded.envelope;
      for (uint64_t edits = 1 + rng.Below(4); edits > 0; --edits) {
        const size_t at = rng.Below(bytes.size());
        if (rng.Below(2) == 0) {
          bytes[at] ^= static_cast<uint8_t>(1u << rng.Below(8));
        } else {
          bytes[at] = static_cast<uint8_t>(rng.Next());
        }
      }
      const auto decoded = Decode(bytes, encoded.payload, Expectation());
      if (!decoded.ok()) continue;
      ++decoded_mutants;
      if (const auto* report = std::get_if<StepReport>(&*decoded->frame.message)) {
        for (const auto& loss : report->losses) REQUIRE(std::isfinite(loss.loss));
      }
    }
  }
  CHECK(decoded_mutants > 1000);
}

Frame LaneFrame() {
  Delta delta;
  delta.round = 7;
  delta.payload = MakePayload(Bytes{1, 2, 3, 4});
  delta.digest = DigestOf(View(delta.payload));
  Frame frame = FrameOf(delta);
  frame.header.speaks = 2;
  frame.header.lane = static_cast<uint8_t>(TrafficClass::kDelta);
  return frame;
}

TEST_CASE("Codec: a frame in a lane is of format 2, its payload proven elsewhere",
          "[wire][codec]") {
  const Frame frame = LaneFrame();
  const auto encoded = Encode(frame, kSender, kRecipient, DigestPlace::kTransfer);
  REQUIRE(encoded.ok());
  FrameExpectation expectation = Expectation();
  expectation.digest = DigestPlace::kTransfer;
  const auto decoded = Decode(encoded->envelope, encoded->payload, expectation);
  REQUIRE(decoded.ok());
  CHECK(decoded->frame.header == frame.header);
  CHECK(*decoded->frame.message == *frame.message);
  // Without that proof it is not believed.
  CHECK(absl::IsDataLoss(Decode(encoded->envelope, encoded->payload, Expectation()).status()));
}

TEST_CASE("Codec: a lane in format 1, or beyond the last, is refused", "[wire][codec][hostile]") {
  Frame frame = LaneFrame();
  frame.header.lane = kTrafficClasses;
  const auto beyond = Encode(frame, kSender, kRecipient);
  REQUIRE(beyond.ok());
  CHECK(absl::IsInvalidArgument(Decode(beyond->envelope, beyond->payload, Expectation()).status()));
}

// What a program of today says to one that it has not heard of must be what programs of format 1
// read: they know neither `speaks` nor `lane`, which they pass over.
TEST_CASE("Codec: the first frame to anybody is of format 1", "[wire][codec]") {
  Frame frame = FrameOf(Hello{});
  frame.header.speaks = kNewestFormat;
  const auto encoded = Encode(frame, kSender, kRecipient);
  REQUIRE(encoded.ok());
  // Segment table and root pointer, then the data section, which begins with the version.
  CHECK(encoded->envelope[16] == 1);
  CHECK(encoded->envelope[17] == 0);
}

}  // namespace
}  // namespace skerry
