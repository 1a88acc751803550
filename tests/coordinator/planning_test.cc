// From the first node to the first plan: probes, retries, planning.

#include "coordinator/screen.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

std::vector<std::pair<NodeId, NodeId>> AskedProbes(const ServedRun& run) {
  std::vector<std::pair<NodeId, NodeId>> asked;
  for (const auto& [to, message] : run.context.sends) {
    if (const auto* request = std::get_if<ProbeRequest>(&message)) {
      asked.emplace_back(to, request->target);
    }
  }
  return asked;
}

}  // namespace

TEST_CASE("A node is in one probe at a time, and every ordered pair is measured once",
          "[coordinator]") {
  ServedRun run;
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  std::set<std::pair<NodeId, NodeId>> seen;
  run.Pass(1);
  for (int i = 0; i < 12; ++i) {
    std::set<NodeId> busy;
    const auto asked = AskedProbes(run);
    REQUIRE(!asked.empty());
    run.TakeSends();
    for (const auto& [from, target] : asked) {
      CHECK(busy.insert(from).second);
      CHECK(busy.insert(target).second);
      CHECK(seen.insert({from, target}).second);
    }
    for (const auto& [from, target] : asked) run.From(from, LinkReading{target, 0.01, 1e6});
    if (seen.size() == 12) break;
  }
  CHECK(seen.size() == 12);
  CHECK(run.state().links.size() == 12);
}

TEST_CASE("A pair that does not answer is asked again after the others, then planned around",
          "[coordinator]") {
  ServedRun run;
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  int in_vain = 0;
  std::vector<int64_t> padding;  // of the one that does not: its line may be slow
  for (int second = 0; second < 60 && !run.state().plan; ++second) {
    run.Pass(1);
    for (bool asked = true; asked;) {
      const auto probes = AskedProbes(run);
      for (const auto& [to, message] : run.TakeSends()) {
        const auto* request = std::get_if<ProbeRequest>(&message);
        if (request && to == Node(0) && request->target == Node(1))
          padding.push_back(request->bytes);
      }
      asked = !probes.empty();
      for (const auto& [from, target] : probes) {
        if (from == Node(0) && target == Node(1)) {
          ++in_vain;
        } else {
          run.From(from, LinkReading{target, 0.01, 1e6});
        }
      }
    }
    for (int i = 0; i < 4; ++i) run.From(i, DeltaHeld{});  // alive
    run.RunJobs();
  }
  REQUIRE(in_vain >= 3);
  CHECK(padding[1] == padding[0] / 4);
  CHECK(padding[2] == padding[0] / 16);
  CHECK(run.state().links.size() == 11);
  // Either a plan that does without the link, or a reason for people; never a dead coordinator.
  CHECK((run.state().plan.has_value() || run.CountEvents("no_plan") == 1));
  CHECK_FALSE(run.context.stopped);
}

TEST_CASE("A cut that made a plan impossible ends: its pairs are asked again until there is one",
          "[coordinator]") {
  RunConfig config = SmallRun();
  config.nodes_min = 2;
  ServedRun run(config);
  for (int i = 0; i < 2; ++i) run.From(i, ServedRun::HelloOf(i));
  const auto pass = [&](bool cut) {
    run.Pass(1);
    for (bool asked = true; asked;) {
      const auto probes = AskedProbes(run);
      run.TakeSends();
      asked = !probes.empty() && !cut;
      for (const auto& [from, target] : probes)
        if (!cut) run.From(from, LinkReading{target, 0.01, 1e6});
    }
    for (int i = 0; i < 2; ++i) run.From(i, DeltaHeld{});  // alive
    run.RunJobs();
  };
  for (int second = 0; second < 200; ++second) pass(true);
  CHECK(run.CountEvents("no_plan") == 1);  // told once, however often the pairs are asked

  for (int second = 0; second < 60 && !run.state().plan; ++second) pass(false);
  CHECK(run.state().plan);
}

