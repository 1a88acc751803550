// GPUs that do not work, and one that fails while it trains, by the real programs: the plug-in is
// the CUDA text on fibers of the processor.
#include "node/device_choice.h"
#include "tests/node/small_run.h"

namespace skerry {
namespace {

// What the fibers' plug-in is told of its GPUs.
struct Gpus {
  explicit Gpus(const char* count) {
    setenv("SKERRY_CUDA_PLUGIN", SKERRY_FIBERS_PLUGIN, 1);
    setenv("SKERRY_FIBER_GPUS", count, 1);
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;
  ~Gpus() {
    for (const char* name : {"SKERRY_FIBER_GPUS", kBroken, kFails}) unsetenv(name);
  }
  static constexpr char kBroken[] = "SKERRY_FIBER_GPU_BROKEN", kFails[] = "SKERRY_FIBER_GPU_FAILS";
};

// A run that keeps checkpoints, in which that GPU fails when there is one: what the node said.
std::string RunInWhichFails(int gpu, const std::string& end) {
  std::string run = kSmallRun;
  run.replace(run.find("steps = 12"), 10, "steps = 24");
  const SmallRun here("[checkpoint]\nevery_rounds = 1", run);
  const std::string file = here.Path("fail");
  setenv(Gpus::kFails, absl::StrFormat("%d %s", gpu, file).c_str(), 1);
  ChildProcess coordinator = here.Serve();
  ChildProcess node = here.Join({"--devices", "all"});
  WaitFor(here.at / "run/events.jsonl", "\"kind\":\"checkpoint\"", coordinator);
  std::ofstream(file) << "now";
  CHECK(node.Wait() == end);
  if (end == "exit code 0") CHECK(coordinator.Wait() == "exit code 0");
  return TextOf(here.at / "node.log");
}

}  // namespace

TEST_CASE("GPU failure: of all GPUs those that work are used, and the others named",
          "[cuda][node]") {
  const Gpus gpus("4");
  setenv(Gpus::kBroken, "0", 1);
  const auto chosen = ChooseDevices("all", DeviceWish::kAuto, 1, {2});
  REQUIRE(chosen.ok());
  CHECK(DevicesText(*chosen) ==
        "cuda:1, cuda:3: all GPUs that work; not cuda:0: GPU 0: it is broken; not cuda:2: it has "
        "failed");
  const auto one = ChooseDevice(DeviceWish::kAuto, 1);
  REQUIRE(one.ok());
  CHECK(one->index == 1);

  const auto listed = ChooseDevices("cuda:1,cuda:3,cpu", DeviceWish::kAuto, 1, {3});
  REQUIRE(listed.ok());
  CHECK(DevicesText(*listed) == "cuda:1, cpu: as asked for");
  CHECK(absl::IsUnavailable(ChooseDevices("cuda:1", DeviceWish::kAuto, 1, {1}).status()));
  CHECK(absl::IsUnavailable(ChooseDevices("cuda:0", DeviceWish::kAuto, 1).status()));
}

TEST_CASE("GPU failure: a node goes on without a GPU that failed", "[cuda][node][processes]") {
  const Gpus gpus("2");
  const std::string said = RunInWhichFails(1, "exit code 0");
  INFO(said);
  CHECK(said.find("training uses cuda:0, cuda:1: all GPUs that work") != std::string::npos);
  CHECK(said.find("cuda:1 has failed: it fell off the bus; joining again without it") !=
        std::string::npos);
  CHECK(said.find("training uses the GPU: all GPUs that work; not cuda:1: it has failed") !=
        std::string::npos);
}

TEST_CASE("GPU failure: a node whose only device failed ends and says so",
          "[cuda][node][processes]") {
  const Gpus gpus("1");
  CHECK(RunInWhichFails(0, "exit code 1")
            .find("cuda:0 has failed: it fell off the bus, and there is no other device") !=
        std::string::npos);
}

}  // namespace skerry
