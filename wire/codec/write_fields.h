// Fields that several messages share, written by Encode (codec.h).
#pragma once

#include <vector>

#include "wire/codec/id_words.h"
#include "wire/courier.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// Of all messages of outer rounds.
template <typename M, typename Builder>
void WriteRound(const M& m, Builder b) {
  b.setStage(m.stage);
  b.setRound(m.round);
}

template <typename Checks>
void WriteRefused(const Refused& m, schema::Refused::Builder b, Checks& checks) {
  b.setReason(checks.Text(m.reason, "reason"));
  b.setWaits(m.waits);
}

// Of those about a microbatch under way.
template <typename M, typename Builder>
void WriteMicrobatch(const M& m, Builder b) {
  b.setStep(m.step);
  b.setMicrobatch(m.microbatch);
  b.setAttempt(m.attempt);
}

template <typename Tag>
void WriteIds(const std::vector<Id256<Tag>>& ids, capnp::List<schema::Id256>::Builder list) {
  for (unsigned i = 0; i < list.size(); ++i) WriteId(ids[i], list[i]);
}

inline void WriteParticipants(const std::vector<Participant>& participants,
                              capnp::List<schema::Participant>::Builder list) {
  for (unsigned i = 0; i < list.size(); ++i) {
    WriteId(participants[i].node, list[i].initNode());
    list[i].setTokens(participants[i].tokens);
    WriteId(participants[i].digest, list[i].initDigest());
  }
}

inline void WriteHeader(const FrameHeader& header, schema::Envelope::Builder b) {
  b.setSpeaks(header.speaks);
  b.setLane(header.lane);
  WriteId(header.run, b.initRun());
  b.setSenderIncarnation(header.sender_incarnation);
  b.setReceiverIncarnation(header.receiver_incarnation);
  b.setSequence(header.sequence);
  b.setAcknowledged(header.acknowledged);
}

}  // namespace skerry
