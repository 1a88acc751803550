// A served run whose checkpoints are kept in memory, for tests.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/digest.h"
#include "coordinator/checkpoint_archive.h"
#include "model/stage_state.h"
#include "tests/coordinator/served_run.h"

namespace skerry::testing {

inline RunConfig Checkpointed(int32_t least_s) {
  RunConfig config = SmallRun();
  config.steps = 12;  // rounds 0 to 5
  config.checkpoint = {1, 2, LostStage::kCheckpoint, least_s};
  return config;
}

// A run whose nodes keep and give what they are asked for.
class Kept {
 public:
  explicit Kept(int32_t least_s = 0)
      : archive_(std::make_unique<MemoryCheckpointFiles>(disk)), run(Checkpointed(least_s)) {
    run.checkpoints = &archive_;
    run.Restart();
  }

  // Two bytes tell stage and version, the rest is a state of that stage.
  Bytes StateOf(int32_t stage, int64_t round) const {
    const StageAssignment& of = run.state().plan->stages[static_cast<size_t>(stage)];
    const auto layout =
        ParameterLayout::ForStage(run.config.model, of.first_layer, of.last_layer, stage == 0);
    StageState state;
    state.version = round;
    state.base.assign(static_cast<size_t>(layout.size()), static_cast<float>(round + stage));
    state.momentum.assign(state.base.size(), 0.5f);
    Bytes bytes = EncodeState(state);
    bytes.resize(bytes.size() + static_cast<size_t>(more_bytes), static_cast<uint8_t>(stage));
    return bytes;
  }

  // Nodes of `gone` say nothing. Answers until nobody is asked anything.
  void Answer(const std::set<NodeId>& gone = {}) {
    for (bool asked = true; asked;) {
      run.RunJobs();
      asked = false;
      for (const auto& [to, message] : run.TakeSends()) {
        if (gone.contains(to)) continue;
        if (const auto* request = std::get_if<CheckpointRequest>(&message)) {
          wanted[request->stage] = {to, request->round};
        } else if (const auto* part = std::get_if<ObjectRequest>(&message)) {
          asked = true;
          Give(to, *part);
        }
      }
    }
  }

  // The stage's replica has come to the version it was asked for.
  void Reach(int32_t stage) {
    const auto [node, round] = wanted.at(stage);
    const Bytes state = StateOf(stage, round);
    CheckpointState listed{stage, round, std::ssize(state), {}};
    for (int64_t at = 0; at < std::ssize(state); at += kCheckpointChunkBytes) {
      const int64_t size = std::min(kCheckpointChunkBytes, std::ssize(state) - at);
      listed.chunks.push_back(
          DigestOf(std::span(state).subspan(static_cast<size_t>(at), static_cast<size_t>(size))));
    }
    run.From(node, listed);
  }

  void Give(const NodeId& to, const ObjectRequest& request) {
    for (const auto& [stage, asked] : wanted) {
      if (asked.first != to) continue;
      Bytes state = StateOf(stage, asked.second);
      if (to == liar) state[static_cast<size_t>(lie_at)] ^= 1;
      const auto begin = static_cast<ptrdiff_t>(request.offset);
      run.From(to, ObjectChunk{request.object, request.offset, static_cast<int64_t>(state.size()),
                               MakePayload(Bytes(state.begin() + begin,
                                                 state.begin() + begin + request.length))});
    }
  }

  void OneRound(int64_t round) {
    for (int32_t stage = 0; stage < 2; ++stage) {
      for (const NodeId& holder : run.Live(stage)) {
        for (const NodeId& sender : run.Live(stage)) run.From(holder, Held(stage, round, sender));
      }
    }
    for (int64_t step = 2 * round; step < 2 * round + 2; ++step) {
      run.From(run.Live(0)[0], StepReport{step, {{0, 8, 2.0f}, {1, 8, 2.0f}}});
    }
  }

  void MakeOne() {
    run.Pass(1);
    Answer();
    for (int32_t stage = 0; stage < 2; ++stage) Reach(stage);
    Answer();
  }

  std::shared_ptr<CheckpointDisk> disk = std::make_shared<CheckpointDisk>();
  std::map<int32_t, std::pair<NodeId, int64_t>> wanted;
  int64_t more_bytes = 0;  // behind the state of each stage
  NodeId liar;             // gives another byte there than it listed
  int64_t lie_at = 0;

 private:
  CheckpointArchive archive_;

 public:
  ServedRun run;
};

}  // namespace skerry::testing
