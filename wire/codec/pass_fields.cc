#include "wire/codec/pass_fields.h"

#include "wire/codec/id_words.h"
#include "wire/codec/read_plan.h"

namespace skerry {
namespace {

// The fields that Activation, Gradient and MicrobatchVoid share.
template <typename M, typename Reader>
M ReadMicrobatch(ReadChecks& checks, Reader r) {
  M m;
  m.step = checks.NotNegative(r.getStep(), "step");
  m.microbatch = checks.NotNegative(r.getMicrobatch(), "microbatch");
  m.attempt = checks.NotNegative(r.getAttempt(), "attempt");
  m.plan_version = checks.NotNegative(r.getPlanVersion(), "plan version");
  return m;
}

template <typename M, typename Reader>
M ReadHop(ReadChecks& checks, Reader r, const Payload& payload) {
  M m = ReadMicrobatch<M>(checks, r);
  m.hop = checks.NotNegative(r.getHop(), "hop");
  m.codec = checks.Enumerator(r.getCodec(), DeltaCodec::kLast, "codec");
  m.values = payload;
  return m;
}

Activation ReadActivation(ReadChecks& checks, schema::Activation::Reader r,
                          const Payload& payload) {
  auto m = ReadHop<Activation>(checks, r, payload);
  m.path = ReadPath(checks, r.getPath());
  return m;
}

VoidList ReadVoidList(ReadChecks& checks, schema::VoidList::Reader r) {
  VoidList m;
  m.to = ReadId<NodeId>(r.getTo());
  const auto list = r.getMicrobatches();
  m.microbatches.resize(checks.Count(list, kVoidListMax, "microbatches"));
  for (unsigned i = 0; i < m.microbatches.size(); ++i) {
    m.microbatches[i] = {checks.NotNegative(list[i].getStep(), "step"),
                         checks.NotNegative(list[i].getMicrobatch(), "microbatch")};
  }
  m.plan_version = checks.NotNegative(r.getPlanVersion(), "plan version");
  return m;
}

HopLate ReadHopLate(ReadChecks& checks, schema::HopLate::Reader r) {
  return HopLate{
      checks.NotNegative(r.getStep(), "step"), checks.NotNegative(r.getMicrobatch(), "microbatch"),
      checks.NotNegative(r.getAttempt(), "attempt"), checks.NotNegative(r.getHop(), "hop")};
}

Detour ReadDetour(ReadChecks& checks, schema::Detour::Reader r) {
  return Detour{checks.NotNegative(r.getStep(), "step"),
                checks.NotNegative(r.getMicrobatch(), "microbatch"),
                ReadId<NodeId>(r.getAround()),
                checks.Finite(r.getWaitedS(), "waited_s"),
                r.getSkipped(),
                checks.NotNegative(r.getPlanVersion(), "plan version")};
}

// What messages of a check begin with.
template <typename M, typename Reader>
M ReadVisit(ReadChecks& checks, Reader r) {
  M m;
  m.step = checks.NotNegative(r.getStep(), "step");
  m.microbatch = checks.NotNegative(r.getMicrobatch(), "microbatch");
  m.suspect = ReadId<NodeId>(r.getSuspect());
  return m;
}

WorkCheck ReadWorkCheck(ReadChecks& checks, schema::WorkCheck::Reader r) {
  auto m = ReadVisit<WorkCheck>(checks, r);
  m.checker = ReadId<NodeId>(r.getChecker());
  m.before = ReadId<NodeId>(r.getBefore());
  m.after = ReadId<NodeId>(r.getAfter());
  return m;
}

WorkCopy ReadWorkCopy(ReadChecks& checks, schema::WorkCopy::Reader r, const Payload& payload) {
  auto m = ReadVisit<WorkCopy>(checks, r);
  m.attempt = checks.NotNegative(r.getAttempt(), "attempt");
  m.part = checks.Enumerator(r.getPart(), WorkPart::kLast, "part");
  m.codec = checks.Enumerator(r.getCodec(), DeltaCodec::kLast, "codec");
  m.values = payload;
  return m;
}

WorkChecked ReadWorkChecked(ReadChecks& checks, schema::WorkChecked::Reader r) {
  auto m = ReadVisit<WorkChecked>(checks, r);
  m.forward = checks.NotNegative(checks.Finite(r.getForward(), "forward"), "forward");
  m.backward = checks.NotNegative(checks.Finite(r.getBackward(), "backward"), "backward");
  return m;
}

BoundarySizes ReadBoundarySizes(ReadChecks& checks, schema::BoundarySizes::Reader r) {
  BoundarySizes m;
  m.first_step = checks.NotNegative(r.getFirstStep(), "step");
  const auto list = r.getSides();
  m.sides.resize(checks.Count(list, kBoundarySidesMax, "sides"));
  for (unsigned i = 0; i < m.sides.size(); ++i) {
    m.sides[i] = {ReadId<NodeId>(list[i].getOther()), list[i].getIsGradient(), list[i].getWasSent(),
                  checks.NotNegative(list[i].getCount(), "count"),
                  checks.Finite(list[i].getLog2Rms(), "log2_rms")};
  }
  return m;
}

template <typename M, typename Builder>
void WriteVisit(const M& m, Builder b) {
  b.setStep(m.step);
  b.setMicrobatch(m.microbatch);
  WriteId(m.suspect, b.initSuspect());
}

}  // namespace

Message ReadPass(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isActivation()) return ReadActivation(checks, e.getActivation(), payload);
  if (e.isGradient()) return ReadHop<Gradient>(checks, e.getGradient(), payload);
  if (e.isMicrobatchVoid()) return ReadMicrobatch<MicrobatchVoid>(checks, e.getMicrobatchVoid());
  if (e.isVoidList()) return ReadVoidList(checks, e.getVoidList());
  if (e.isHopLate()) return ReadHopLate(checks, e.getHopLate());
  if (e.isDetour()) return ReadDetour(checks, e.getDetour());
  if (e.isWorkCheck()) return ReadWorkCheck(checks, e.getWorkCheck());
  if (e.isWorkCopy()) return ReadWorkCopy(checks, e.getWorkCopy(), payload);
  if (e.isBoundarySizes()) return ReadBoundarySizes(checks, e.getBoundarySizes());
  return ReadWorkChecked(checks, e.getWorkChecked());
}

