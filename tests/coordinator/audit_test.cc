// The audit: nothing to say of a journal that the coordinator wrote, and a finding with the number
// of the record for whatever is done to it.

#include "coordinator/audit.h"

#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;
using Json = nlohmann::json;

namespace {

Heartbeat Beat(Phase phase, int64_t step) {
  Heartbeat beat;
  beat.phase = phase;
  beat.step = step;
  return beat;
}

void Report(ServedRun& run, int64_t step, int32_t microbatch) {
  const auto home = HomeOf(*run.state().plan, step, microbatch);
  run.From(NodeOf(*run.state().plan, *home), StepReport{step, {{microbatch, 8, 5.0f}}});
}

void Freeze(ServedRun& run, int32_t stage, int64_t round) {
  for (const NodeId& holder : run.Live(stage)) {
    for (const NodeId& sender : run.Live(stage)) {
      DeltaHeld held = Held(stage, round, sender);
      held.digest.bytes[1] = static_cast<uint8_t>(round + 1);  // another delta every round
      run.From(holder, held);
    }
  }
  for (const NodeId& holder : run.Live(stage)) run.From(holder, Applied(stage, round));
}

void Finish(ServedRun& run) {
  for (int32_t stage : {0, 1}) {
    for (const NodeId& node : run.Live(stage)) run.From(node, Beat(Phase::kFinished, 4));
  }
  REQUIRE(run.state().finished);
}

// Four steps of two microbatches, two rounds of two stages.
std::vector<std::string> WholeRun() {
  ServedRun run;
  run.Gather();
  for (int64_t step = 0; step < 4; ++step) {
    for (int32_t m : {0, 1}) Report(run, step, m);
    if (step % 2 == 0) continue;
    for (int32_t stage : {0, 1}) Freeze(run, stage, step / 2);
  }
  Finish(run);
  return run.journal;
}

JournalAudit Audited(const std::vector<std::string>& journal) {
  JournalAudit audit(SmallRun());
  for (const std::string& record : journal) audit.Add(record);
  audit.End();
  return audit;
}

// Numbers of the records of a kind, from 1.
std::vector<int64_t> Numbers(const std::vector<std::string>& journal, const std::string& kind) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < journal.size(); ++i) {
    if (Json::parse(journal[i]).at("kind") == kind) numbers.push_back(static_cast<int64_t>(i) + 1);
  }
  return numbers;
}

std::string& At(std::vector<std::string>& journal, int64_t number) {
  return journal.at(static_cast<size_t>(number) - 1);
}

template <typename Change>
void Edit(std::vector<std::string>& journal, int64_t number, Change&& change) {
  Json json = Json::parse(At(journal, number));
  change(json);
  At(journal, number) = json.dump();
}

bool Finds(const JournalAudit& audit, int64_t record, const std::string& rule,
           const std::string& text = "") {
  for (const AuditFinding& finding : audit.findings()) {
    if (finding.record == record && finding.rule == rule &&
        finding.what.find(text) != std::string::npos) {
      return true;
    }
  }
  UNSCOPED_INFO(AuditText(audit));
  return false;
}

}  // namespace

TEST_CASE("Audit: a whole run is sound, and every sample, round and contribution is counted",
          "[coordinator][audit]") {
  const JournalAudit audit = Audited(WholeRun());

  INFO(AuditText(audit));
  CHECK(audit.found() == 0);
  const AuditCounts counts = audit.counts();
  CHECK(counts.samples == 8);
  CHECK(counts.written_off == 0);
  CHECK(counts.tokens == 64);
  CHECK(counts.rounds == 4);
  CHECK(counts.contributions == 8);
  CHECK(counts.digests == 8);
  CHECK(AuditJson(audit).at("findings").empty());
}

TEST_CASE("Audit: stages of one replica have no rounds, and none is missing at the end",
          "[coordinator][audit]") {
  RunConfig config = SmallRun();
  config.nodes_min = 2;
  ServedRun run(config);
  run.Gather(2);
  for (int64_t step = 0; step < 4; ++step) {
    for (int32_t m : {0, 1}) Report(run, step, m);
  }
  Finish(run);

  const JournalAudit audit = Audited(run.journal);

  INFO(AuditText(audit));
  CHECK(audit.found() == 0);
  CHECK(audit.counts().rounds == 0);
}

