// A simulated run of every mode against the same replicas in one process, driven by OuterSchedule:
// the same tokens give the same losses and the same base, bit for bit.
#include <catch2/catch.hpp>
#include <cstring>

#include "common/round_clock.h"
#include "localsgd/outer_fragments.h"
#include "model/stage_trainer.h"
#include "pipeline/plan/route.h"
#include "tests/sim/cluster.h"

using namespace skerry;
using skerry::testing::Cluster;

namespace {

struct Replica {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<StageTrainer> trainer;
  std::unique_ptr<OuterFragments> rounds;
  std::vector<float> theta;
  int32_t counted = 0;  // microbatches of the step
  int64_t tokens = 0;
  std::map<int32_t, int64_t> tokens_before = {};  // at the last boundary, by fragment
};

struct Sent {
  int64_t tokens = 0;
  Bytes message;
};

// One stage, whose replicas compute what the plan leads through them.
class InOneProcess {
 public:
  InOneProcess(const RunConfig& config, const PipelinePlan& plan)
      : config_(config), plan_(plan), source_(config), law_(*OuterLaw::Of(config.outer)) {
    for (size_t r = 0; r < plan.stages[0].replicas.size(); ++r) {
      Replica replica{CreateReferenceBackend(), nullptr, nullptr, {}};
      replica.trainer =
          *StageTrainer::Create(config, 0, config.model.layers, true, replica.backend.get());
      replica.theta.resize(static_cast<size_t>(replica.trainer->layout().size()));
      replica.trainer->ReadParameters(replica.theta);
      std::vector<int64_t> blocks;
      for (const auto& block : replica.trainer->layout().blocks()) blocks.push_back(block.size);
      replica.rounds = std::make_unique<OuterFragments>(law_, blocks, replica.theta);
      replicas_.push_back(std::move(replica));
    }
  }

  void Train() {
    const OuterSchedule schedule(law_);
    for (int64_t step = 0; step < config_.steps; ++step) {
      for (int32_t m = 0; m < config_.pipeline.microbatches_per_step; ++m) {
        Compute(replicas_[static_cast<size_t>(HomeOf(plan_, step, m)->replica)], step, m);
      }
      for (Replica& replica : replicas_) {
        REQUIRE(replica.trainer->OptimizerStep(step, std::exchange(replica.counted, 0)).ok());
      }
      for (const OuterAction& action : schedule.After(step + 1)) Take(action);
    }
    for (const OuterAction& action : schedule.AtEnd(config_.steps)) Take(action);
  }

  std::vector<float> Base(size_t replica) const {
    std::vector<float> base(replicas_[replica].theta.size());
    replicas_[replica].rounds->ReadBase(base);
    return base;
  }
  const std::map<int64_t, std::map<int32_t, float>>& losses() const { return losses_; }

 private:
  void Compute(Replica& replica, int64_t step, int32_t m) {
    const auto count =
        static_cast<size_t>(config_.pipeline.sequences_per_microbatch * config_.model.context);
    std::vector<int32_t> tokens(count), targets(count);
    std::vector<float> stream(count * static_cast<size_t>(config_.model.hidden));
    std::vector<float> gradient(stream.size());
    REQUIRE(source_.Read(step, m, tokens, targets).ok());
    StageTrainer& trainer = *replica.trainer;
    REQUIRE(trainer.ForwardFirst({step, m}, tokens, stream).ok());
    losses_[step][m] = *trainer.Loss({step, m}, stream, targets, gradient);
    REQUIRE(trainer.Backward({step, m}, gradient, {}).ok());
    trainer.Accumulate({step, m});
    ++replica.counted;
    replica.tokens += static_cast<int64_t>(count);
  }

  void Take(const OuterAction& action) {
    std::vector<Sent>& sent = sent_[{action.fragment, action.round}];
    for (size_t r = 0; r < replicas_.size(); ++r) {
      Replica& replica = replicas_[r];
      replica.trainer->ReadParameters(replica.theta);
      if (action.kind == OuterAction::Kind::kEncode) {
        int64_t& before = replica.tokens_before[action.fragment];
        sent.push_back({replica.tokens - std::exchange(before, replica.tokens),
                        **replica.rounds->Encode(action.fragment, replica.theta)});
        replica.trainer->WriteParameters(replica.theta);
        continue;
      }
      std::vector<OuterReplica::Accepted> accepted;
      for (size_t o = 0; o < sent.size(); ++o) {
        accepted.push_back({sent[o].tokens, sent[o].message, o == r});
      }
      const bool restarts = action.kind == OuterAction::Kind::kRestart;
      REQUIRE((restarts ? replica.rounds->Restart(action.fragment, replica.theta)
                        : replica.rounds->Apply(action.fragment, accepted, replica.theta))
                  .ok());
      replica.trainer->WriteParameters(replica.theta);
    }
  }

  RunConfig config_;
  PipelinePlan plan_;
  MadeUpText source_;
  OuterLaw law_;
  std::vector<Replica> replicas_;
  std::map<std::pair<int32_t, int64_t>, std::vector<Sent>> sent_;  // by fragment and round
  std::map<int64_t, std::map<int32_t, float>> losses_;
};

}  // namespace

TEST_CASE("Modes: a simulated run is bit for bit that of replicas in one process", "[modes]") {
  const auto mode = GENERATE(OuterMode::kOverlap, OuterMode::kSynchronous, OuterMode::kCo2,
                             OuterMode::kStreaming, OuterMode::kDataParallel);
  Cluster::Options options;
  options.nodes = 3;
  options.loss = 0.02;
  options.config.pipeline.stages = 1;
  options.config.pipeline.skip_ratio = 0;
  options.config.pipeline.microbatches_per_step = 6;
  OuterConfig& outer = options.config.outer;
  outer.mode = mode;
  outer.inner_steps = mode == OuterMode::kDataParallel ? 1 : 4;
  outer.overlap_steps = mode == OuterMode::kDataParallel ? 0 : 3;
  outer.fragments = 3;
  outer.momentum_clip = 0.02f;
  outer = EffectiveOuter(outer);
  Cluster cluster(options);

  REQUIRE(cluster.RunToTheEnd());

  const RunState state = cluster.State();
  InOneProcess expected(options.config, *state.plan);
  expected.Train();
  INFO("mode " << static_cast<int>(mode));
  for (const auto& [step, losses] : expected.losses()) {
    for (const auto& [m, loss] : losses) {
      CHECK(state.losses.at(step).by_microbatch.at(m).loss == loss);
    }
  }
  const Bytes& bytes = cluster.model.stages.at(0);
  for (size_t replica = 0; replica < 3; ++replica) {
    const std::vector<float> base = expected.Base(replica);
    REQUIRE(bytes.size() == base.size() * sizeof(float));
    CHECK(std::memcmp(bytes.data(), base.data(), bytes.size()) == 0);
  }
}
