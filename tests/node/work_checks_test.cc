#include "node/work_checks.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

NodeId Node(uint8_t i) {
  NodeId id;
  id.bytes[0] = i;
  return id;
}
const NodeId kBefore = Node(1), kSuspect = Node(2), kAfter = Node(3), kChecker = Node(4);
const WorkCheck kCheck{7, 2, kSuspect, kChecker, kBefore, kAfter};

Activation ActivationOf(int64_t step, int32_t microbatch) {
  Activation message;
  message.step = step;
  message.microbatch = microbatch;
  message.values = MakePayload({1, 2, 3, 4});
  return message;
}
Gradient GradientOf(int64_t step, int32_t microbatch, int32_t attempt = 0) {
  Gradient message;
  message.step = step;
  message.microbatch = microbatch;
  message.attempt = attempt;
  message.values = MakePayload({5, 6, 7, 8});
  return message;
}
WorkCopy CopyOf(WorkPart part, int32_t attempt = 0) {
  WorkCopy copy;
  copy.step = kCheck.step;
  copy.microbatch = kCheck.microbatch;
  copy.suspect = kSuspect;
  copy.part = part;
  copy.attempt = attempt;
  return copy;
}

}  // namespace

TEST_CASE("WorkChecks: neighbours copy what passes between them and the suspect, nothing else",
          "[node]") {
  WorkChecks before(kBefore), after(kAfter), suspect(kSuspect);
  for (WorkChecks* checks : {&before, &after, &suspect}) checks->Watch(kCheck);
  CHECK_FALSE(suspect.Watches());

  const auto input = before.CopyOf(kSuspect, ActivationOf(7, 2), true);
  REQUIRE(input);
  CHECK(input->first == kChecker);
  CHECK(input->second.part == WorkPart::kInput);
  CHECK(*input->second.values == Bytes{1, 2, 3, 4});
  CHECK(before.CopyOf(kSuspect, GradientOf(7, 2), false)->second.part == WorkPart::kDescended);
  CHECK(after.CopyOf(kSuspect, ActivationOf(7, 2), false)->second.part == WorkPart::kOutput);
  CHECK(after.CopyOf(kSuspect, GradientOf(7, 2), true)->second.part == WorkPart::kGradient);

  CHECK_FALSE(before.CopyOf(kSuspect, ActivationOf(7, 3), true));
  CHECK_FALSE(before.CopyOf(kSuspect, ActivationOf(8, 2), true));
  CHECK_FALSE(before.CopyOf(kAfter, ActivationOf(7, 2), true));
  CHECK_FALSE(before.CopyOf(kSuspect, ActivationOf(7, 2), false));  // it sent that to `after`
  CHECK_FALSE(before.CopyOf(kSuspect, Heartbeat{}, true));
}

TEST_CASE("WorkChecks: a checker takes each part of the neighbour that has it, of one attempt",
          "[node]") {
  WorkChecks checks(kChecker);
  CHECK_FALSE(checks.Take(kBefore, CopyOf(WorkPart::kInput)));  // nobody asked
  checks.Watch(kCheck);
  CHECK_FALSE(checks.Take(kAfter, CopyOf(WorkPart::kInput)));
  CHECK_FALSE(checks.Take(kSuspect, CopyOf(WorkPart::kOutput)));
  CHECK(checks.Take(kBefore, CopyOf(WorkPart::kInput)));
  CHECK(checks.Take(kAfter, CopyOf(WorkPart::kOutput)));
  CHECK(checks.Take(kAfter, CopyOf(WorkPart::kGradient)));
  CHECK_FALSE(checks.TakeWhole());
  CHECK(checks.Take(kBefore, CopyOf(WorkPart::kDescended, 1)));
  CHECK_FALSE(checks.TakeWhole());  // the way back is another attempt's
  for (const WorkPart part : {WorkPart::kInput, WorkPart::kDescended}) {
    CHECK(checks.Take(kBefore, CopyOf(part, 1)));
  }
  for (const WorkPart part : {WorkPart::kOutput, WorkPart::kGradient}) {
    CHECK(checks.Take(kAfter, CopyOf(part, 1)));
  }
  const auto whole = checks.TakeWhole();
  REQUIRE(whole);
  CHECK(whole->check == kCheck);
  CHECK_FALSE(checks.TakeWhole());
  CHECK_FALSE(checks.Take(kBefore, CopyOf(WorkPart::kInput)));
}

TEST_CASE("WorkChecks: what is kept is bounded, the oldest gives way", "[node]") {
  WorkChecks checks(kChecker);
  for (int64_t step = 0; step <= static_cast<int64_t>(WorkChecks::kCollectedMax); ++step) {
    WorkCheck check = kCheck;
    check.step = step;
    checks.Watch(check);
  }
  WorkCopy copy = CopyOf(WorkPart::kInput);
  copy.step = 0;
  CHECK_FALSE(checks.Take(kBefore, copy));
  copy.step = 1;
  CHECK(checks.Take(kBefore, copy));
}
