// A BulkSender and a BulkReceiver, and what is under way between them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "wire/transport/bulk_receiver.h"
#include "wire/transport/bulk_sender.h"

namespace skerry {

inline Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

inline OutgoingFrame FrameOf(TrafficClass traffic, size_t bytes, uint8_t first = 1) {
  OutgoingFrame frame;
  frame.to = TestNodeId(2);
  frame.traffic = traffic;
  frame.envelope = Bytes(48, first);
  Bytes payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<uint8_t>(first + i * 31 + i / 999);
  frame.payload = MakePayload(std::move(payload));
  frame.in_chunks = true;
  return frame;
}

inline DecodedChunk ChunkIn(const Bytes& bytes) {
  const auto message = DecodeLink(bytes);
  REQUIRE(message.has_value());
  REQUIRE(std::holds_alternative<DecodedChunk>(*message));
  return std::get<DecodedChunk>(*message);
}

struct BulkPair {
  BulkSender sender{77};
  BulkReceiver receiver;
  std::deque<BulkSender::Transmission> flying;
  std::vector<BulkReceiver::Arrived> arrived;
  double now = 0;

  explicit BulkPair(int stripes = 2) {
    for (int i = 0; i < stripes; ++i) sender.OpenStripe(At(0), static_cast<StripeId>(i));
  }
  // Of what has something to send since then.
  void MeasureRoundTrip(double sent, double round_trip) {
    sender.OpenStripe(At(sent), kSignalStripe);
    const auto probe = sender.ProbeDue(At(sent));
    REQUIRE(probe);
    sender.OnEcho(At(sent + round_trip), ProbeMessage{probe->sent_nanos, true});
  }
  void SendAll() {
    while (auto next = sender.Next(At(now))) flying.push_back(*std::move(next));
  }
  BulkReceiver::Verdict Land(const BulkSender::Transmission& sent) {
    std::optional<BulkReceiver::Arrived> frame;
    const auto verdict = receiver.Take(ChunkIn(sent.bytes), sent.stripe, frame);
    if (frame) arrived.push_back(*std::move(frame));
    return verdict;
  }
  void Acknowledge() {
    while (const auto acks = receiver.TakeAcks(At(now))) sender.OnAcks(At(now), acks->message);
  }
  // Round trips of 50 ms until nothing is left.
  void Finish() {
    for (int i = 0; i < 4000 && !sender.IsIdle(); ++i) {
      now += 0.05;
      sender.Tick(At(now));
      SendAll();
      while (!flying.empty()) {
        Land(flying.front());
        flying.pop_front();
      }
      Acknowledge();
    }
  }
};

inline bool Same(const BulkReceiver::Arrived& arrived, const OutgoingFrame& sent) {
  const auto a = View(arrived.payload), b = View(sent.payload);
  return arrived.envelope == sent.envelope && std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace skerry