// Seed 102 of the swarm's fourth draw: no link is new then, so nothing seemed to have changed.
TEST_CASE("A cut during the second reading of a doubted link ends: there is a plan then",
          "[coordinator]") {
  RunConfig config = SmallRun();
  config.nodes_min = 6;
  config.pipeline.stages = 1;  // where all replicas need each other
  ServedRun run(config);
  run.ticket_uses = 6;
  for (int i = 0; i < 6; ++i) run.From(i, ServedRun::HelloOf(i));
  bool cut = false;
  const auto pass = [&] {
    run.Pass(1);
    for (bool asked = true; asked;) {
      const auto probes = AskedProbes(run);
      run.TakeSends();
      asked = false;
      for (const auto& [from, target] : probes) {
        const bool doubted = from == Node(0) && target == Node(1);
        if (doubted && cut) continue;
        if (doubted) cut = true;
        run.From(from, LinkReading{target, 0.02, doubted ? 2e4 : 2e7});
        asked = true;
      }
    }
    for (int i = 0; i < 6; ++i) run.From(i, DeltaHeld{});  // alive
    run.RunJobs();
  };
  for (int second = 0; second < 200; ++second) pass();
  REQUIRE(run.CountEvents("doubted") > 0);
  REQUIRE_FALSE(run.state().plan);

  for (int second = 0; second < 60 && !run.state().plan; ++second) {
    cut = false;
    pass();
  }
  CHECK(run.state().plan);
}

TEST_CASE("With nodes_min nodes and all links measured there is a plan, journalled and sent",
          "[coordinator]") {
  ServedRun run;
  run.Gather();

  REQUIRE(run.state().plan);
  CHECK(run.state().plan->version == 1);
  CHECK(run.state().plan->stages.size() == 2);
  CHECK(run.Fold() == run.state());
  for (int i = 0; i < 4; ++i) CHECK(run.SentTo<PlanUpdate>(Node(i)).size() == 1);
  const auto event = run.LastEvent("plan");
  CHECK(event["version"] == 1);
  CHECK(event["stages"][0]["replicas"].size() == 2);
  CHECK(event["predicted_step_s"].get<double>() >= event["lower_bound_s"].get<double>());
}

TEST_CASE("One node short there is no plan", "[coordinator]") {
  ServedRun run;
  run.Gather(3);
  run.Pass(1);
  CHECK(run.context.jobs.empty());
  CHECK_FALSE(run.state().plan);
}

TEST_CASE("A node that dies while the plan is made is not in the plan that counts",
          "[coordinator]") {
  ServedRun run;
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  run.AnswerProbes();
  REQUIRE(run.context.jobs.size() == 1);

  run.From(3, skerry::Leave{"enough"});
  run.RunJobs();
  CHECK_FALSE(run.state().plan);

  run.From(4, ServedRun::HelloOf(4));  // the ticket has no use left
  CHECK(run.SentTo<Refused>(Node(4)).size() == 1);
  run.ticket_uses = 5;
  run.From(4, ServedRun::HelloOf(4));
  run.AnswerProbes();
  run.RunJobs();
  REQUIRE(run.state().plan);
  CHECK_FALSE(run.actor->state().plan->stages.empty());
  for (const auto& stage : run.state().plan->stages) {
    CHECK(std::count(stage.replicas.begin(), stage.replicas.end(), Node(3)) == 0);
  }
}

TEST_CASE("A fleet that allows no plan is told why, once, and may still grow", "[coordinator]") {
  RunConfig config = SmallRun();
  config.nodes_min = 1;
  ServedRun run(config);
  run.Gather(1);  // two stages want two nodes

  CHECK_FALSE(run.state().plan);
  CHECK_FALSE(run.context.stopped);
  CHECK(run.CountEvents("no_plan") == 1);
  run.Pass(5);
  run.RunJobs();
  CHECK(run.CountEvents("no_plan") == 1);
  const auto status = nlohmann::json::parse(run.status);
  CHECK(status["note"].get<std::string>() != "");
  CHECK(StatusLine(status).find("no plan yet: 2 stages need") == 0);

  run.From(1, ServedRun::HelloOf(1));
  run.AnswerProbes();
  run.RunJobs();
  CHECK(run.state().plan);
}

