#include "sim/soak.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/status.h"
#include "model/file_io.h"
#include "model/text_source.h"
#include "sim/out_directory.h"
#include "sim/scenario.h"
#include "sim/soak_leg.h"
#include "wire/wakeup.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kNodes = 7;  // three stages of two replicas, and a spare
constexpr int64_t kStepsOfLeg = 1200;
constexpr Duration kUndisturbedMax = Duration::Seconds(600);
constexpr size_t kTextBytes = 6'000'000;

// The beginning of the text, in a file that every leg's shards are made of. Real text: of one that
// is made up, learnt in leaps, any disturbance moves the loss by four percent either way.
absl::Status CutText(const std::string& from, const fs::path& to) {
  if (!fs::exists(from)) {
    return NotFound(
        "training text %s is not here: name one with --text, or apt-get install dict-gcide", from);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(from));
  std::string text;
  while (text.size() < kTextBytes) {
    SKERRY_ASSIGN_OR_RETURN(const std::string piece, source->Next());
    if (piece.empty()) break;
    text += piece;
  }
  text.resize(std::min(text.size(), kTextBytes));
  return ReplaceText(to, text);
}

// One region a process, all alike: near enough to train fast, far enough to be a network.
std::string ScenarioText() {
  std::string text = "name = \"soak\"\ntext = \"text.txt\"\nregions = [\"hub\"";
  for (int32_t node = 1; node <= kNodes; ++node) text += absl::StrFormat(", \"place%d\"", node);
  text += "]\n[pair_default]\nrtt_ms = 4\nunlimited = true\nflow_cap_mbps = 500\n";
  text += "[coordinator]\nregion = \"hub\"\n[run]\nsteps = 16\nnodes_min = 2\n";
  for (int32_t node = 1; node <= kNodes; ++node) {
    text += absl::StrFormat("[[nodes]]\nregion = \"place%d\"\n", node);
  }
  return text;
}

RunConfig SoakRun(int64_t steps) {
  RunConfig run;
  run.name = "soak";
  run.steps = steps;
  run.nodes_min = kNodes - 1;
  run.heartbeat_s = 0.5;
  run.node_silent_s = 4;
  run.replan_s = 20;
  run.model.hidden = 64;
  run.model.layers = 6;
  run.model.heads = 4;
  run.model.kv_heads = 2;
  run.model.ffn = 128;
  run.model.context = 64;
  // Twice the rate and a third of the warm-up leap to a loss of 7 for a step around step 35, and
  // what comes of it depends on the last bits.
  run.inner.learning_rate = 1e-3f;
  run.inner.min_learning_rate = 1e-4f;
  run.inner.warmup_steps = 60;
  run.outer.inner_steps = 8;
  run.outer.overlap_steps = 2;
  run.pipeline.stages = 3;
  run.pipeline.skip_ratio = 0;
  run.pipeline.sequences_per_microbatch = 2;
  return run;
}

// Everything that all legs share.
struct Ground {
  std::unique_ptr<EmulatedNetwork> network;
  SoakFleetOptions fleet;
  std::string not_drawn;
};

absl::StatusOr<Ground> Prepare(const SoakOptions& options) {
  Ground ground;
  const fs::path out = fs::absolute(options.out_dir);
  std::error_code error;
  if (!fs::is_regular_file(options.text_file, error)) {
    return NotFound("--text %s: no such file; want one of text to train on", options.text_file);
  }
  SKERRY_RETURN_IF_ERROR(PrepareOut(out, {"soak", {"leg"}, {"data", "leg"}}));
  for (const auto& entry : fs::directory_iterator(out, error)) {
    if (entry.path().filename().string().starts_with("complaints-of-leg-"))
      fs::remove_all(entry.path(), error);
  }
  if (error) return Unavailable("%s: %s", out.string(), error.message());
  SKERRY_RETURN_IF_ERROR(CutText(options.text_file, out / "text.txt"));
  SKERRY_RETURN_IF_ERROR(
      RunAndCapture({options.programs_dir + "/skerry-coordinator", "data", "prepare",
                     (out / "text.txt").string(), "--out", (out / "data").string()})
          .status());
  SKERRY_ASSIGN_OR_RETURN(const Scenario scenario,
                          ParseScenario(ScenarioText(), (out / "scenario.toml").string()));
  SKERRY_ASSIGN_OR_RETURN(ground.network, EmulatedNetwork::Create(scenario, options.shaper,
                                                                  (out / "wan.toml").string()));
  if (!ground.network->is_packets()) ground.not_drawn = "cuts (no network namespaces)";
  ground.fleet.programs_dir = options.programs_dir;
  ground.fleet.other_programs_dir = options.other_programs_dir;
  ground.fleet.shards = (out / "data").string();
  ground.fleet.directory = (out / "leg").string();
  ground.fleet.nodes = kNodes;
  ground.fleet.run = SoakRun(options.steps > 0 ? options.steps : kStepsOfLeg);
  const absl::Status mounts = options.small_disks ? EnterMountNamespace() : absl::OkStatus();
  ground.fleet.small_disks = options.small_disks && mounts.ok();
  if (!ground.fleet.small_disks) {
    if (!ground.not_drawn.empty()) ground.not_drawn += "; ";
    ground.not_drawn += "full disks (" + (mounts.ok() ? "not asked for" : ErrorText(mounts)) + ")";
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return ground;
}

}  // namespace

