#include "wire/codec/sum_fields.h"

#include <algorithm>

#include "wire/codec/id_words.h"
#include "wire/codec/limits.h"
#include "wire/codec/write_fields.h"

namespace skerry {
namespace {

std::vector<PieceState> ReadStates(ReadChecks& checks,
                                   capnp::List<schema::PieceState>::Reader list) {
  std::vector<PieceState> states(checks.Count(list, kPieceStatesMax, "states"));
  for (unsigned i = 0; i < states.size(); ++i) {
    states[i] = {checks.NotNegative(list[i].getPiece(), "piece"),
                 ReadId<Digest>(list[i].getBefore()), ReadId<Digest>(list[i].getAfter())};
  }
  return states;
}

std::vector<int32_t> ReadPieceNumbers(ReadChecks& checks, capnp::List<int32_t>::Reader list) {
  std::vector<int32_t> pieces(checks.Count(list, kPieceStatesMax, "pieces"));
  for (unsigned i = 0; i < pieces.size(); ++i) pieces[i] = checks.NotNegative(list[i], "piece");
  return pieces;
}

SumCheck ReadSumCheck(ReadChecks& checks, schema::SumCheck::Reader r) {
  SumCheck m;
  m.stage = checks.NotNegative(r.getStage(), "stage");
  m.round = checks.NotNegative(r.getRound(), "round");
  m.shape = r.getShape();
  m.reducer = ReadId<NodeId>(r.getReducer());
  m.checker = ReadId<NodeId>(r.getChecker());
  m.drawn = ReadPieceNumbers(checks, r.getDrawn());
  m.sum = ReadId<Digest>(r.getSum());
  m.summed = ReadParticipants(checks, r.getSummed());
  m.covered = ReadCovered(checks, r.getCovered(), m.summed.size());
  m.states = ReadStates(checks, r.getStates());
  return m;
}

void WriteStates(WriteChecks& checks, const std::vector<PieceState>& states, auto init) {
  auto list = init(checks.Count(states, kPieceStatesMax, "states"));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setPiece(states[i].piece);
    WriteId(states[i].before, list[i].initBefore());
    WriteId(states[i].after, list[i].initAfter());
  }
}

void WriteNumbers(WriteChecks& checks, const std::vector<int32_t>& numbers, auto init) {
  auto list = init(checks.Count(numbers, kPieceStatesMax, "numbers"));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, numbers[i]);
}

unsigned CountOf(WriteChecks& checks, const std::vector<Participant>& participants) {
  return checks.Count(participants, limits::kParticipantsMax, "participants");
}

}  // namespace

std::vector<Participant> ReadParticipants(ReadChecks& checks,
                                          capnp::List<schema::Participant>::Reader list) {
  std::vector<Participant> participants(
      checks.Count(list, limits::kParticipantsMax, "participants"));
  for (unsigned i = 0; i < participants.size(); ++i) {
    participants[i] = {ReadId<NodeId>(list[i].getNode()),
                       checks.NotNegative(list[i].getTokens(), "tokens"),
                       ReadId<Digest>(list[i].getDigest())};
  }
  return participants;
}

std::vector<int32_t> ReadCovered(ReadChecks& checks, capnp::List<int32_t>::Reader list,
                                 size_t participants) {
  std::vector<int32_t> covered(checks.Count(list, limits::kParticipantsMax, "covered rounds"));
  if (!covered.empty() && covered.size() != participants) {
    checks.Break("covered rounds", "are not one for each participant");
  }
  for (unsigned i = 0; i < covered.size(); ++i) {
    covered[i] = list[i];
    if (covered[i] < 1 || covered[i] > limits::kRoundsCoveredMax)
      checks.Break("covered rounds", "out of range");
  }
  return covered;
}

SumsHeld ReadSumsHeld(ReadChecks& checks, schema::SumsHeld::Reader r) {
  SumsHeld m;
  m.stage = checks.NotNegative(r.getStage(), "stage");
  m.round = checks.NotNegative(r.getRound(), "round");
  m.shape = r.getShape();
  m.sums = ReadParticipants(checks, r.getSums());
  m.statement.sent = ReadParticipants(checks, r.getSent());
  m.statement.summed = ReadParticipants(checks, r.getSummed());
  m.statement.states = ReadStates(checks, r.getStates());
  const capnp::Data::Reader signature = r.getSignature();
  if (signature.size() == m.signature.size()) {
    std::copy(signature.begin(), signature.end(), m.signature.begin());
  } else if (signature.size() != 0) {
    checks.Break("signature", "is not of 64 bytes");
  }
  return m;
}