void WritePass(WriteChecks& checks, const Detour& m, schema::Detour::Builder b) {
  b.setStep(m.step);
  b.setMicrobatch(m.microbatch);
  WriteId(m.around, b.initAround());
  b.setWaitedS(checks.Finite(m.waited_s, "waited_s"));
  b.setSkipped(m.skipped);
  b.setPlanVersion(m.plan_version);
}

void WritePass(WriteChecks& checks, const VoidList& m, schema::VoidList::Builder b) {
  WriteId(m.to, b.initTo());
  auto list = b.initMicrobatches(checks.Count(m.microbatches, kVoidListMax, "microbatches"));
  for (unsigned i = 0; i < m.microbatches.size(); ++i) {
    list[i].setStep(m.microbatches[i].step);
    list[i].setMicrobatch(m.microbatches[i].microbatch);
  }
  b.setPlanVersion(m.plan_version);
}

void WritePass(WriteChecks&, const WorkCheck& check, schema::WorkCheck::Builder b) {
  WriteVisit(check, b);
  WriteId(check.checker, b.initChecker());
  WriteId(check.before, b.initBefore());
  WriteId(check.after, b.initAfter());
}

void WritePass(WriteChecks& checks, const WorkCopy& copy, schema::WorkCopy::Builder b) {
  checks.Require(copy.part <= WorkPart::kLast, "part");
  WriteVisit(copy, b);
  b.setAttempt(copy.attempt);
  b.setPart(static_cast<uint8_t>(copy.part));
  b.setCodec(static_cast<uint8_t>(copy.codec));
}

void WritePass(WriteChecks& checks, const WorkChecked& checked, schema::WorkChecked::Builder b) {
  WriteVisit(checked, b);
  b.setForward(checks.Finite(checked.forward, "forward"));
  b.setBackward(checks.Finite(checked.backward, "backward"));
}

void WritePass(WriteChecks& checks, const BoundarySizes& m, schema::BoundarySizes::Builder b) {
  b.setFirstStep(m.first_step);
  auto list = b.initSides(checks.Count(m.sides, kBoundarySidesMax, "sides"));
  for (unsigned i = 0; i < list.size(); ++i) {
    WriteId(m.sides[i].other, list[i].initOther());
    list[i].setIsGradient(m.sides[i].is_gradient);
    list[i].setWasSent(m.sides[i].was_sent);
    list[i].setCount(m.sides[i].count);
    list[i].setLog2Rms(checks.Finite(m.sides[i].log2_rms, "log2_rms"));
  }
}

}  // namespace skerry