TEST_CASE("The line of a run says at its end what it waits for", "[coordinator]") {
  nlohmann::json status = {{"phase", "finished"},
                           {"version", 1},
                           {"nodes", nullptr},
                           {"bytes_sent", 0},
                           {"bytes_received", 0}};
  CHECK(StatusLine(status).find("finished  step") == 0);
  const auto node = [](int stage, bool alive, const char* waits) {
    return nlohmann::json{{"stage", stage}, {"alive", alive}, {"waiting_for", waits}};
  };
  status["nodes"] = {node(0, true, ""), node(-1, true, "a free place"), node(1, false, "commit")};
  CHECK(WaitingText(status).empty());  // a spare waits for nobody, and who is gone for nothing
  status["nodes"].push_back(node(1, true, "commit of round 3"));
  CHECK(WaitingText(status) == "1 of 2 wait, one for the commit of round 3");
  status["held_out_left_s"] = 40;
  CHECK(StatusLine(status).find("finished, its loss on held-out text is being read (40 s more at "
                                "most)  step") == 0);
}

namespace {

// Six nodes; the first link reads these, in bytes per second, one after the other, the others 2e7.
struct DoubtedLink {
  explicit DoubtedLink(std::vector<double> readings, double rtt_s = 0.02) {
    RunConfig config = SmallRun();
    config.nodes_min = 6;
    run.emplace(config);
    run->ticket_uses = 6;
    for (int i = 0; i < 6; ++i) run->From(i, ServedRun::HelloOf(i));
    run->Pass(0.1);
    for (bool asked = true; asked;) {
      const auto probes = AskedProbes(*run);
      run->TakeSends();
      asked = !probes.empty();
      for (const auto& [from, target] : probes) {
        const bool doubted = from == Node(0) && target == Node(1);
        if (doubted) ++times;
        const size_t last = std::min(times, readings.size()) - 1;
        run->From(from, LinkReading{target, rtt_s, doubted ? readings[last] : 2e7});
      }
    }
    run->RunJobs();
  }
  std::string Explanation() {
    REQUIRE(run->state().plan);
    return run->LastEvent("plan")["reason"];
  }
  std::optional<ServedRun> run;
  size_t times = 0;  // it was asked for
};

}  // namespace

TEST_CASE("A reading that the other links contradict is asked for again: a slip is outvoted",
          "[coordinator]") {
  DoubtedLink link({2e4, 2e7, 2e7});
  CHECK(link.times == 3);
  CHECK(link.run->CountEvents("doubted") == 2);
  CHECK(link.Explanation().find("not believed") == std::string::npos);
}

TEST_CASE("A reading that the other links contradict is believed when it repeats",
          "[coordinator]") {
  DoubtedLink link({2e4});
  CHECK(link.times == 3);
  CHECK(link.Explanation().find("not believed") == std::string::npos);
}

TEST_CASE("A link that reads otherwise every time is not believed, and holds up nobody",
          "[coordinator]") {
  DoubtedLink link({2e4, 1e2, 3e5});
  CHECK(link.times == 3);
  CHECK(link.Explanation().find("1 links read unlike all others") != std::string::npos);
}

TEST_CASE("A near link that is slower than its way back is measured again, and the best counts",
          "[coordinator]") {
  DoubtedLink link({1e7, 2e7}, 0.002);
  CHECK(link.times == 2);
  CHECK(link.run->CountEvents("doubted") == 1);
  const auto told = link.run->LastEvent("link");
  CHECK(told["from"] == Node(0).Short());
  CHECK(told["mbps"] == 160);
  CHECK(link.Explanation().find("not believed") == std::string::npos);
}

TEST_CASE("Of a near link's readings a later, slower one takes nothing away", "[coordinator]") {
  DoubtedLink link({1e7, 1.5e7, 1.2e7}, 0.002);
  CHECK(link.times == 3);
  CHECK(link.run->LastEvent("link")["mbps"] == 120);
  CHECK(link.run->state().links.at({Node(0), Node(1)}).bytes_per_s == 1.5e7);  // kept for a restart
}

TEST_CASE("A near link that is slower each time is so", "[coordinator]") {
  DoubtedLink link({1e7}, 0.002);
  CHECK(link.times == 3);
  CHECK(link.run->LastEvent("link")["mbps"] == 80);
  CHECK(link.Explanation().find("not believed") == std::string::npos);
}

TEST_CASE("An ordinary fleet is measured once", "[coordinator]") {
  DoubtedLink link({1e7});
  CHECK(link.times == 1);
  CHECK(link.run->CountEvents("doubted") == 0);
}