TEST_CASE("Audit: of a journal cut anywhere nothing is found but what the end would bring",
          "[coordinator][audit]") {
  std::vector<std::string> journal = WholeRun();
  while (!journal.empty()) {
    journal.pop_back();
    const JournalAudit audit = Audited(journal);
    INFO(AuditText(audit));
    REQUIRE(audit.found() == 0);
  }
}

TEST_CASE("Audit: a microbatch credited twice is named", "[coordinator][audit][error]") {
  std::vector<std::string> journal = WholeRun();
  const int64_t number = Numbers(journal, "losses").at(3);
  const bool in_one_record = GENERATE(true, false);
  if (in_one_record) {
    Edit(journal, number, [](Json& json) { json["losses"].push_back(json["losses"][0]); });
    CHECK(Finds(Audited(journal), number, "samples", "credited twice"));
  } else {
    journal.insert(journal.begin() + number, At(journal, number));
    CHECK(Finds(Audited(journal), number + 1, "samples", "credited twice"));
  }
}

TEST_CASE("Audit: every record that is left out is found missing", "[coordinator][audit][error]") {
  const std::vector<std::string> whole = WholeRun();
  for (const char* kind : {"admitted", "plan", "commit", "losses"}) {
    for (const int64_t number : Numbers(whole, kind)) {
      std::vector<std::string> journal = whole;
      journal.erase(journal.begin() + number - 1);
      INFO(kind << " " << number);
      CHECK(Audited(journal).found() > 0);
    }
  }
}

TEST_CASE("Audit: a commit that is repeated, skipped or over another set is named",
          "[coordinator][audit][error]") {
  std::vector<std::string> journal = WholeRun();
  const int64_t number = Numbers(journal, "commit").at(2);

  SECTION("repeated") {
    journal.insert(journal.begin() + number, At(journal, number));
    CHECK(Finds(Audited(journal), number + 1, "records", "out of order"));
  }
  SECTION("a round later than the next") {
    Edit(journal, number, [](Json& json) { json["commit"]["round"] = 7; });
    CHECK(Finds(Audited(journal), number, "records", "out of order"));
  }
  SECTION("without one of those who take part") {
    Edit(journal, number, [](Json& json) { json["commit"]["participants"].erase(0); });
    CHECK(Finds(Audited(journal), number, "rounds", "not the 2 of plan 1"));
  }
  SECTION("with one of them twice") {
    Edit(journal, number, [](Json& json) {
      json["commit"]["participants"].push_back(json["commit"]["participants"][0]);
    });
    CHECK(Finds(Audited(journal), number, "rounds"));
  }
  SECTION("with more tokens than a round has") {
    Edit(journal, number,
         [](Json& json) { json["commit"]["participants"][0]["tokens"] = 1 << 20; });
    CHECK(Finds(Audited(journal), number, "credit", "at most"));
  }
}

TEST_CASE("Audit: another base than the others' is named, unless its holder was put out",
          "[coordinator][audit][error]") {
  std::vector<std::string> journal = WholeRun();
  const int64_t number = Numbers(journal, "applied").back();
  NodeId liar;
  Edit(journal, number, [&](Json& json) {
    std::string digest = json["applied"]["base_digest"];
    digest[0] = digest[0] == 'a' ? 'b' : 'a';
    json["applied"]["base_digest"] = digest;
  });
  // Of two that differ the first reported counts.
  CHECK(Finds(Audited(journal), number, "digests", "the others"));
  const std::string of = Json::parse(At(journal, number)).at("node");
  for (int i = 0; i < 4; ++i) {
    if (Node(i).Hex() == of) liar = Node(i);
  }
  journal.push_back(LifeRecord(liar, false, true));
  CHECK(Audited(journal).found() == 0);
}

