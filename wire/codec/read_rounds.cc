#include "wire/codec/read_rounds.h"

#include "wire/codec/id_words.h"
#include "wire/codec/limits.h"
#include "wire/codec/read_plan.h"
#include "wire/codec/sum_fields.h"

namespace skerry {
namespace {

// The fields that all messages of outer rounds share.
template <typename M, typename Reader>
M ReadRound(ReadChecks& checks, Reader r) {
  M m;
  m.stage = checks.NotNegative(r.getStage(), "stage");
  m.round = checks.NotNegative(r.getRound(), "round");
  return m;
}

std::vector<Digest> ReadMessages(ReadChecks& checks, capnp::List<schema::Id256>::Reader list,
                                 size_t participants) {
  std::vector<Digest> messages(checks.Count(list, limits::kParticipantsMax, "messages"));
  if (!messages.empty() && messages.size() != participants)
    checks.Break("messages", "are not one for each participant");
  for (unsigned i = 0; i < messages.size(); ++i) messages[i] = ReadId<Digest>(list[i]);
  return messages;
}

DeltaStatistics ReadStatistics(ReadChecks& checks, schema::DeltaStatistics::Reader r) {
  auto m = ReadRound<DeltaStatistics>(checks, r);
  // Each get counts against what may be read of a message: once only.
  const auto bytes = r.getBytes();
  const auto errors = r.getErrors();
  if (bytes.size() != errors.size()) checks.Break("statistics", "do not match");
  const unsigned count = checks.Count(bytes, kDeltaStatisticsMax, "statistics");
  for (unsigned i = 0; i < count; ++i) {
    m.bytes.push_back(checks.NotNegative(bytes[i], "bytes"));
    m.errors.push_back(checks.NotNegative(checks.Finite(errors[i], "error"), "error"));
  }
  return m;
}

RoundLate ReadRoundLate(ReadChecks& checks, schema::RoundLate::Reader r) {
  auto m = ReadRound<RoundLate>(checks, r);
  m.waited_s = checks.NotNegative(checks.Finite(r.getWaitedS(), "wait"), "wait");
  m.deltas_of = ReadIds(checks, r.getDeltasOf(), limits::kParticipantsMax, "late deltas");
  m.sums_of = ReadIds(checks, r.getSumsOf(), limits::kParticipantsMax, "late sums");
  return m;
}

CheckpointState ReadCheckpointState(ReadChecks& checks, schema::CheckpointState::Reader r) {
  auto m = ReadRound<CheckpointState>(checks, r);
  m.bytes = r.getBytes();
  if (m.bytes < -1) checks.Break("bytes", "is negative");
  const auto chunks = r.getChunks();
  m.chunks.resize(checks.Count(chunks, kCheckpointChunksMax, "chunks"));
  for (unsigned i = 0; i < m.chunks.size(); ++i) m.chunks[i] = ReadId<Digest>(chunks[i]);
  return m;
}

StateRoot ReadStateRoot(ReadChecks& checks, schema::StateRoot::Reader r) {
  auto m = ReadRound<StateRoot>(checks, r);
  m.root = ReadId<Digest>(r.getRoot());
  m.inner_steps = checks.NotNegative(r.getInnerSteps(), "inner steps");
  return m;
}

StateRefuted ReadStateRefuted(ReadChecks& checks, schema::StateRefuted::Reader r) {
  auto m = ReadRound<StateRefuted>(checks, r);
  m.donor = ReadId<NodeId>(r.getDonor());
  m.chunk = r.getChunk();
  if (m.chunk < -1) checks.Break("chunk", "is negative");
  m.digest = ReadId<Digest>(r.getDigest());
  return m;
}

RoundApplied ReadApplied(ReadChecks& checks, schema::RoundApplied::Reader r) {
  auto m = ReadRound<RoundApplied>(checks, r);
  m.base_digest = ReadId<Digest>(r.getBaseDigest());
  m.transfer_s = checks.Finite(r.getTransferS(), "transfer_s");
  m.wait_s = checks.Finite(r.getWaitS(), "wait_s");
  m.bytes_sent = checks.NotNegative(r.getBytesSent(), "bytes sent");
  m.bytes_received = checks.NotNegative(r.getBytesReceived(), "bytes received");
  const auto screened = r.getScreened();
  const unsigned count = checks.Count(screened, limits::kParticipantsMax, "screened");
  for (unsigned i = 0; i < count; ++i) m.screened.push_back(ReadId<NodeId>(screened[i]));
  return m;
}

}  // namespace

Message ReadRoundMessage(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isDelta()) {
    auto m = ReadRound<Delta>(checks, e.getDelta());
    m.tokens = checks.NotNegative(e.getDelta().getTokens(), "tokens");
    m.digest = ReadId<Digest>(e.getDelta().getDigest());
    m.plan_version = checks.NotNegative(e.getDelta().getPlanVersion(), "plan version");
    m.sender = ReadId<NodeId>(e.getDelta().getSender());
    m.payload = payload;
    return m;
  }
  if (e.isDeltaHeld()) {
    auto m = ReadRound<DeltaHeld>(checks, e.getDeltaHeld());
    m.sender = ReadId<NodeId>(e.getDeltaHeld().getSender());
    m.tokens = checks.NotNegative(e.getDeltaHeld().getTokens(), "tokens");
    m.digest = ReadId<Digest>(e.getDeltaHeld().getDigest());
    return m;
  }
  if (e.isRoundCommit()) {
    auto m = ReadRound<RoundCommit>(checks, e.getRoundCommit());
    m.participants = ReadParticipants(checks, e.getRoundCommit().getParticipants());
    m.shape = e.getRoundCommit().getShape();
    const auto table = e.getRoundCommit().getTable();
    if (table.size() > limits::kTableBytesMax) checks.Break("table", "is too long");
    if (checks.status().ok()) m.table.assign(table.begin(), table.end());
    m.covered = ReadCovered(checks, e.getRoundCommit().getCovered(), m.participants.size());
    m.messages = ReadMessages(checks, e.getRoundCommit().getMessages(), m.participants.size());
    return m;
  }
  if (e.isDeltaSum()) {
    auto m = ReadRound<DeltaSum>(checks, e.getDeltaSum());
    m.shape = e.getDeltaSum().getShape();
    m.tokens = checks.NotNegative(e.getDeltaSum().getTokens(), "tokens");
    m.digest = ReadId<Digest>(e.getDeltaSum().getDigest());
    m.plan_version = checks.NotNegative(e.getDeltaSum().getPlanVersion(), "plan version");
    m.sender = ReadId<NodeId>(e.getDeltaSum().getSender());
    m.payload = payload;
    return m;
  }
  if (e.isSumsHeld()) return ReadSumsHeld(checks, e.getSumsHeld());
  if (e.isRoundLate()) return ReadRoundLate(checks, e.getRoundLate());
  if (e.isCheckpointRequest()) {
    auto m = ReadRound<CheckpointRequest>(checks, e.getCheckpointRequest());
    m.at_once = e.getCheckpointRequest().getAtOnce();
    return m;
  }
  if (e.isCheckpointState()) return ReadCheckpointState(checks, e.getCheckpointState());
  if (e.isStateRoot()) return ReadStateRoot(checks, e.getStateRoot());
  if (e.isStateRefuted()) return ReadStateRefuted(checks, e.getStateRefuted());
  if (e.isDeltaStatistics()) return ReadStatistics(checks, e.getDeltaStatistics());
  if (e.isRoundApplied()) return ReadApplied(checks, e.getRoundApplied());
  return ReadSumMessage(checks, e, payload);
}

}  // namespace skerry
