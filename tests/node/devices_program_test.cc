// `join --devices`, as volunteers run it: real programs, a whole run.
#include "pipeline/plan/node_memory.h"
#include "tests/node/small_run.h"
#include "wire/config.h"

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

TEST_CASE("Devices: a node whose devices share tensors trains a run, as they do in one process",
          "[node][processes]") {
  std::string run = kSmallRun;
  const std::string odd = "kv_heads = 1";
  const std::string ladder = GENERATE("", "\nladder = 2");
  run.replace(run.find(odd), odd.size(), "kv_heads = 2" + ladder);
  const SmallRun here("", run);
  const std::string said = here.Train({"--devices", "cpu,cpu", "--split", "tensors"});
  INFO(said);
  const auto split = here.Reference("cpu,cpu", "split", "tensors"),
             one = here.Reference("cpu", "one");
  CHECK(here.Weights("run/model") == here.Weights("split"));
  CHECK(here.Weights("run/model") != here.Weights("one"));
  CHECK(std::abs(split["loss"].get<double>() - one["loss"].get<double>()) < 1e-4);
}

TEST_CASE("Devices: a node whose devices have no room for a stage each shares its tensors unasked",
          "[node][processes]") {
  std::string run = kSmallRun;  // large weights, small activations
  for (const auto& [line, wide] :
       std::vector<std::pair<std::string, std::string>>{{"hidden = 32", "hidden = 128"},
                                                        {"kv_heads = 1", "kv_heads = 2"},
                                                        {"ffn = 64", "ffn = 512"},
                                                        {"context = 32", "context = 8"},
                                                        {"microbatch = 4", "microbatch = 2"}}) {
    run.replace(run.find(line), line.size(), wide);
  }
  const SmallRun here("", run);
  MemoryOffer offer = {1, 0, 2};
  offer.split = DeviceSplit::kTensors;
  const RunConfig config = *LoadRunConfig(here.Path("run.toml"));
  const int64_t each = MemoryIn(config, 2, true, HoldsOf(config, 1, 1, true), offer).each.needed();
  REQUIRE_FALSE(CanHold(config, 2, true, HoldsOf(config, 1, 1, true), {each, 0, 2}));
  const std::string said = here.Train({"--devices", "cpu,cpu", "--memory", GibText(2 * each)});
  INFO(said);
  CHECK(said.find("devices_share tensors") != std::string::npos);
  const std::string planned = here.Run({"skerry-coordinator", "plan", here.Path("run")});
  INFO(planned);
  CHECK(planned.find("tensors shared by its devices") != std::string::npos);
  here.Reference("cpu,cpu", "split", "tensors");
  CHECK(here.Weights("run/model") == here.Weights("split"));
}

TEST_CASE("Devices: a model whose tensors they cannot share is refused, and so is another word",
          "[node][processes]") {
  const SmallRun here;
  ChildProcess coordinator = here.Serve();
  ChildProcess node = here.Join({"--devices", "cpu,cpu", "--split", "tensors"});
  CHECK(node.Wait() == "exit code 1");
  CHECK(TextOf(here.at / "node.log").find("multiples of 2, and this run's model has 2, 1 and 64") !=
        std::string::npos);
  ChildProcess wrong = here.Join({"--devices", "cpu,cpu", "--split", "layers"});
  CHECK(wrong.Wait() != "exit code 0");
  const std::string said = TextOf(here.at / "node.log");
  INFO(said);
  CHECK(said.find("--split: layers not in {auto,sequences,tensors}") != std::string::npos);
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
