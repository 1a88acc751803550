// Checkpoints while the run trains (docs/PROTOCOL.md, 35 to 37).
//
// One generation at a time: *asked* (a replica of every stage has been told which version to keep,
// before the commit that leads to it), *listed* (a stage's chunks are known by digest), *fetched*
// (those that were not on the disk are), *committed* (the manifest is durable, then the journal
// says so). What is under way is in memory only: a coordinator that dies begins with the next
// version, and what it had fetched is either named by no manifest or there already.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/checkpointing.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Asked for and not here, of one stage: little, so that nobody's line is full of it.
constexpr int64_t kChunkWindowBytes = 2 * kObjectChunkBytesMax;
constexpr Duration kStatePatience = Duration::Seconds(30);

std::string ObjectOf(size_t stage, int64_t round) {
  return absl::StrFormat("checkpoint/%d/%d", stage, round);
}

}  // namespace

// Rounds that some stage is through with; one without rounds, by its steps.
int64_t CoordinatorActor::RoundsReached() const {
  const RoundClock clock(options_.config);
  int64_t now = state_.RoundsOfAnyStage();
  for (const StageAssignment& stage : state_.plan->stages) {
    if (stage.replicas.size() > 1) continue;  // it has no rounds
    const auto beat = beats_.find(stage.replicas.front());
    if (beat != beats_.end()) now = std::max(now, clock.EndedBy(beat->second.step));
  }
  return now;
}

// A version that no stage has come to: its commit, or the step at which it begins, is still ahead.
int64_t CoordinatorActor::NextCheckpointRound(bool is_wanted) const {
  const int64_t rounds = is_wanted ? 1 : options_.config.checkpoint.every_rounds;
  const int64_t every = rounds * RoundClock(options_.config).fragments();
  return ((RoundsReached() + checkpoint_margin_) / every + 1) * every;
}

bool CoordinatorActor::BeginCheckpoint(Context& context) {
  const PipelinePlan& plan = *state_.plan;
  const RoundClock clock(options_.config);
  const int64_t round = NextCheckpointRound(state_.orders.wanted.has_value());
  if (clock.StartOf(round) >= options_.config.steps) return false;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (LiveReplicas(plan, static_cast<int32_t>(i)).empty()) return false;  // it is left out
  }
  NewGeneration();
  checkpointing_->made.round = round;
  checkpointing_->made.step = clock.StartOf(round);
  for (size_t i = 0; i < plan.stages.size() && checkpointing_; ++i) AskForState(context, i);
  return true;
}

void CoordinatorActor::NewGeneration() {
  const PipelinePlan& plan = *state_.plan;
  checkpointing_ = std::make_shared<Checkpointing>();
  Checkpoint& made = checkpointing_->made;
  made.generation = state_.generations + 1;
  made.run = options_.run.Hex();
  made.model = options_.trained_model.value_or(options_.config.model);
  if (options_.format_config) made.config = options_.format_config(options_.config);
  for (const StageAssignment& stage : plan.stages) {
    made.stages.push_back({stage.first_layer, stage.last_layer, made.stages.empty(), 0, {}});
    made.remade.insert(made.remade.end(), stage.remade.begin(), stage.remade.end());
  }
  checkpointing_->stages.resize(plan.stages.size());
}

void CoordinatorActor::TendCheckpoint(Context& context) {
  if (options_.checkpoints == nullptr || !state_.plan || state_.finished || !state_.lost.empty() ||
      keeping_job_ != 0) {
    return;
  }
  if (!checkpointing_) RemakeAfterReturn(context);
  const CheckpointConfig& config = options_.config.checkpoint;
  const bool is_soon =
      checkpoint_made_ && context.now() - *checkpoint_made_ < Duration::Seconds(config.least_s);
  const bool may_begin = (config.every_rounds > 0 && !is_soon) || state_.orders.wanted.has_value();
  if (!checkpointing_ && (!may_begin || !BeginCheckpoint(context))) return;
  // Whoever was asked may be gone, or hang.
  for (size_t i = 0; checkpointing_ && i < checkpointing_->stages.size(); ++i) {
    Checkpointing::Stage& stage = checkpointing_->stages[i];
    if (stage.is_done) continue;
    const auto live = LiveReplicas(*state_.plan, static_cast<int32_t>(i));
    const bool lives = std::find(live.begin(), live.end(), stage.replica) != live.end();
    const bool is_due = stage.is_listed || !checkpointing_->lost.empty();
    const bool hangs = is_due && context.now() - stage.progress > kStatePatience;
    if (!lives || hangs) AskForState(context, i);
  }
}

