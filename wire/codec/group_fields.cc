#include "wire/codec/group_fields.h"

#include "wire/codec/id_words.h"
#include "wire/codec/read_plan.h"
#include "wire/codec/write_fields.h"

namespace skerry {
namespace {

GroupValues ReadValues(ReadChecks& checks, schema::GroupValues::Reader r, const Payload& payload) {
  GroupValues m;
  m.group = r.getGroup();
  m.operation = checks.NotNegative(r.getOperation(), "operation");
  m.step = checks.NotNegative(r.getStep(), "step");
  m.piece = checks.NotNegative(r.getPiece(), "piece");
  m.values = payload;
  return m;
}

GroupTrial ReadTrial(ReadChecks& checks, schema::GroupTrial::Reader r) {
  GroupTrial m;
  m.group = r.getGroup();
  m.members = ReadIds(checks, r.getMembers(), kGroupMembersMax, "members");
  m.operation = checks.Enumerator(r.getOperation(), GroupOperation::kLast, "operation");
  m.values = checks.NotNegative(r.getValues(), "values");
  m.times = checks.NotNegative(r.getTimes(), "times");
  if (m.values > kGroupValuesMax) checks.Break("values", "are too many");
  if (m.times > kGroupTimesMax) checks.Break("times", "are too many");
  return m;
}

}  // namespace

Message ReadGroup(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isGroupValues()) return ReadValues(checks, e.getGroupValues(), payload);
  if (e.isGroupTrial()) return ReadTrial(checks, e.getGroupTrial());
  if (e.isGroupTried()) {
    const auto r = e.getGroupTried();
    return GroupTried{r.getGroup(), ReadId<Digest>(r.getDigest()),
                      checks.Text(r.getFailed(), "reason")};
  }
  if (e.isCohortBroken()) {
    const auto r = e.getCohortBroken();
    return CohortBroken{checks.NotNegative(r.getStage(), "stage"), r.getGroup(),
                        ReadId<NodeId>(r.getAbout()), checks.Text(r.getWhy(), "reason")};
  }
  const auto r = e.getGroupSign();
  return GroupSign{r.getGroup(), checks.NotNegative(r.getSent(), "pieces sent"),
                   checks.NotNegative(r.getTaken(), "pieces taken"), r.getEnded(),
                   checks.Text(r.getWhy(), "reason")};
}

void WriteGroup(WriteChecks&, const GroupValues& values, schema::GroupValues::Builder b) {
  b.setGroup(values.group);
  b.setOperation(values.operation);
  b.setStep(values.step);
  b.setPiece(values.piece);
}

void WriteGroup(WriteChecks& checks, const GroupSign& sign, schema::GroupSign::Builder b) {
  b.setGroup(sign.group);
  b.setSent(sign.sent);
  b.setTaken(sign.taken);
  b.setEnded(sign.ended);
  b.setWhy(checks.Text(sign.why, "reason"));
}

void WriteGroup(WriteChecks& checks, const GroupTrial& trial, schema::GroupTrial::Builder b) {
  checks.Require(trial.operation <= GroupOperation::kLast, "operation");
  checks.Require(trial.values <= kGroupValuesMax, "values");
  checks.Require(trial.times <= kGroupTimesMax, "times");
  b.setGroup(trial.group);
  WriteIds(trial.members, b.initMembers(checks.Count(trial.members, kGroupMembersMax, "members")));
  b.setOperation(static_cast<uint8_t>(trial.operation));
  b.setValues(trial.values);
  b.setTimes(trial.times);
}

void WriteGroup(WriteChecks& checks, const GroupTried& tried, schema::GroupTried::Builder b) {
  b.setGroup(tried.group);
  WriteId(tried.digest, b.initDigest());
  b.setFailed(checks.Text(tried.failed, "reason"));
}

void WriteGroup(WriteChecks& checks, const CohortBroken& broken, schema::CohortBroken::Builder b) {
  b.setStage(broken.stage);
  b.setGroup(broken.group);
  WriteId(broken.about, b.initAbout());
  b.setWhy(checks.Text(broken.why, "reason"));
}

}  // namespace skerry
