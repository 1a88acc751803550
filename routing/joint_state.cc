#include "routing/joint_state.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "routing/joint_columns.h"

namespace skerry {
namespace {

// Every other move begins at a task that decides when the iteration ends.
constexpr double kCriticalShare = 0.5;
// Shares of the kinds of moves; what is left exchanges two visits.
constexpr double kExchangeNodes = 0.1;
constexpr double kRotate = 0.1;
constexpr double kExchangeTails = 0.18;
constexpr double kSwapNeighbours = 0.06;
constexpr double kMoveVisit = 0.2;  // these only under free loads
constexpr double kMoveTail = 0.06;
constexpr double kMoveOrigin = 0.06;
constexpr double kExchangeStages = 0.05;
constexpr double kWaveReleaseSeconds = 2.5;  // as SkipPipe's script releases

// Which stages microbatch `m` visits, so that over all of them visits are equal: the next
// `path_length` − 1 of the repeated sequence of stages.
std::vector<int32_t> StagesOf(const SkipPipeProblem& problem, int32_t m) {
  std::vector<int32_t> stages = {0};
  const int32_t others = problem.stages() - 1;
  const int32_t visits = problem.path_length - 1;
  for (int32_t i = 0; i < visits; ++i) stages.push_back(1 + (m * visits + i) % others);
  std::sort(stages.begin(), stages.end());
  return stages;
}

}  // namespace

absl::StatusOr<JointState> JointState::Create(const SkipPipeProblem& problem,
                                              std::vector<std::vector<int32_t>> partitions,
                                              double link_max_s) {
  JointState state(problem);
  SKERRY_RETURN_IF_ERROR(ValidateSchedule(problem, {partitions, {}}));
  const int32_t visits = problem.microbatches() * (problem.path_length - 1);
  if (visits % (problem.stages() - 1) != 0) {
    return FailedPrecondition(
        "%d microbatches visit %d of %d stages each: not the same for every stage",
        problem.microbatches(), problem.path_length - 1, problem.stages() - 1);
  }
  state.link_max_s_ = link_max_s;
  state.partitions_ = std::move(partitions);
  state.stage_of_.resize(problem.forward_s.size());
  for (size_t s = 0; s < state.partitions_.size(); ++s) {
    for (const int32_t node : state.partitions_[s]) {
      state.stage_of_[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
  }
  state.schedule_.length = problem.path_length;
  state.schedule_.microbatches.resize(static_cast<size_t>(problem.microbatches()));
  std::vector<int32_t> visited(problem.stage_sizes.size());
  const int32_t per_origin = problem.in_flight * problem.waves;
  for (int32_t m = 0; m < problem.microbatches(); ++m) {
    const std::vector<int32_t> stages = StagesOf(problem, m);
    if (!IsAllowedPath(problem, stages)) {
      return FailedPrecondition("a path of %d visits over %d stages needs jumps past %d",
                                problem.path_length, problem.stages(), problem.jump_max);
    }
    for (const int32_t stage : stages) {
      const auto& nodes = state.partitions_[static_cast<size_t>(stage)];
      const int32_t turn = stage == 0 ? m / per_origin : visited[static_cast<size_t>(stage)]++;
      state.schedule_.path.push_back(nodes[static_cast<size_t>(turn) % nodes.size()]);
    }
  }
  state.AssignLanes();
  state.FindAlike();
  return state;
}

bool JointState::ArrangeInColumns() {
  const std::vector<std::vector<int32_t>> columns = CutIntoColumns(*problem_, partitions_);
  if (columns.empty()) return false;
  const auto height = static_cast<size_t>(schedule_.size()) / columns.size();
  for (int32_t m = 0; m < schedule_.size(); ++m) {
    const std::vector<int32_t>& column = columns[static_cast<size_t>(m) / height];
    std::copy(column.begin(), column.end(), &schedule_.At(m, 1));
  }
  return true;
}

void JointState::FindAlike() {
  const SkipPipeProblem& problem = *problem_;
  const int32_t n = problem.nodes();
  const auto speed = [&](int32_t node) { return problem.forward_s[static_cast<size_t>(node)]; };
  for (int32_t a = 0; a < n; ++a) {
    for (int32_t b = 0; b < n; ++b) {
      bool alike =
          speed(a) == speed(b) && problem.TransferSeconds(a, b) == problem.TransferSeconds(b, a);
      for (int32_t c = 0; c < n && alike; ++c) {
        if (c == a || c == b) continue;
        alike = problem.TransferSeconds(a, c) == problem.TransferSeconds(b, c) &&
                problem.TransferSeconds(c, a) == problem.TransferSeconds(c, b);
      }
      alike_.push_back(alike);
    }
  }
}

// The i-th microbatch of a node runs in its lane i mod slots.
void JointState::AssignLanes() {
  const auto& origins = partitions_.front();
  const int32_t slots = problem_->in_flight;
  std::vector<int32_t> count(stage_of_.size());
  std::vector<int32_t> rank(stage_of_.size());
  for (size_t i = 0; i < origins.size(); ++i) {
    rank[static_cast<size_t>(origins[i])] = static_cast<int32_t>(i);
  }
  for (int32_t m = 0; m < schedule_.size(); ++m) {
    const auto origin = static_cast<size_t>(schedule_.At(m, 0));
    const int32_t i = count[origin]++;
    auto& microbatch = schedule_.microbatches[static_cast<size_t>(m)];
    microbatch.lane = rank[origin] * slots + i % slots;
    microbatch.wave = i / slots;
    microbatch.release_s =
        microbatch.wave * kWaveReleaseSeconds + i % slots * problem_->forward_s[origin];
  }
}

SkipPipeSchedule JointState::ToSchedule() const {
  SkipPipeSchedule schedule{partitions_, {}};
  for (int32_t m = 0; m < schedule_.size(); ++m) {
    const auto& microbatch = schedule_.microbatches[static_cast<size_t>(m)];
    const auto first = schedule_.path.begin() + static_cast<std::ptrdiff_t>(schedule_.Index(m, 0));
    schedule.microbatches.push_back({{first, first + schedule_.length},
                                     microbatch.lane,
                                     microbatch.wave,
                                     microbatch.release_s});
  }
  return schedule;
}

void JointState::Set(int32_t microbatch, int32_t hop, int32_t node) {
  const size_t index = schedule_.Index(microbatch, hop);
  if (schedule_.path[index] == node) return;
  changes_.push_back({index, schedule_.path[index]});
  schedule_.path[index] = node;
}

int32_t JointState::StageAt(int32_t microbatch, int32_t hop) const {
  return stage_of_[static_cast<size_t>(schedule_.At(microbatch, hop))];
}

int32_t JointState::HopOf(int32_t microbatch, int32_t stage) const {
  for (int32_t hop = 0; hop < schedule_.length; ++hop) {
    if (StageAt(microbatch, hop) == stage) return hop;
  }
  return -1;
}

int32_t JointState::RandomMicrobatch(Rng& rng) const {
  return static_cast<int32_t>(rng.Below(schedule_.microbatches.size()));
}

int32_t JointState::RandomHop(Rng& rng) const {
  return 1 + static_cast<int32_t>(rng.Below(static_cast<uint64_t>(schedule_.length - 1)));
}

SkipPipeEvaluator::Visit JointState::RandomVisit(Rng& rng) const {
  if (!hints_->critical.empty() && rng.Uniform() < kCriticalShare) {
    const Visit& visit = hints_->critical[rng.Below(hints_->critical.size())];
    return {visit.microbatch, visit.hop > 0 ? visit.hop : RandomHop(rng)};
  }
  const int32_t microbatch = RandomMicrobatch(rng);
  return {microbatch, RandomHop(rng)};
}

int32_t JointState::RandomNode(int32_t stage, Rng& rng) const {
  const auto& nodes = partitions_[static_cast<size_t>(stage)];
  return nodes[rng.Below(nodes.size())];
}

void JointState::Order(int32_t microbatch) {
  for (int32_t hop = 2; hop < schedule_.length; ++hop) {
    for (int32_t h = hop; h > 1 && StageAt(microbatch, h - 1) > StageAt(microbatch, h); --h) {
      const int32_t node = schedule_.At(microbatch, h);
      Set(microbatch, h, schedule_.At(microbatch, h - 1));
      Set(microbatch, h - 1, node);
    }
  }
}

bool JointState::IsAllowed(int32_t microbatch) const {
  int32_t frontier = 0;
  int32_t swaps = 0;
  for (int32_t hop = 1; hop < schedule_.length; ++hop) {
    const int32_t stage = StageAt(microbatch, hop);
    for (int32_t before = 0; before < hop; ++before) {
      if (StageAt(microbatch, before) == stage) return false;
    }
    if (stage > frontier + problem_->jump_max || stage < frontier - 1) return false;
    if (stage < frontier && ++swaps > problem_->swaps_max) return false;
    frontier = std::max(frontier, stage);
  }
  return true;
}

void JointState::Undo() {
  for (; !changes_.empty(); changes_.pop_back()) {
    schedule_.path[changes_.back().index] = changes_.back().node;
  }
  if (swapped_a_ >= 0) SwapRoles(swapped_a_, swapped_b_);
  if (origins_moved_) AssignLanes();
  swapped_a_ = -1;
  origins_moved_ = false;
}

bool JointState::Revert() {
  Undo();
  return false;
}

bool JointState::ExchangeVisits(Rng& rng) {
  const auto [p, i] = RandomVisit(rng);
  const int32_t q = RandomMicrobatch(rng);
  const int32_t same = HopOf(q, StageAt(p, i));
  // Half of the time the same stage, if both visit it: another stage changes who skips what.
  const int32_t j = same > 0 && rng.Below(2) == 0 ? same : RandomHop(rng);
  const int32_t a = schedule_.At(p, i);
  const int32_t b = schedule_.At(q, j);
  if (p == q || a == b) return false;
  const bool across = StageAt(p, i) != StageAt(q, j);
  Set(p, i, b);
  Set(q, j, a);
  if (across) {
    Order(p);
    Order(q);
  }
  return IsAllowed(p) && IsAllowed(q) ? true : Revert();
}

// One skips what the other visits now and the other way round, on any nodes of these stages.
bool JointState::ExchangeStages(Rng& rng) {
  const auto [p, i] = RandomVisit(rng);
  const int32_t q = RandomMicrobatch(rng);
  const int32_t j = RandomHop(rng);
  const int32_t s = StageAt(p, i);
  const int32_t t = StageAt(q, j);
  if (p == q || s == t || HopOf(p, t) >= 0 || HopOf(q, s) >= 0) return false;
  Set(p, i, RandomNode(t, rng));
  Set(q, j, RandomNode(s, rng));
  Order(p);
  Order(q);
  return IsAllowed(p) && IsAllowed(q) ? true : Revert();
}

bool JointState::ExchangeTails(Rng& rng) {
  const auto [p, first] = RandomVisit(rng);
  const int32_t q = RandomMicrobatch(rng);
  if (p == q) return false;
  for (int32_t hop = first; hop < schedule_.length; ++hop) {
    const int32_t node = schedule_.At(p, hop);
    Set(p, hop, schedule_.At(q, hop));
    Set(q, hop, node);
  }
  if (changes_.empty()) return false;
  return IsAllowed(p) && IsAllowed(q) ? true : Revert();
}

bool JointState::SwapNeighbours(Rng& rng) {
  const auto [p, i] = RandomVisit(rng);
  if (i + 1 >= schedule_.length) return false;
  const int32_t node = schedule_.At(p, i);
  Set(p, i, schedule_.At(p, i + 1));
  Set(p, i + 1, node);
  return IsAllowed(p) ? true : Revert();
}

// The visits of one stage of three microbatches go round.
bool JointState::Rotate(Rng& rng) {
  const auto [p, i] = RandomVisit(rng);
  const int32_t q = RandomMicrobatch(rng);
  const int32_t r = RandomMicrobatch(rng);
  if (p == q || q == r || p == r) return false;
  const int32_t j = HopOf(q, StageAt(p, i));
  const int32_t k = HopOf(r, StageAt(p, i));
  if (j < 0 || k < 0) return false;
  const int32_t node = schedule_.At(p, i);
  Set(p, i, schedule_.At(q, j));
  Set(q, j, schedule_.At(r, k));
  Set(r, k, node);
  return !changes_.empty();
}

bool JointState::MoveVisit(Rng& rng) {
  const auto [p, i] = RandomVisit(rng);
  Set(p, i, RandomNode(StageAt(p, i), rng));
  return !changes_.empty();
}

// One goes the way of another from some visit on, where both visit the same stages.
bool JointState::MoveTail(Rng& rng) {
  const int32_t p = RandomVisit(rng).microbatch;
  const int32_t q = RandomMicrobatch(rng);
  const auto first = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(schedule_.length - 1)));
  for (int32_t hop = std::max(first, 1); hop < schedule_.length; ++hop) {
    if (StageAt(p, hop) != StageAt(q, hop)) return false;
  }
  const int32_t origin = schedule_.At(p, 0);
  for (int32_t hop = first; hop < schedule_.length; ++hop) Set(p, hop, schedule_.At(q, hop));
  if (changes_.empty()) return false;
  origins_moved_ = schedule_.At(p, 0) != origin;
  if (origins_moved_) AssignLanes();
  return true;
}

bool JointState::MoveOrigin(Rng& rng) {
  Set(RandomVisit(rng).microbatch, 0, RandomNode(0, rng));
  if (changes_.empty()) return false;
  origins_moved_ = true;
  AssignLanes();
  return true;
}

bool JointState::FitsStage(int32_t node, int32_t stage, int32_t instead_of) const {
  for (const int32_t other : partitions_[static_cast<size_t>(stage)]) {
    if (other == instead_of) continue;
    if (problem_->TransferSeconds(node, other) > link_max_s_) return false;
    if (problem_->TransferSeconds(other, node) > link_max_s_) return false;
  }
  return true;
}

bool JointState::AreAlike(int32_t a, int32_t b) const {
  return alike_[static_cast<size_t>(a) * stage_of_.size() + static_cast<size_t>(b)];
}

void JointState::SwapRoles(int32_t a, int32_t b) {
  for (int32_t& node : schedule_.path) {
    if (node == a) {
      node = b;
    } else if (node == b) {
      node = a;
    }
  }
  int32_t& stage_a = stage_of_[static_cast<size_t>(a)];
  int32_t& stage_b = stage_of_[static_cast<size_t>(b)];
  auto& nodes_a = partitions_[static_cast<size_t>(stage_a)];
  auto& nodes_b = partitions_[static_cast<size_t>(stage_b)];
  const auto at_a = std::find(nodes_a.begin(), nodes_a.end(), a);
  const auto at_b = std::find(nodes_b.begin(), nodes_b.end(), b);
  std::swap(*at_a, *at_b);
  std::swap(stage_a, stage_b);
  if (stage_a == 0 || stage_b == 0) AssignLanes();
}

bool JointState::ExchangeNodes(const JointFreedom& freedom, Rng& rng) {
  const auto n = stage_of_.size();
  const auto a = static_cast<int32_t>(rng.Below(n));
  const int32_t stage_a = stage_of_[static_cast<size_t>(a)];
  const auto& mates = partitions_[static_cast<size_t>(stage_a)];
  const auto b =
      freedom.placement ? static_cast<int32_t>(rng.Below(n)) : mates[rng.Below(mates.size())];
  const int32_t stage_b = stage_of_[static_cast<size_t>(b)];
  if (a == b || AreAlike(a, b)) return false;
  if (stage_a != stage_b && !(FitsStage(b, stage_a, a) && FitsStage(a, stage_b, b))) return false;
  SwapRoles(a, b);
  swapped_a_ = a;
  swapped_b_ = b;
  return true;
}

bool JointState::Move(const JointFreedom& freedom, const JointHints& hints, Rng& rng) {
  changes_.clear();
  swapped_a_ = -1;
  origins_moved_ = false;
  hints_ = &hints;
  if (!freedom.tours) return ExchangeNodes(freedom, rng);
  double at = rng.Uniform();
  const auto is = [&](double share) { return (at -= share) < 0; };
  if (is(kExchangeNodes)) return ExchangeNodes(freedom, rng);
  if (is(kRotate)) return Rotate(rng);
  if (is(kExchangeTails)) return ExchangeTails(rng);
  if (is(kSwapNeighbours)) return problem_->swaps_max > 0 && SwapNeighbours(rng);
  if (freedom.loads) {
    if (is(kMoveVisit)) return MoveVisit(rng);
    if (is(kMoveTail)) return MoveTail(rng);
    if (is(kMoveOrigin)) return MoveOrigin(rng);
    if (is(kExchangeStages)) return ExchangeStages(rng);
  }
  return ExchangeVisits(rng);
}

}  // namespace skerry