// The next replica that has not been asked, beginning with another one for every generation.
void CoordinatorActor::AskForState(Context& context, size_t index) {
  Checkpointing::Stage& stage = checkpointing_->stages[index];
  const Checkpoint& made = checkpointing_->made;
  const auto live = LiveReplicas(*state_.plan, static_cast<int32_t>(index));
  if (stage.is_asked) stage.tried.insert(stage.replica);
  std::set<NodeId> tried = stage.tried;
  const size_t first = static_cast<size_t>(made.generation) + index;
  const NodeId* next = nullptr;
  for (size_t i = 0; i < live.size() && next == nullptr; ++i) {
    const NodeId& candidate = live[(first + i) % live.size()];
    if (!tried.contains(candidate)) next = &candidate;
  }
  const bool at_once = !checkpointing_->lost.empty();
  if (next == nullptr) {
    const std::string what =
        at_once ? "gives its state" : absl::StrFormat("has kept version %d", made.round);
    return GiveUpCheckpoint(context, absl::StrFormat("no replica of stage %d %s", index, what));
  }
  stage = {};
  stage.tried = std::move(tried);
  stage.replica = *next;
  stage.is_asked = true;
  stage.round = made.round;
  stage.progress = context.now();
  context.Send(stage.replica,
               CheckpointRequest{static_cast<int32_t>(index), at_once ? 0 : made.round, at_once});
}

void CoordinatorActor::On(Context& context, const NodeId& from, const CheckpointState& message) {
  const auto index = static_cast<size_t>(message.stage);
  if (!checkpointing_ || index >= checkpointing_->stages.size() ||
      (checkpointing_->lost.empty() && message.round != checkpointing_->made.round)) {
    return void(++refused_);
  }
  Checkpointing::Stage& stage = checkpointing_->stages[index];
  if (stage.replica != from || stage.is_listed) return void(++refused_);
  if (message.bytes < 0) return AskForState(context, index);
  const int64_t chunks = (message.bytes + kCheckpointChunkBytes - 1) / kCheckpointChunkBytes;
  if (message.bytes == 0 || chunks != static_cast<int64_t>(message.chunks.size())) {
    ++refused_;
    return AskForState(context, index);
  }
  stage.is_listed = true;
  stage.round = message.round;
  stage.progress = context.now();
  checkpointing_->made.stages[index].bytes = message.bytes;
  checkpointing_->made.stages[index].chunks = message.chunks;
  auto work = std::make_shared<Checkpointing::Work>();
  work->looks_up = true;
  const JobId job = context.Submit({"look up chunks", Duration::Millis(5),
                                    [work, store = options_.checkpoints, digests = message.chunks] {
                                      auto held = store->Held(digests);
                                      work->status = held.status();
                                      if (held.ok()) work->held = *std::move(held);
                                    }});
  checkpointing_->jobs[job] = {index, work};
}

void CoordinatorActor::RequestChunks(Context& context, size_t index) {
  Checkpointing::Stage& stage = checkpointing_->stages[index];
  while (stage.chunk < stage.held.size() && stage.held[stage.chunk]) ++stage.chunk;
  if (stage.chunk == stage.held.size()) return StageKept(context, index);
  const int64_t size = checkpointing_->ChunkBytes(index, stage.chunk);
  const int64_t begin = static_cast<int64_t>(stage.chunk) * kCheckpointChunkBytes;
  while (stage.requested < size && stage.requested - stage.received < kChunkWindowBytes) {
    const int64_t length = std::min(kObjectChunkBytesMax, size - stage.requested);
    context.Send(stage.replica,
                 ObjectRequest{ObjectOf(index, stage.round), begin + stage.requested, length});
    stage.requested += length;
  }
}

