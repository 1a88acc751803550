// What strangers and peers send: frames, chunks, relayed parts, tickets.

#include <algorithm>

#include "common/check.h"
#include "coordinator/border.h"
#include "tests/fuzz/targets.h"
#include "tests/wire/sample_messages.h"
#include "wire/codec/codec.h"
#include "wire/ticket.h"
#include "wire/transport/bulk_receiver.h"
#include "wire/transport/link_message.h"
#include "wire/transport/relay_message.h"

namespace skerry {
namespace {

const NodeId kSender = SampleNode(11), kRecipient = SampleNode(77);
constexpr size_t kLengthBytes = 2;

FrameExpectation Expected() {
  return {SampleHeader().run, kRecipient, {}, DigestPlace::kTransfer};
}

// The length of the payload (2 bytes) · the payload · the envelope.
Bytes FrameInput(const EncodedFrame& frame) {
  const std::span<const uint8_t> payload = View(frame.payload);
  Bytes input = {static_cast<uint8_t>(payload.size()), static_cast<uint8_t>(payload.size() >> 8)};
  input.insert(input.end(), payload.begin(), payload.end());
  input.insert(input.end(), frame.envelope.begin(), frame.envelope.end());
  return input;
}

// What is decoded says the same when it is encoded and decoded again.
void RunFrame(std::span<const uint8_t> input) {
  if (input.size() < kLengthBytes) return;
  const size_t wanted = input[0] | size_t{input[1]} << 8;
  const std::span<const uint8_t> rest = input.subspan(kLengthBytes);
  const auto payload = rest.first(std::min(wanted, rest.size()));
  const Payload shared =
      payload.empty() ? Payload() : MakePayload(Bytes(payload.begin(), payload.end()));
  const auto decoded = Decode(rest.subspan(payload.size()), shared, Expected());
  if (!decoded.ok() || !decoded->frame.message) return;
  const auto again = Encode(decoded->frame, decoded->sender, kRecipient, DigestPlace::kTransfer);
  SKERRY_CHECK(again.ok(), "what was decoded can be said again");
  const auto twice = Decode(again->envelope, again->payload, Expected());
  SKERRY_CHECK(twice.ok() && twice->frame.message, "what we say ourselves is understood");
  SKERRY_CHECK(*twice->frame.message == *decoded->frame.message, "and means the same");
  Describe(*decoded->frame.message);
  SKERRY_CHECK(WireSize(*decoded->frame.message) >= 0, "a size");
  if (const auto* hello = std::get_if<Hello>(&*decoded->frame.message)) CleanHello(*hello);
  if (const auto* beat = std::get_if<Heartbeat>(&*decoded->frame.message)) CleanHeartbeat(*beat);
}

std::vector<Bytes> FrameSeeds() {
  std::vector<Bytes> seeds;
  for (const auto& [name, message] : SampleMessages()) {
    const auto frame =
        Encode({SampleHeader(), Share(message)}, kSender, kRecipient, DigestPlace::kTransfer);
    SKERRY_CHECK(frame.ok(), "a sample can be encoded");
    if (SizeOf(frame->payload) < (1 << 16)) seeds.push_back(FrameInput(*frame));
  }
  return seeds;
}

// A sequence of parts, each behind its length (2 bytes), to one receiver of bulk.
void RunChunks(std::span<const uint8_t> input) {
  BulkReceiver receiver;
  std::optional<BulkReceiver::Arrived> arrived;
  while (input.size() >= kLengthBytes) {
    const size_t wanted = input[0] | size_t{input[1]} << 8;
    input = input.subspan(kLengthBytes);
    const auto part = input.first(std::min(wanted, input.size()));
    input = input.subspan(part.size());
    IsLinkMessage(part);
    const auto message = DecodeLink(part);
    if (!message) continue;
    if (const auto* chunk = std::get_if<DecodedChunk>(&*message)) receiver.Take(*chunk, 0, arrived);
  }
}

std::vector<Bytes> ChunkSeeds() {
  ChunkHeader header;
  header.session = 1;
  header.transfer = 1;
  header.serial = 1;
  header.envelope_bytes = 8;
  header.total_bytes = 32;
  Bytes chunk = EncodeLink(header);
  chunk.resize(chunk.size() + 16, 7);
  Bytes short_chunk = EncodeShort(header);
  short_chunk.resize(short_chunk.size() + 16, 7);
  std::vector<Bytes> seeds;
  for (const Bytes& part :
       {chunk, short_chunk, EncodeLink(AttachMessage{}), EncodeLink(WantMessage{}),
        EncodeLink(AcksMessage{}), EncodeLink(ProbeMessage{}),
        EncodeLink(ProbeMessage{1, true, false, 2})}) {
    Bytes seed = {static_cast<uint8_t>(part.size()), static_cast<uint8_t>(part.size() >> 8)};
    seed.insert(seed.end(), part.begin(), part.end());
    seeds.push_back(std::move(seed));
  }
  Bytes all;
  for (const Bytes& seed : seeds) all.insert(all.end(), seed.begin(), seed.end());
  seeds.push_back(std::move(all));
  return seeds;
}

void RunRelay(std::span<const uint8_t> input) {
  IsRelayMessage(input);
  DecodeRelay(input);
}

std::vector<Bytes> RelaySeeds() {
  const NodeId peer = TestNodeId(1);
  const Bytes sealed(64, 7);
  return {EncodeRelay(RelayAttach{peer, 2}),       EncodeRelay(RelayState{peer, 2, {}}),
          EncodeRelay(RelayCall{peer, 2}),         EncodeRelay(RelayGot{4096}),
          EncodeRelay(ReachNonce{5, true}),        EncodeRelay(ReachNonce{5, false, 40}),
          EncodeRelay(RelayData{peer, 2, sealed}), EncodeRelay(RelayMeet{peer, "203.0.113.7"})};
}

// As typed; and as if its checksum were right, which no mutation finds.
void RunTicket(std::span<const uint8_t> input) {
  constexpr int64_t kNow = 1'800'000'000;
  VerifyTicket(TextIn(input), kNow).IgnoreError();
  DecodeTicketBytes(Bytes(input.begin(), input.end())).IgnoreError();
}

std::vector<Bytes> TicketSeeds() {
  const auto key = Identity::FromSeed({1, 2, 3});
  std::vector<Bytes> seeds;
  for (const TicketRole role : {TicketRole::kNode, TicketRole::kGuest}) {
    const auto text =
        IssueTicket(key, {"tcp://10.1.2.3:7700,tcp://[::1]:7701", RunId(), 1'900'000'000, 3, role});
    SKERRY_CHECK(text.ok(), "a ticket");
    seeds.push_back(BytesOf(*text));
    seeds.push_back(*TicketBytes(*text));
  }
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> WireTargets() {
  return {{"envelope", RunFrame, FrameSeeds},
          {"chunks", RunChunks, ChunkSeeds},
          {"relay", RunRelay, RelaySeeds},
          {"ticket", RunTicket, TicketSeeds}};
}

}  // namespace skerry
