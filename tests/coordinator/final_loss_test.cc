// The loss on held-out text at the end of a run of the programs themselves.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/siege/program_run.h"

using namespace skerry;
using nlohmann::json;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;

namespace {

constexpr int kSteps = 20;

}  // namespace

TEST_CASE("A run that ends says the loss of its model on held-out text, and says so once",
          "[coordinator]") {
  ProgramRun run(1, kSteps);
  run.Serve();
  const std::string ticket = run.Say({"ticket", run.Dir(), "--endpoint", run.Endpoint()});
  ChildProcess node = run.Join(ticket, "one");
  CHECK(run.coordinator->Wait() == "exit code 0");
  CHECK(node.Wait() == "exit code 0");

  const std::string log = TextOf(run.Log("coordinator"));
  INFO(log);
  CHECK(log.find("reading the loss of the finished model on held-out text") != std::string::npos);
  const json status = json::parse(run.Say({"status", run.Dir(), "--json"}));
  CHECK(status["phase"] == "finished");
  CHECK_FALSE(status.contains("held_out_left_s"));
  CHECK(status["held_out"]["step"] == kSteps);
  CHECK(status["held_out"]["tokens"] > 0);
  CHECK(status["held_out"]["loss"] < std::log(256.0));  // of a model that knows nothing
  json told = json::array();
  std::istringstream events(TextOf(run.at / "run" / "events.jsonl"));
  for (std::string line; std::getline(events, line);) {
    const json event = json::parse(line);
    if (event["kind"] == "held_out" && event.value("final", false)) told.push_back(event);
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0]["loss"] == status["held_out"]["loss"]);

  std::filesystem::remove(run.Log("coordinator"));
  run.Serve();  // a finished run: it is not read again
  CHECK(run.coordinator->Wait() == "exit code 0");

  CHECK(TextOf(run.Log("coordinator")).find("reading the loss") == std::string::npos);
}