void CoordinatorActor::OnCheckpointChunk(Context& context, const NodeId& from,
                                         const ObjectChunk& message) {
  if (!checkpointing_) return void(++refused_);
  size_t index = 0;
  const auto is_of = [&](const Checkpointing::Stage& stage) {
    return stage.replica == from && !stage.is_done && !stage.held.empty();
  };
  while (index < checkpointing_->stages.size() && !is_of(checkpointing_->stages[index])) ++index;
  if (index == checkpointing_->stages.size() ||
      message.object != ObjectOf(index, checkpointing_->stages[index].round)) {
    return void(++refused_);
  }
  Checkpointing::Stage& stage = checkpointing_->stages[index];
  if (message.total_bytes < 0) return AskForState(context, index);  // not any more
  const int64_t size = checkpointing_->ChunkBytes(index, stage.chunk);
  const int64_t begin = static_cast<int64_t>(stage.chunk) * kCheckpointChunkBytes;
  const int64_t part = SizeOf(message.values);
  if (message.offset != begin + stage.received || part <= 0 || stage.received + part > size) {
    return void(++refused_);
  }
  const auto values = View(message.values);
  stage.bytes.insert(stage.bytes.end(), values.begin(), values.end());
  stage.received += part;
  stage.progress = context.now();
  if (stage.received < size) return RequestChunks(context, index);
  checkpointing_->made.new_bytes += size;
  stage.unwritten.push_back({checkpointing_->made.stages[index].chunks[stage.chunk],
                             MakePayload(std::exchange(stage.bytes, {}))});
  stage.held[stage.chunk] = true;
  stage.requested = stage.received = 0;
  const bool is_last = std::find(stage.held.begin(), stage.held.end(), false) == stage.held.end();
  if (!is_last && stage.unwritten.size() < kChunksTogether) return RequestChunks(context, index);
  auto work = std::make_shared<Checkpointing::Work>();
  const auto chunks =
      std::make_shared<const std::vector<NamedChunk>>(std::exchange(stage.unwritten, {}));
  const JobId job = context.Submit(
      {"write chunks", Duration::Millis(10 * std::ssize(*chunks)),
       [work, store = options_.checkpoints, chunks] { work->status = store->Put(*chunks); }});
  checkpointing_->jobs[job] = {index, work};
}

bool CoordinatorActor::OnCheckpointJob(Context& context, JobId job) {
  if (job == keeping_job_ && job != 0) {
    keeping_job_ = 0;
    return true;
  }
  if (!checkpointing_) return false;
  if (job == checkpointing_->commit_job && job != 0) {
    CheckpointCommitted(context, checkpointing_->committed->status);
    return true;
  }
  const auto it = checkpointing_->jobs.find(job);
  if (it == checkpointing_->jobs.end()) return false;
  const auto [index, work] = it->second;
  checkpointing_->jobs.erase(it);
  Checkpointing::Stage& stage = checkpointing_->stages[index];
  stage.progress = context.now();
  if (absl::IsDataLoss(work->status)) {  // what it sent is not what it said
    AskForState(context, index);
  } else if (!work->status.ok()) {
    GiveUpCheckpoint(context, ErrorText(work->status));
  } else {
    if (work->looks_up) stage.held = work->held;
    RequestChunks(context, index);
  }
  return true;
}

