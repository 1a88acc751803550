#include "wire/transport/bulk_receiver.h"

#include <algorithm>
#include <utility>

namespace skerry {
namespace {

int64_t SizeOf(const DecodedChunk& chunk) {
  return static_cast<int64_t>(chunk.bytes.size());
}

// Copies the part of `from`, which lies at `at` of the stream, that belongs to [begin, end) of it.
void CopyInto(Bytes& to, int64_t begin, int64_t end, std::span<const uint8_t> from, int64_t at) {
  const int64_t first = std::max(begin, at);
  const int64_t last = std::min(end, at + static_cast<int64_t>(from.size()));
  if (first >= last) return;
  const auto needed = static_cast<size_t>(last - begin);
  if (to.size() < needed) to.resize(needed);
  std::copy_n(from.begin() + (first - at), last - first, to.begin() + (first - begin));
}

}  // namespace

bool BulkReceiver::FollowSession(uint64_t session) {
  if (session == session_ && session != 0) return true;
  if (session == 0 || IsOlderSession(session, session_)) return false;
  if (std::find(old_sessions_.begin(), old_sessions_.end(), session) != old_sessions_.end())
    return false;
  if (session_ != 0) old_sessions_.push_back(session_);
  if (old_sessions_.size() > kOldSessionsMax) old_sessions_.pop_front();
  session_ = session;
  frames_.clear();
  finished_.clear();
  serials_.clear();
  received_bytes_ = unfinished_bytes_ = 0;
  granted_bytes_ = kCreditBytes;
  return true;
}

bool BulkReceiver::IsPlausible(const DecodedChunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  constexpr auto kEnvelopeMax = static_cast<int64_t>(limits::kEnvelopeBytesMax);
  constexpr auto kPayloadMax = static_cast<int64_t>(limits::kPayloadBytesMax);
  const int64_t size = SizeOf(chunk);
  return size > 0 && size <= kChunkBytesMax && header.envelope_bytes > 0 &&
         header.envelope_bytes <= kEnvelopeMax && header.total_bytes >= header.envelope_bytes &&
         header.total_bytes - header.envelope_bytes <= kPayloadMax &&
         header.offset <= header.total_bytes - size &&
         header.digest.has_value() == (header.offset + size == header.total_bytes);
}

bool BulkReceiver::Fits(const Frame* frame, const DecodedChunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  const int64_t begin = header.offset, end = begin + SizeOf(chunk);
  if (received_bytes_ + SizeOf(chunk) > granted_bytes_) return false;
  if (frame == nullptr) {
    return frames_.size() < kUnfinishedMax && begin <= kAheadMax &&
           unfinished_bytes_ + end <= kUnfinishedBytesMax;
  }
  if (begin > frame->complete + kAheadMax) return false;
  const auto held = static_cast<int64_t>(frame->envelope.size() + frame->payload.size());
  if (unfinished_bytes_ + std::max<int64_t>(0, end - held) > kUnfinishedBytesMax) return false;
  // Neither overlaps its neighbours.
  if (begin < frame->complete) return false;
  const auto next = frame->beyond.lower_bound(begin);
  if (next != frame->beyond.end() && next->first < end) return false;
  return next == frame->beyond.begin() || std::prev(next)->second <= begin;
}

bool BulkReceiver::IsRepeat(const Frame& frame, int64_t begin, int64_t end) {
  if (end <= frame.complete) return true;
  const auto next = frame.beyond.upper_bound(begin);
  return next != frame.beyond.begin() && std::prev(next)->second >= end;
}

// What is not acknowledged is sent again; nobody who keeps to the rules has so many open.
void BulkReceiver::Owe(uint16_t via, uint64_t serial) {
  auto& owed = serials_[via];
  if (owed.size() < 8 * kAcksAtOnce) owed.push_back(serial);
}

BulkReceiver::Verdict BulkReceiver::Take(const DecodedChunk& chunk, uint16_t via,
                                         std::optional<Arrived>& arrived) {
  const ChunkHeader& header = chunk.header;
  if (!IsPlausible(chunk) || !FollowSession(header.session)) return Verdict::kRefused;
  const int64_t begin = header.offset, end = begin + SizeOf(chunk);
  auto at = frames_.find(header.transfer);
  if (at != frames_.end() && (at->second.total_bytes != header.total_bytes ||
                              at->second.envelope_bytes != header.envelope_bytes))
    return Verdict::kRefused;
  if (finished_.contains(header.transfer) ||
      (at != frames_.end() && IsRepeat(at->second, begin, end))) {
    Owe(via, header.serial);
    return Verdict::kRepeated;
  }
  if (!Fits(at == frames_.end() ? nullptr : &at->second, chunk)) return Verdict::kRefused;
  if (at == frames_.end()) {
    at = frames_.emplace(header.transfer, Frame()).first;
    at->second.envelope_bytes = header.envelope_bytes;
    at->second.total_bytes = header.total_bytes;
  }
  Keep(at->second, chunk);
  received_bytes_ += SizeOf(chunk);
  Owe(via, header.serial);
  if (at->second.complete == at->second.total_bytes) Finish(at, arrived);
  return Verdict::kTaken;
}

void BulkReceiver::Keep(Frame& frame, const DecodedChunk& chunk) {
  const int64_t begin = chunk.header.offset, end = begin + SizeOf(chunk);
  const auto held = [&] {
    return static_cast<int64_t>(frame.envelope.size() + frame.payload.size());
  };
  const int64_t before = held();
  CopyInto(frame.envelope, 0, frame.envelope_bytes, chunk.bytes, begin);
  CopyInto(frame.payload, frame.envelope_bytes, frame.total_bytes, chunk.bytes, begin);
  unfinished_bytes_ += held() - before;
  if (chunk.header.digest) frame.digest = chunk.header.digest;
  frame.beyond.emplace(begin, end);
  int64_t complete = frame.complete;
  while (!frame.beyond.empty() && frame.beyond.begin()->first == complete) {
    complete = frame.beyond.begin()->second;
    frame.beyond.erase(frame.beyond.begin());
  }
  HashTo(frame, complete);
}

void BulkReceiver::HashTo(Frame& frame, int64_t end) {
  const auto part = [](const Bytes& bytes, int64_t from, int64_t to) {
    return std::span(bytes).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
  };
  const int64_t cut = frame.envelope_bytes;
  if (frame.complete < cut)
    frame.hash.Add(part(frame.envelope, frame.complete, std::min(end, cut)));
  if (end > cut)
    frame.hash.Add(part(frame.payload, std::max(frame.complete, cut) - cut, end - cut));
  frame.complete = end;
}

void BulkReceiver::Finish(std::map<uint64_t, Frame>::iterator at, std::optional<Arrived>& arrived) {
  Frame& frame = at->second;
  unfinished_bytes_ -= static_cast<int64_t>(frame.envelope.size() + frame.payload.size());
  if (frame.hash.Finish() == frame.digest) {
    arrived = Arrived{std::move(frame.envelope),
                      frame.payload.empty() ? Payload() : MakePayload(std::move(frame.payload))};
  } else {
    ++corrupt_;
  }
  finished_.insert(at->first);
  if (finished_.size() > kFinishedKept) finished_.erase(finished_.begin());
  frames_.erase(at);
}

std::optional<BulkReceiver::Acks> BulkReceiver::TakeAcks(Instant now) {
  if (serials_.empty()) return std::nullopt;
  Acks out;
  out.via = serials_.begin()->first;
  auto& owed = serials_.begin()->second;
  AcksMessage& acks = out.message;
  acks.session = session_;
  const auto end = owed.begin() + static_cast<int64_t>(std::min(owed.size(), kAcksAtOnce));
  acks.serials.assign(owed.begin(), end);
  owed.erase(owed.begin(), end);
  if (owed.empty()) serials_.erase(serials_.begin());
  acks.received_bytes = received_bytes_;
  // What is unfinished beyond a window is not added to.
  const int64_t left = kUnfinishedBytesMax - unfinished_bytes_;
  granted_bytes_ =
      std::max(granted_bytes_, received_bytes_ + std::clamp<int64_t>(left, 0, kCreditBytes));
  acks.credit_bytes = granted_bytes_;
  acks.at_nanos = (now - Instant()).nanos();
  return out;
}

}  // namespace skerry