namespace {

// Undisturbed, in pairs: the one with checkpoints first in every other pair, so that a machine that
// gets slower favours neither.
absl::Status CompareCheckpoints(const SoakOptions& options, const Ground& ground,
                                SoakResult* result, const volatile bool& interrupted) {
  for (int32_t i = 0; i < 2 * options.checkpoint_pairs; ++i) {
    SoakLegOptions leg{0, options.seed, kUndisturbedMax, options.quiet, ground.fleet};
    const bool with = (i / 2 % 2 == 0) == (i % 2 == 1);
    leg.fleet.run.checkpoint = with ? kInitialCheckpoints : CheckpointConfig{0, 2};
    SKERRY_ASSIGN_OR_RETURN(SoakLeg done, RunSoakLeg(leg, *ground.network, interrupted));
    if (!options.quiet) {
      std::printf("%-19s training %.2f s, %d steps, loss %.4f\n",
                  with ? "with checkpoints" : "without", done.training_s,
                  static_cast<int>(done.steps), done.loss);
      std::fflush(stdout);
    }
    result->legs.push_back(std::move(done));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SoakResult> Soak(const SoakOptions& options, const volatile bool& interrupted) {
  SKERRY_ASSIGN_OR_RETURN(const Ground ground, Prepare(options));
  SoakResult result;
  result.seed = options.seed;
  result.network = ground.network->Name();
  result.not_drawn = ground.not_drawn;
  const auto say = [&](const std::string& line) {
    if (options.quiet) return;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  say(absl::StrFormat("soak with seed %d: %d nodes, %d steps a leg, %s", options.seed, kNodes,
                      ground.fleet.run.steps, result.network));
  if (!result.not_drawn.empty()) say("not drawn here: " + result.not_drawn);
  if (options.checkpoint_pairs > 0) {
    SKERRY_RETURN_IF_ERROR(CompareCheckpoints(options, ground, &result, interrupted));
    return result;
  }
  SoakLegOptions leg{0, options.seed, kUndisturbedMax, options.quiet, ground.fleet};
  const Instant disturbed_from = MonotonicNow();
  Duration first;
  for (int32_t number = 0;; ++number) {
    const double spent_s = (MonotonicNow() - disturbed_from).seconds() - first.seconds();
    const bool over = options.legs > 0 ? number > options.legs : spent_s >= options.minutes * 60;
    if (number > 0 && over) break;
    leg.number = number;
    say(number == 0 ? "leg 0: undisturbed" : absl::StrFormat("leg %d", number));
    const Instant began = MonotonicNow();
    SKERRY_ASSIGN_OR_RETURN(SoakLeg done, RunSoakLeg(leg, *ground.network, interrupted));
    if (number == 0) {
      first = MonotonicNow() - began;
      leg.limit = first * 6 + Duration::Seconds(120);
      leg.loss_goal = kSoakLossGoal * done.loss;
    }
    say(absl::StrFormat("leg %d: %.0f s, %d steps, %d rounds, %d digests, loss %.4f, %d complaints",
                        number, done.seconds, done.steps, done.rounds, done.digests, done.loss,
                        done.complaints.size()));
    result.legs.push_back(std::move(done));
    if (number == 0 && result.legs.front().loss <= 0) break;  // nothing to compare with
  }
  return result;
}

}  // namespace skerry