// When the last stage is, the manifest is written.
void CoordinatorActor::StageKept(Context& context, size_t index) {
  checkpointing_->stages[index].is_done = true;
  const auto& stages = checkpointing_->stages;
  if (!std::all_of(stages.begin(), stages.end(), [](const auto& s) { return s.is_done; })) return;
  if (!checkpointing_->lost.empty() && !SettleRemade(context)) return;
  Checkpoint& made = checkpointing_->made;
  made.tokens = state_.tokens;
  for (auto it = state_.losses.lower_bound(made.step); it != state_.losses.end(); ++it) {
    for (const auto& [microbatch, loss] : it->second.by_microbatch) made.tokens -= loss.tokens;
  }
  checkpointing_->committed = std::make_shared<Checkpointing::Committed>();
  checkpointing_->committed->made = made;
  checkpointing_->commit_job =
      context.Submit({"commit checkpoint", Duration::Millis(10),
                      [committed = checkpointing_->committed, store = options_.checkpoints,
                       lost = checkpointing_->lost] {
                        if (!lost.empty())
                          committed->status = store->Remake(&committed->made, lost);
                        if (!committed->status.ok()) return;
                        for (const CheckpointStage& stage : committed->made.stages) {
                          committed->made.bytes += stage.bytes;
                        }
                        committed->status = store->Commit(committed->made);
                      }});
}

void CoordinatorActor::CheckpointCommitted(Context& context, const absl::Status& status) {
  if (!status.ok()) return GiveUpCheckpoint(context, ErrorText(status));
  const auto done = std::exchange(checkpointing_, nullptr);
  Checkpoint& made = done->made;
  made.bytes = done->committed->made.bytes;
  checkpoint_margin_ = 0;
  checkpoint_made_ = context.now();
  Record(context, CheckpointMade({made.generation, made.round, made.step, made.tokens, made.bytes,
                                  made.new_bytes, made.remade}));
  context.Event("checkpoint", EventFields({{"generation", made.generation},
                                           {"round", made.round},
                                           {"step", made.step},
                                           {"tokens", made.tokens},
                                           {"bytes", made.bytes},
                                           {"new_bytes", made.new_bytes}}));
  const auto keep = static_cast<size_t>(options_.config.checkpoint.keep);
  while (state_.checkpoints.size() > keep) {
    Record(context, CheckpointDropped(state_.checkpoints.begin()->first));
  }
  std::vector<int64_t> generations;
  for (const auto& [generation, record] : state_.checkpoints) generations.push_back(generation);
  keeping_job_ = context.Submit(
      {"drop old checkpoints", Duration::Millis(10), [store = options_.checkpoints, generations] {
         store->Keep(generations).IgnoreError();  // the next one may
       }});
  if (!done->lost.empty()) return GoBackToRemade(context, *done);
  TendCheckpoint(context);
}

// The next one is of a later version.
void CoordinatorActor::GiveUpCheckpoint(Context& context, const std::string& why) {
  const auto given_up = std::exchange(checkpointing_, nullptr);
  const int64_t round = given_up->made.round;
  if (!given_up->lost.empty()) return GiveUpRemaking(context, *given_up, why);
  checkpoint_margin_ = std::min<int64_t>(2 * checkpoint_margin_ + 1, 64);
  context.Event("checkpoint_failed", EventFields({{"round", round}, {"why", why}}));
}

nlohmann::json CoordinatorActor::CheckpointJson() const {
  nlohmann::json json = {{"every_rounds", options_.config.checkpoint.every_rounds},
                         {"kept", state_.checkpoints.size()},
                         {"rewinds", state_.rewinds}};
  if (!state_.checkpoints.empty()) {
    const CheckpointRecord& last = state_.checkpoints.rbegin()->second;
    json["generation"] = last.generation;
    json["round"] = last.round;
    json["step"] = last.step;
    json["bytes"] = last.bytes;
  }
  if (!checkpointing_) return json;
  int64_t fetched = 0;
  for (size_t i = 0; i < checkpointing_->stages.size(); ++i) {
    fetched += static_cast<int64_t>(checkpointing_->stages[i].chunk) * kCheckpointChunkBytes;
  }
  json["making"] = {{"round", checkpointing_->made.round}, {"fetched_bytes", fetched}};
  return json;
}

}  // namespace skerry
