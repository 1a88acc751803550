#include "bench/convergence_fleet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"
#include "localsgd/table_choice.h"

namespace skerry::bench {

std::vector<int64_t> BlocksOf(const TransformerConfig& model) {
  std::vector<int64_t> sizes;
  const ParameterLayout layout = ParameterLayout::ForModel(model);
  for (const ParameterBlock& block : layout.blocks()) sizes.push_back(block.size);
  return sizes;
}

namespace {

size_t At(int32_t index) {
  return static_cast<size_t>(index);
}

}  // namespace

absl::StatusOr<StackedModel> StackedModel::Create(const RunConfig& config, bool skips,
                                                  Backend* backend) {
  StackedModel model;
  model.layout_ = ParameterLayout::ForModel(config.model);
  const int32_t layers = config.model.layers;
  for (int32_t first = 0; first < layers;) {
    const int32_t last = skips ? first + 1 : layers;
    SKERRY_ASSIGN_OR_RETURN(auto trainer,
                            StageTrainer::Create(config, first, last, first == 0, backend));
    const auto size = static_cast<size_t>(trainer->layout().size());
    model.stages_.push_back({std::move(trainer), 0, std::vector<float>(size)});
    first = last;
  }
  const auto tokens = At(config.pipeline.sequences_per_microbatch) * At(config.model.context);
  model.stream_.resize(tokens * At(config.model.hidden));
  model.gradient_.resize(model.stream_.size());
  return model;
}

absl::StatusOr<float> StackedModel::Train(MicrobatchKey key, std::span<const int32_t> tokens,
                                          std::span<const int32_t> targets,
                                          std::span<const int32_t> left_out) {
  std::vector<Stage*> path;
  for (int32_t s = 1; s < stages(); ++s) {
    if (!std::binary_search(left_out.begin(), left_out.end(), s)) path.push_back(&stages_[At(s)]);
  }
  Stage& ends = stages_[0];
  SKERRY_RETURN_IF_ERROR(ends.trainer->ForwardFirst(key, tokens, stream_));
  for (Stage* stage : path) {
    SKERRY_RETURN_IF_ERROR(stage->trainer->Forward(key, stream_, stream_));
  }
  SKERRY_ASSIGN_OR_RETURN(const float loss, ends.trainer->Loss(key, stream_, targets, gradient_));
  std::reverse(path.begin(), path.end());
  for (Stage* stage : path) {
    SKERRY_RETURN_IF_ERROR(stage->trainer->Backward(key, gradient_, gradient_));
    stage->trainer->Accumulate(key);
    ++stage->microbatches;
  }
  SKERRY_RETURN_IF_ERROR(ends.trainer->Backward(key, gradient_, {}));
  ends.trainer->Accumulate(key);
  ++ends.microbatches;
  return loss;
}

absl::Status StackedModel::OptimizerStep(int64_t step) {
  for (Stage& stage : stages_) {
    SKERRY_RETURN_IF_ERROR(
        stage.trainer->OptimizerStep(step, std::exchange(stage.microbatches, 0)));
  }
  return absl::OkStatus();
}

void StackedModel::Read(std::span<float> parameters) {
  for (Stage& stage : stages_) {
    stage.trainer->ReadParameters(stage.arena);
    CopyTensors(stage.trainer->layout(), stage.arena, layout_, parameters);
  }
}

void StackedModel::Write(std::span<const float> parameters) {
  for (Stage& stage : stages_) {
    CopyTensors(layout_, parameters, stage.trainer->layout(), stage.arena);
    stage.trainer->WriteParameters(stage.arena);
  }
}

Fleet::Fleet(const RunConfig& config, const Training& training, const OuterLaw& law, uint64_t seed)
    : config_(config),
      training_(training),
      law_(law),
      schedule_(law),
      seed_(seed),
      backend_(CreateCpuBackend(1)),
      flights_(At(law.fragments)),
      rounds_accepted_(At(law.fragments), std::vector<int64_t>(At(training.replicas), 0)) {}

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::Create(const RunConfig& config,
                                                     const Training& training, const OuterLaw& law,
                                                     uint64_t seed) {
  std::unique_ptr<Fleet> fleet(new Fleet(config, training, law, seed));
  const std::vector<int64_t> blocks = BlocksOf(config.model);
  OuterLaw& shaped = fleet->law_;
  shaped.replica.shape = ShapeOf(ParameterLayout::ForModel(config.model));
  std::vector<float> start(static_cast<size_t>(ParameterLayout::ForModel(config.model).size()));
  const int32_t models = training.gradient_mean ? 1 : training.replicas;
  for (int32_t r = 0; r < models; ++r) {
    SKERRY_ASSIGN_OR_RETURN(auto model,
                            StackedModel::Create(config, training.skip > 0, fleet->backend_.get()));
    model.Read(start);
    const int64_t sharded_over = training.sharded ? training.replicas : 0;
    fleet->replicas_.push_back(
        {std::move(model), OuterFragments(shaped, blocks, start, sharded_over)});
    fleet->theta_.push_back(start);
  }
  fleet->MakeReducers();
  return fleet;
}

void Fleet::MakeReducers() {
  reducers_.clear();
  const OuterFragments& rounds = replicas_[0].rounds;
  for (int32_t f = 0; training_.sharded && f < rounds.count(); ++f) {
    const FragmentRange range = rounds.range(f);
    reducers_.emplace_back(
        law_.config, rounds.cut(f), law_.replica.nominal_tokens,
        std::make_shared<CodecBook>(law_.config, range.size, rounds.cut(f),
                                    SliceShape(law_.replica.shape, range.first, range.size)));
  }
}

// As many as the ratio asks for on average, in turn, so that all stages take part equally.
std::vector<int32_t> Fleet::LeftOut(int64_t step, int32_t replica) const {
  const int32_t later = replicas_[0].model.stages() - 1;
  std::vector<int32_t> out;
  if (later <= 0) return out;
  const int64_t index = step * training_.replicas + replica;
  const double each = training_.skip * later;
  const auto until = [&](int64_t i) { return std::llround(each * static_cast<double>(i)); };
  for (int64_t k = until(index); k < until(index + 1); ++k) {
    out.push_back(1 + static_cast<int32_t>(k % later));
  }
  std::sort(out.begin(), out.end());
  return out;
}

absl::Status Fleet::TrainAll(int64_t step, const TokenDataset& data) {
  std::vector<int32_t> tokens(At(config_.pipeline.sequences_per_microbatch) *
                              At(config_.model.context));
  std::vector<int32_t> targets(tokens.size());
  for (int32_t r = 0; r < training_.replicas; ++r) {
    StackedModel& model = replicas_[training_.gradient_mean ? 0 : At(r)].model;
    SKERRY_RETURN_IF_ERROR(data.ReadMicrobatch(config_, step, r, tokens, targets));
    SKERRY_ASSIGN_OR_RETURN(const float loss,
                            model.Train({step, r}, tokens, targets, LeftOut(step, r)));
    if (!std::isfinite(loss)) return InvalidArgument("step %d: the loss is not finite", step);
  }
  for (Replica& replica : replicas_) {
    SKERRY_RETURN_IF_ERROR(replica.model.OptimizerStep(step));
  }
  return absl::OkStatus();
}

absl::Status Fleet::Step(int64_t step, const TokenDataset& data) {
  SKERRY_RETURN_IF_ERROR(TrainAll(step, data));
  if (training_.gradient_mean) return absl::OkStatus();
  return Carry(schedule_.After(step + 1), step + 1, false);
}

absl::Status Fleet::Finish(int64_t steps_done) {
  if (training_.gradient_mean) return absl::OkStatus();
  return Carry(schedule_.AtEnd(steps_done), steps_done, true);
}

absl::Status Fleet::Carry(std::span<const OuterAction> actions, int64_t steps_done, bool last) {
  if (actions.empty()) return absl::OkStatus();
  for (size_t r = 0; r < replicas_.size(); ++r) replicas_[r].model.Read(theta_[r]);
  for (const OuterAction& action : actions) {
    switch (action.kind) {
      case OuterAction::Kind::kEncode:
        SKERRY_RETURN_IF_ERROR(EncodeAll(action));
        break;
      case OuterAction::Kind::kApply:
        SKERRY_RETURN_IF_ERROR(ApplyAll(action, last || steps_done == config_.steps));
        break;
      case OuterAction::Kind::kRestart:
        for (size_t r = 0; r < replicas_.size(); ++r) {
          SKERRY_RETURN_IF_ERROR(replicas_[r].rounds.Restart(action.fragment, theta_[r]));
        }
        break;
    }
  }
  for (size_t r = 0; r < replicas_.size(); ++r) replicas_[r].model.Write(theta_[r]);
  return absl::OkStatus();
}

absl::Status Fleet::EncodeAll(const OuterAction& action) {
  Flight flight = {.round = action.round, .messages = {}, .pieces = {}};
  for (size_t r = 0; r < replicas_.size(); ++r) {
    if (training_.sharded) {
      SKERRY_ASSIGN_OR_RETURN(auto pieces,
                              replicas_[r].rounds.EncodePieces(action.fragment, theta_[r]));
      for (const Payload& piece : pieces) bytes_ += SizeOf(piece);
      flight.pieces.push_back(std::move(pieces));
      continue;
    }
    SKERRY_ASSIGN_OR_RETURN(Payload message,
                            replicas_[r].rounds.Encode(action.fragment, theta_[r]));
    bytes_ += SizeOf(message);
    flight.messages.push_back(std::move(message));
  }
  ++messages_;
  flights_[At(action.fragment)].push_back(std::move(flight));
  return absl::OkStatus();
}

// The commit's last rounds are complete, so that every contender's base covers the same tokens.
std::vector<bool> Fleet::Present(const OuterAction& action, bool complete) const {
  std::vector<bool> present(replicas_.size(), true);
  auto missing =
      static_cast<size_t>(std::lround(training_.missing * static_cast<double>(replicas_.size())));
  if (complete) missing = 0;
  Rng rng(seed_, "missing",
          static_cast<uint64_t>(action.round) * 64 + static_cast<uint64_t>(action.fragment));
  while (missing > 0) {
    const size_t r = rng.Below(present.size());
    if (!present[r]) continue;
    present[r] = false;
    --missing;
  }
  return present;
}

absl::Status Fleet::ApplyAll(const OuterAction& action, bool complete) {
  auto& flights = flights_[At(action.fragment)];
  SKERRY_CHECK(!flights.empty() && flights[0].round == action.round);
  const Flight flight = std::move(flights[0]);
  flights.erase(flights.begin());
  const std::vector<bool> present = Present(action, complete);
  if (training_.sharded) return SumAll(action, flight, present);
  auto& rounds = rounds_accepted_[At(action.fragment)];
  std::vector<OuterReplica::Accepted> commit;
  std::vector<size_t> owners;
  for (size_t r = 0; r < replicas_.size(); ++r) {
    if (!present[r]) continue;
    const int64_t covered = action.round + 1 - std::exchange(rounds[r], action.round + 1);
    commit.push_back({covered, View(flight.messages[r]), false});
    owners.push_back(r);
  }
  for (size_t r = 0; r < replicas_.size(); ++r) {
    for (size_t i = 0; i < owners.size(); ++i) commit[i].own = owners[i] == r;
    SKERRY_RETURN_IF_ERROR(replicas_[r].rounds.Apply(action.fragment, commit, theta_[r]));
  }
  const auto digest = [&](size_t r) {
    return replicas_[r].rounds.replica(action.fragment).BaseDigest();
  };
  SKERRY_CHECK(digest(0) == digest(replicas_.size() - 1), "the bases have the same bits");
  return absl::OkStatus();
}

// As reducers would: every piece summed once, and what everybody takes the step with.
absl::Status Fleet::SumAll(const OuterAction& action, const Flight& flight,
                           const std::vector<bool>& present) {
  PieceReducer& reducer = reducers_[At(action.fragment)];
  std::vector<Bytes> sums;
  for (int32_t p = 0; p < replicas_[0].rounds.cut(action.fragment).count(); ++p) {
    std::vector<RoundMessage> messages;
    for (size_t r = 0; r < replicas_.size(); ++r) {
      if (present[r]) messages.push_back({1, View(flight.pieces[r][At(p)])});
    }
    SKERRY_ASSIGN_OR_RETURN(Bytes sum, reducer.Reduce(p, messages));
    SKERRY_RETURN_IF_ERROR(reducer.Land(p, messages, sum));
    sums.push_back(std::move(sum));
  }
  const std::vector<std::span<const uint8_t>> views(sums.begin(), sums.end());
  for (size_t r = 0; r < replicas_.size(); ++r) {
    SKERRY_RETURN_IF_ERROR(
        replicas_[r].rounds.ApplySums(action.fragment, views, present[r], theta_[r]));
  }
  return absl::OkStatus();
}

std::vector<float> Fleet::Base() {
  std::vector<float> base(theta_[0].size());
  if (training_.gradient_mean) {
    replicas_[0].model.Read(base);
  } else {
    replicas_[0].rounds.ReadBase(base);
  }
  return base;
}

}  // namespace skerry::bench