TEST_CASE("Audit: a flipped byte of a record is found or leaves the same facts",
          "[coordinator][audit][error]") {
  const std::vector<std::string> whole = WholeRun();
  const RunState facts = Audited(whole).state();
  int found = 0, tried = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (size_t at = i % 5; at < whole[i].size(); at += 29) {
      std::vector<std::string> journal = whole;
      journal[i][at] = static_cast<char>(journal[i][at] ^ 0x11);
      const JournalAudit audit = Audited(journal);
      ++tried;
      if (audit.found() > 0 || !audit.known().ok()) {
        ++found;
      } else if (audit.state().commits != facts.commits) {
        // Digests of deltas and tokens are facts of their own: the chain of the journal holds them.
        CHECK(audit.state().commits.size() == facts.commits.size());
      }
    }
  }
  CHECK(found > tried / 2);
}

TEST_CASE("Audit: microbatches that die with their stage-0 node are written off, each once",
          "[coordinator][audit]") {
  ServedRun run;
  run.Gather();
  for (int32_t m : {0, 1}) Report(run, 0, m);
  const NodeId dies = NodeOf(*run.state().plan, *HomeOf(*run.state().plan, 1, 0));
  const NodeId heir = run.Live(0)[0] == dies ? run.Live(0)[1] : run.Live(0)[0];
  const auto survivors = [&](Phase phase, int64_t step) {
    run.Pass(1);
    for (int i = 0; i < 4; ++i) {
      if (Node(i) != dies) run.From(i, Beat(phase, step));
    }
  };
  Report(run, 1, 1);
  for (int i = 0; i < 12; ++i) survivors(Phase::kTraining, 1);
  REQUIRE(run.Live(0) == std::vector<NodeId>{heir});
  CHECK(run.state().written_off.empty());

  survivors(Phase::kTraining, 2);  // past step 1 without microbatch 0

  CHECK(run.state().written_off == std::map<int64_t, std::set<int32_t>>{{1, {0}}});
  CHECK(run.Fold() == run.state());
  // Whoever says so now comes too late: it was said that nobody will be credited.
  run.From(heir, StepReport{1, {{0, 8, 5.0f}}});
  CHECK_FALSE(run.state().losses.at(1).by_microbatch.contains(0));
  run.Restart();
  for (int32_t stage : {0, 1}) Freeze(run, stage, 0);
  for (int64_t step : {2, 3}) {
    for (int32_t m : {0, 1}) Report(run, step, m);
  }
  for (int32_t stage : {0, 1}) Freeze(run, stage, 1);
  Finish(run);
  const JournalAudit audit = Audited(run.journal);
  INFO(AuditText(audit));
  CHECK(audit.found() == 0);
  CHECK(audit.counts().samples == 7);
  CHECK(audit.counts().written_off == 1);

  std::vector<std::string> journal = run.journal;
  const int64_t number = Numbers(journal, "written_off").at(0);
  SECTION("written off and credited") {
    Edit(journal, number, [](Json& json) { json["step"] = 0; });
    CHECK(Finds(Audited(journal), number, "samples", "written off and credited"));
  }
  SECTION("written off twice") {
    journal.insert(journal.begin() + number, At(journal, number));
    CHECK(Finds(Audited(journal), number + 1, "samples", "written off twice"));
  }
  SECTION("never written off") {
    journal.erase(journal.begin() + number - 1);
    CHECK(Finds(Audited(journal), 0, "samples", "neither credited nor written off"));
  }
}

TEST_CASE("Audit: nothing is written off where no stage-0 node was lost",
          "[coordinator][audit][error]") {
  std::vector<std::string> journal = WholeRun();
  const int64_t number = Numbers(journal, "losses").at(3);
  At(journal, number) = WrittenOffRecord(1, {1});
  CHECK(Finds(Audited(journal), number, "samples", "0 stage-0 nodes lost"));
}

TEST_CASE("Audit: what only a newer program knows is said, and is no contradiction",
          "[coordinator][audit]") {
  std::vector<std::string> journal = WholeRun();
  const auto at = static_cast<int64_t>(journal.size()) / 2;
  journal.insert(journal.begin() + at, R"({"kind":"from the future"})");

  const JournalAudit audit = Audited(journal);

  CHECK(audit.found() == 0);
  CHECK(absl::IsFailedPrecondition(audit.known()));
  CHECK(std::string(audit.known().message()).find(absl::StrFormat("record %d", at + 1)) !=
        std::string::npos);
  CHECK(Audited(WholeRun()).known().ok());
}
