// Admission as operator and volunteer see it: the programs themselves.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/siege/program_run.h"

using namespace skerry;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;

namespace {

// The name that the waiting node prints.
std::string NameIn(const std::string& log) {
  const std::string before = "this node's name is ";
  const size_t at = log.find(before);
  REQUIRE(at != std::string::npos);
  return log.substr(at + before.size(), 64);
}

}  // namespace

TEST_CASE("Programs: a guest waits for approval, is admitted live, put out live, and let in again",
          "[security][admission]") {
  ProgramRun run(2, 200);  // a second node never comes: nobody trains
  run.Serve();
  const std::string guest =
      run.Say({"ticket", run.Dir(), "--approve", "--uses", "5", "--endpoint", run.Endpoint()});
  {
    ChildProcess node = run.Join(guest, "guest");
    WaitFor(run.Log("guest"), "waiting for the operator's approval", node);
    const std::string name = NameIn(TextOf(run.Log("guest")));
    const std::string asked = run.Say({"admission", run.Dir()});
    CHECK(asked.find("waiting for your approval: 1") != std::string::npos);
    CHECK(asked.find("  " + name.substr(0, 8)) != std::string::npos);
    CHECK(asked.find("guest  0 of 5") != std::string::npos);

    CHECK(run.Say({"admit", run.Dir(), name.substr(0, 8)}) == name.substr(0, 8) + " is admitted");
    WaitFor(run.at / "run" / "events.jsonl", "\"admitted\"", *run.coordinator);
    const auto shown = nlohmann::json::parse(run.Say({"admission", run.Dir(), "--json"}));
    CHECK(shown["waiting"].empty());
    CHECK(shown["tickets"][0]["used"] == 1);

    run.Say({"deny", run.Dir(), name.substr(0, 8), "--why", "it mines coins"});
    CHECK(node.Wait() == "exit code 2");
    CHECK(TextOf(run.Log("guest")).find("it mines coins") != std::string::npos);
  }
  ChildProcess again = run.Join(guest, "guest");
  CHECK(again.Wait() == "exit code 2");
  const std::string name = NameIn(TextOf(run.Log("guest")));

  run.Say({"forget", run.Dir(), name.substr(0, 12)});
  ChildProcess pardoned = run.Join(guest, "guest");
  WaitFor(run.at / "run" / "events.jsonl", "\"returned\"", *run.coordinator);
  CHECK(pardoned.Ended().empty());
  CHECK(run.Say({"audit", run.Dir()}).find("nothing contradicts") != std::string::npos);
}

TEST_CASE("Programs: a revoked ticket admits nobody, an order given beforehand holds when served",
          "[security][admission]") {
  ProgramRun run(2, 200);
  const std::string ticket =
      run.Say({"ticket", run.Dir(), "--uses", "3", "--endpoint", "tcp://127.0.0.1:1"});
  CHECK(run.Say({"revoke", run.Dir(), ticket, "--why", "it was posted"}).starts_with("noted: "));
  run.Serve();
  // The same ticket as it would be with the endpoint that is known by now.
  const std::string fresh = run.Say({"ticket", run.Dir(), "--uses", "3"});
  run.Say({"revoke", run.Dir(), fresh, "--why", "it was posted, too"});
  ChildProcess node = run.Join(fresh, "late");
  CHECK(node.Wait() == "exit code 2");
  CHECK(TextOf(run.Log("late")).find("it was posted, too") != std::string::npos);
  const auto shown = nlohmann::json::parse(run.Say({"admission", run.Dir(), "--json"}));
  REQUIRE(shown["tickets"].size() == 2);
  CHECK(shown["tickets"][0]["state"] == "revoked");
  CHECK(shown["tickets"][1]["state"] == "revoked");
}

// Four replicas of a stage sum a part each, and sign what they say of it.
TEST_CASE("Programs: who signs what it says of its sums stays in the run", "[security][sums]") {
  constexpr int kNodes = 4, kSteps = 40;
  ProgramRun run(kNodes, kSteps);
  run.Serve();
  const std::string ticket = run.Say({"ticket", run.Dir(), "--uses", std::to_string(kNodes)});
  std::vector<ChildProcess> nodes;
  for (int i = 0; i < kNodes; ++i) nodes.push_back(run.Join(ticket, "node" + std::to_string(i)));
  REQUIRE(run.coordinator->Wait() == "exit code 0");  // else nodes wait for it
  for (ChildProcess& node : nodes) CHECK(node.Wait() == "exit code 0");
  CHECK(TextOf(run.at / "run" / "events.jsonl").find("\"kind\":\"dead\"") == std::string::npos);
  CHECK(run.Say({"audit", run.Dir()}).find("nothing contradicts") != std::string::npos);
}
