// `join --devices`, as volunteers run it: real programs, a whole run.
#include "tests/node/small_run.h"

namespace skerry {

TEST_CASE("Devices: a node of two trains a run, bit for bit as they do in one process",
          "[node][processes]") {
  const SmallRun here;
  const std::string said = here.Train({"--devices", "cpu,cpu"});
  INFO(said);
  CHECK(said.find("training uses cpu, cpu") != std::string::npos);
  CHECK(said.find("2 × ") != std::string::npos);
  const auto two = here.Reference("cpu,cpu", "two"), one = here.Reference("cpu", "one");
  CHECK(here.Weights("run/model") == here.Weights("two"));
  CHECK(here.Weights("run/model") != here.Weights("one"));  // sums of other roundings
  CHECK(std::abs(two["loss"].get<double>() - one["loss"].get<double>()) < 1e-4);
}

TEST_CASE("Devices: doctor says what they are together, and what is no device",
          "[node][processes]") {
  const SmallRun here;
  const std::string said =
      here.Run({"skerry-node", "doctor", "--devices", "cpu,cpu", "--home", here.Path("home")});
  CHECK(said.find("together") != std::string::npos);
  CHECK(said.find("2 × ") != std::string::npos);
  ChildProcess wrong = here.Start({"skerry-node", "join", "skerry1-x", "--home", here.Path("home"),
                                   "--devices", "cpu", "--device", "cpu"},
                                  "wrong.log");
  CHECK(wrong.Wait() != "exit code 0");
  CHECK(TextOf(here.at / "wrong.log").find("excludes") != std::string::npos);
}

}  // namespace skerry