Message ReadSumMessage(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isSumCheck()) return ReadSumCheck(checks, e.getSumCheck());
  if (e.isSumShown()) {
    return SumShown{checks.NotNegative(e.getSumShown().getStage(), "stage"),
                    checks.NotNegative(e.getSumShown().getRound(), "round"), payload};
  }
  if (e.isSumChecked()) {
    const auto r = e.getSumChecked();
    return SumChecked{checks.NotNegative(r.getStage(), "stage"),
                      checks.NotNegative(r.getRound(), "round"), ReadId<NodeId>(r.getReducer()),
                      checks.Enumerator(r.getVerdict(), SumVerdict::kLast, "verdict")};
  }
  const auto r = e.getLeftOverSent();
  return LeftOverSent{checks.NotNegative(r.getStage(), "stage"),
                      checks.NotNegative(r.getRound(), "round"), ReadId<NodeId>(r.getTo()),
                      ReadPieceNumbers(checks, r.getPieces())};
}

void WriteSum(WriteChecks& checks, const SumsHeld& held, schema::SumsHeld::Builder b) {
  const SumStatement& said = held.statement;
  b.setStage(held.stage);
  b.setRound(held.round);
  b.setShape(held.shape);
  WriteParticipants(held.sums, b.initSums(CountOf(checks, held.sums)));
  if (said != SumStatement()) {
    WriteParticipants(said.sent, b.initSent(CountOf(checks, said.sent)));
    WriteParticipants(said.summed, b.initSummed(CountOf(checks, said.summed)));
    WriteStates(checks, said.states, [&](unsigned count) { return b.initStates(count); });
  }
  if (held.signature == Signature{}) return;
  auto signature = b.initSignature(static_cast<unsigned>(held.signature.size()));
  std::copy(held.signature.begin(), held.signature.end(), signature.begin());
}

void WriteSum(WriteChecks& checks, const RoundCommit& commit, schema::RoundCommit::Builder b) {
  WriteRound(commit, b);
  b.setShape(commit.shape);
  WriteParticipants(commit.participants, b.initParticipants(CountOf(checks, commit.participants)));
  checks.Require(commit.table.size() <= limits::kTableBytesMax, "table");
  if (!commit.table.empty()) b.setTable(kj::arrayPtr(commit.table.data(), commit.table.size()));
  constexpr size_t kMost = limits::kParticipantsMax;
  if (!commit.messages.empty())
    WriteIds(commit.messages, b.initMessages(checks.Count(commit.messages, kMost, "messages")));
  if (commit.covered.empty()) return;
  auto covered = b.initCovered(checks.Count(commit.covered, kMost, "covered rounds"));
  for (unsigned i = 0; i < covered.size(); ++i) covered.set(i, commit.covered[i]);
}

void WriteSum(WriteChecks& checks, const SumCheck& check, schema::SumCheck::Builder b) {
  b.setStage(check.stage);
  b.setRound(check.round);
  b.setShape(check.shape);
  WriteId(check.reducer, b.initReducer());
  WriteId(check.checker, b.initChecker());
  WriteNumbers(checks, check.drawn, [&](unsigned count) { return b.initDrawn(count); });
  WriteId(check.sum, b.initSum());
  WriteParticipants(check.summed, b.initSummed(CountOf(checks, check.summed)));
  WriteNumbers(checks, check.covered, [&](unsigned count) { return b.initCovered(count); });
  WriteStates(checks, check.states, [&](unsigned count) { return b.initStates(count); });
}

void WriteSum(WriteChecks& checks, const SumChecked& checked, schema::SumChecked::Builder b) {
  checks.Require(checked.verdict <= SumVerdict::kLast, "verdict");
  b.setStage(checked.stage);
  b.setRound(checked.round);
  WriteId(checked.reducer, b.initReducer());
  b.setVerdict(static_cast<uint8_t>(checked.verdict));
}

void WriteSum(WriteChecks& checks, const LeftOverSent& sent, schema::LeftOverSent::Builder b) {
  b.setStage(sent.stage);
  b.setRound(sent.round);
  WriteId(sent.to, b.initTo());
  WriteNumbers(checks, sent.pieces, [&](unsigned count) { return b.initPieces(count); });
}

}  // namespace skerry
