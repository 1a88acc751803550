// The ring of processes on virtual time: sums by their definition, and a member that crashes or
// hangs at every moment at which it does anything.
#include "pipeline/exec/transport_ring.h"

#include <catch2/catch.hpp>
#include <set>

#include "sim/simulation.h"
#include "tests/kernels/members.h"

namespace skerry {
namespace {

constexpr Duration kAllowed = Duration::Seconds(10);
constexpr int64_t kPiece = 128;  // values
constexpr double kBytesPerS = 2e6;

// kSend: from the first member to the last, of no concern to the others.
enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend };
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                           Kind::kBroadcast, Kind::kSend};

std::vector<NodeId> Ids(int32_t members) {
  std::vector<NodeId> ids;
  for (int32_t r = 0; r < members; ++r) ids.push_back(TestNodeId(static_cast<uint32_t>(r + 1)));
  return ids;
}

// What all are to do, and what came of it.
struct World {
  Kind kind = Kind::kAllReduce;
  std::vector<NodeId> members, survivors;  // of group 1 and 2
  std::vector<Values> brought;             // by rank in group 1
  int64_t piece = kPiece;
  int operations = 2;                // in group 1: the one of `kind`, then all-reduces
  Duration late_start;               // of member 1's first operation
  std::optional<size_t> other_size;  // of member 1's values
  bool loses_values = false;         // of what comes to member 1

  struct Ended {
    Instant at;
    absl::Status status;
    Values values;
  };
  std::map<NodeId, std::vector<Ended>> first, second;  // in group 1, in group 2
  std::map<NodeId, std::set<Instant>> moments;         // at which handlers ran

  // Whether a member has nothing to do with the first operation.
  bool IsOutside(size_t index) const {
    return kind == Kind::kSend && index != 0 && index + 1 != members.size();
  }
};

// Makes group 1, does its operations, and when it has ended makes group 2 with who is left.
class Member final : public Actor {
 public:
  Member(World* world, size_t index)
      : world_(world), index_(index), done_(world->IsOutside(index) ? 1 : 0) {}

  void OnStart(Context& context) override {
    See(context);
    Make(context, 1, world_->members);
    if (index_ == 1 && world_->late_start > Duration()) {
      late_ = context.StartTimer(world_->late_start);
    } else {
      Operate(context);
    }
  }
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    See(context);
    const bool loses = world_->loses_values && index_ == 1;
    if (loses && std::holds_alternative<GroupValues>(message)) return;
    ring_->OnMessage(context, from, message);
  }
  void OnTimer(Context& context, TimerId timer) override {
    See(context);
    if (timer == late_) return Operate(context);
    ring_->OnTimer(context, timer);
  }
  void OnJobDone(Context& context, JobId job) override {
    See(context);
    ring_->OnJobDone(context, job);
  }
  void OnPeerRestarted(Context& context, const NodeId& peer) override {
    See(context);
    ring_->OnPeerRestarted(context, peer);
  }

 private:
  void See(Context& context) { world_->moments[context.self()].insert(context.now()); }

  void Make(Context& context, uint64_t group, const std::vector<NodeId>& members) {
    ring_ = std::make_unique<TransportRing>(
        TransportRingOptions{.group = group, .members = members, .piece_values = world_->piece},
        [this](Context& c, const absl::Status& status) { OnEnd(c, status); });
    ring_->Start(context);
  }

  void Operate(Context& context) {
    values_ = world_->brought[index_];
    if (index_ == 1 && world_->other_size) values_.resize(*world_->other_size);
    if (done_ > 0 || ring_->group() == 2 || world_->kind == Kind::kAllReduce)
      return ring_->AllReduce(context, values_);
    if (world_->kind == Kind::kReduceScatter) return ring_->ReduceScatter(context, values_);
    if (world_->kind == Kind::kAllGather) return ring_->AllGather(context, values_);
    if (world_->kind == Kind::kSend && index_ == 0)
      return ring_->Send(context, values_, ring_->size() - 1);
    if (world_->kind == Kind::kSend) return ring_->Receive(context, values_, 0);
    ring_->Broadcast(context, values_, ring_->size() / 2);
  }

  void OnEnd(Context& context, const absl::Status& status) {
    auto& ended = ring_->group() == 1 ? world_->first : world_->second;
    ended[context.self()].push_back({context.now(), status, values_});
    if (ring_->group() == 2) return;
    if (status.ok() && ++done_ < world_->operations) return Operate(context);
    const auto& left = world_->survivors;
    if (status.ok() || std::find(left.begin(), left.end(), context.self()) == left.end()) return;
    Make(context, 2, left);
    Operate(context);
  }

  World* world_;
  size_t index_;
  std::unique_ptr<TransportRing> ring_;
  Values values_;
  int done_;
  TimerId late_ = 0;
};

World MakeWorld(int32_t members, int64_t n, Kind kind = Kind::kAllReduce) {
  World world;
  world.kind = kind;
  world.members = Ids(members);
  world.brought = Brought(members, n);
  return world;
}

std::unique_ptr<Simulation> MakeSimulation(World& world, uint64_t seed = 1, double loss = 0) {
  SimulationOptions options;
  options.seed = seed;
  // Acknowledgements wait behind values here. What is lost is repeated before anybody seems silent.
  options.repeat_after = loss > 0 ? Duration::Millis(300) : Duration::Seconds(8);
  options.link = [loss](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(2),
                   .bytes_per_s = kBytesPerS,
                   .loss = loss,
                   .jitter = Duration::Micros(300)};
  };
  auto simulation = std::make_unique<Simulation>(std::move(options));
  for (size_t i = 0; i < world.members.size(); ++i) {
    simulation->AddProcess(
        world.members[i], [&world, i](const auto&) { return std::make_unique<Member>(&world, i); });
  }
  return simulation;
}

// Whether everybody has ended so many operations, those it has nothing to do with included.
bool AllHave(const World& world, size_t operations) {
  for (size_t i = 0; i < world.members.size(); ++i) {
    const auto found = world.first.find(world.members[i]);
    const size_t ended = found == world.first.end() ? 0 : found->second.size();
    if (ended + (world.IsOutside(i) ? 1 : 0) < operations) return false;
  }
  return true;
}

// Whether `values` is what the member's operation left; other parts of a reduce-scatter are
// arbitrary.
bool IsRight(const World& world, size_t ended, int32_t rank, const Values& values) {
  const auto members = static_cast<int32_t>(world.members.size());
  const size_t operation = ended + (world.IsOutside(static_cast<size_t>(rank)) ? 1 : 0);
  const auto n = std::ssize(world.brought.front());
  const Kind kind = operation == 0 ? world.kind : Kind::kAllReduce;
  if (kind == Kind::kAllReduce) return values == RingSum(world.brought);
  if (kind == Kind::kSend) return values == world.brought.front();
  if (kind == Kind::kBroadcast) return values == world.brought[static_cast<size_t>(members / 2)];
  const Values sum = RingSum(world.brought);
  for (int32_t p = 0; p < members; ++p) {
    const GroupPart part = PartOf(n, members, p);
    if (kind == Kind::kReduceScatter && p != rank) continue;
    const Values& from = kind == Kind::kReduceScatter ? sum : world.brought[static_cast<size_t>(p)];
    if (!std::equal(from.begin() + part.first, from.begin() + part.first + part.size,
                    values.begin() + part.first)) {
      return false;
    }
  }
  return true;
}

void CheckAllRight(const World& world) {
  for (size_t i = 0; i < world.members.size(); ++i) {
    const auto& ended = world.first.at(world.members[i]);
    for (size_t k = 0; k < ended.size(); ++k) {
      INFO(ended[k].status.ToString());
      REQUIRE(ended[k].status.ok());
      REQUIRE(IsRight(world, k, static_cast<int32_t>(i), ended[k].values));
    }
  }
}

// The fault at `when`; afterwards all that holds whatever the moment.
enum class Blow { kCrash, kHang, kReplaced };
void CheckFault(int32_t members, Kind kind, int32_t victim, Blow blow, Instant when) {
  World world = MakeWorld(members, 600, kind);
  const NodeId lost = world.members[static_cast<size_t>(victim)];
  for (const NodeId& id : world.members) {
    if (id != lost) world.survivors.push_back(id);
  }
  const auto simulation = MakeSimulation(world);
  if (blow == Blow::kHang) {
    simulation->Hang(lost, when, when + Duration::Seconds(60));
  } else {
    simulation->CrashAt(when, lost);
  }
  if (blow == Blow::kReplaced) simulation->StartAt(when + Duration::Millis(20), lost);
  const bool reformed = simulation->RunUntil(
      [&] { return world.second.size() == world.survivors.size(); }, when + Duration::Seconds(30));
  INFO("member " << victim << " of " << members << " at " << when.nanos() << " ns");
  REQUIRE(reformed);
  std::vector<Values> left;
  for (size_t i = 0; i < world.members.size(); ++i) {
    if (world.members[i] != lost) left.push_back(world.brought[i]);
  }
  const Values sum = RingSum(left);
  for (size_t i = 0; i < world.members.size(); ++i) {
    const NodeId& id = world.members[i];
    if (id == lost) continue;
    const auto& ended = world.first.at(id);
    for (size_t k = 0; k + 1 < ended.size(); ++k) {
      REQUIRE(ended[k].status.ok());
      REQUIRE(IsRight(world, k, static_cast<int32_t>(i), ended[k].values));
    }
    REQUIRE(
        (absl::IsAborted(ended.back().status) || absl::IsDeadlineExceeded(ended.back().status)));
    REQUIRE(ErrorText(ended.back().status)
                .starts_with(absl::StrFormat("member %d of %d: ", victim, members)));
    REQUIRE(ended.back().at - when <= kAllowed);
    REQUIRE(world.second.at(id).size() == 1);
    REQUIRE(world.second.at(id).front().status.ok());
    REQUIRE(world.second.at(id).front().values == sum);
  }
  if (blow != Blow::kHang) return;
  // It is told when it goes on.
  REQUIRE(simulation->RunUntil(
      [&] { return world.first.contains(lost) && !world.first.at(lost).back().status.ok(); },
      when + Duration::Seconds(70)));
}

// When the victim did anything, up to the end of the operations and one sign more.
std::vector<Instant> MomentsOf(int32_t members, Kind kind, int32_t victim) {
  World world = MakeWorld(members, 600, kind);
  const auto simulation = MakeSimulation(world);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(60)));
  CheckAllRight(world);
  const auto& moments = world.moments.at(world.members[static_cast<size_t>(victim)]);
  std::vector<Instant> all(moments.begin(), moments.end());
  all.push_back(all.back() + Duration::Seconds(1.5));
  return all;
}

}  // namespace

TEST_CASE("TransportRing: every operation gives the bits of the ring in one process",
          "[group][transport_ring]") {
  const int32_t members = GENERATE(range(1, 10));
  const int64_t n = GENERATE(0, 1, 7, 1000, 5003);
  const Kind kind = GENERATE(from_range(std::begin(kKinds), std::end(kKinds)));
  if (kind == Kind::kSend && members == 1) return;
  World world = MakeWorld(members, n, kind);
  const auto simulation = MakeSimulation(world);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(60)));
  CheckAllRight(world);
}

TEST_CASE("TransportRing: frames that are lost and come late change no bit",
          "[group][transport_ring]") {
  const uint64_t seed = GENERATE(range<uint64_t>(1, 9));
  World world = MakeWorld(4, 3000);
  const auto simulation = MakeSimulation(world, seed, 0.05);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(60)));
  CheckAllRight(world);
}

TEST_CASE("TransportRing: the same seed gives the same trace", "[group][transport_ring]") {
  std::vector<uint64_t> hashes;
  for (int times = 0; times < 2; ++times) {
    World world = MakeWorld(5, 2000);
    const auto simulation = MakeSimulation(world, 7, 0.02);
    REQUIRE(
        simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(60)));
    hashes.push_back(simulation->trace_hash());
  }
  CHECK(hashes[0] == hashes[1]);
}

TEST_CASE("TransportRing: a member that crashes at any moment is an error at all others, who go on",
          "[group][transport_ring][error]") {
  const int32_t members = GENERATE(range(2, 10));
  const Kind kind = GENERATE(from_range(std::begin(kKinds), std::end(kKinds)));
  const int32_t victim = members / 3;
  for (const Instant when : MomentsOf(members, kind, victim))
    CheckFault(members, kind, victim, Blow::kCrash, when);
}

TEST_CASE("TransportRing: a member that hangs at any moment is an error at all others, and its own",
          "[group][transport_ring][error]") {
  const int32_t members = GENERATE(2, 3, 5, 9);
  const Kind kind = GENERATE(from_range(std::begin(kKinds), std::end(kKinds)));
  const int32_t victim = members - 1;
  for (const Instant when : MomentsOf(members, kind, victim))
    CheckFault(members, kind, victim, Blow::kHang, when);
}

TEST_CASE("TransportRing: a new process in a member's place is not taken for it",
          "[group][transport_ring][error]") {
  for (const Instant when : MomentsOf(3, Kind::kAllReduce, 1)) {
    // Of whom nobody had heard, nobody can tell that it was another.
    const bool has_met = when > Instant() + Duration::Millis(10);
    if (has_met) CheckFault(3, Kind::kAllReduce, 1, Blow::kReplaced, when);
  }
}

TEST_CASE("TransportRing: who begins late is waited for", "[group][transport_ring]") {
  World world = MakeWorld(3, 3000);
  world.late_start = Duration::Seconds(300);
  const auto simulation = MakeSimulation(world);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(400)));
  CheckAllRight(world);
}

TEST_CASE("TransportRing: members that do not call the same operation are told so",
          "[group][transport_ring][error]") {
  World world = MakeWorld(3, 1000);
  world.other_size = 999;
  const auto simulation = MakeSimulation(world);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 1); }, Instant() + Duration::Seconds(20)));
  for (const NodeId& id : world.members)
    CHECK_THAT(ErrorText(world.first.at(id).back().status),
               Catch::Contains("not all call the same"));
}

TEST_CASE("TransportRing: values that do not arrive are an error though all say that they live",
          "[group][transport_ring][error]") {
  World world = MakeWorld(3, 1000);
  world.loses_values = true;
  const auto simulation = MakeSimulation(world);
  REQUIRE(simulation->RunUntil([&] { return AllHave(world, 1); }, Instant() + kAllowed));
  for (const NodeId& id : world.members)
    CHECK(ErrorText(world.first.at(id).back().status) ==
          "member 0 of 3: nothing of what it sent has arrived for 7 s");
}

TEST_CASE("TransportRing: an all-reduce takes what its bytes take on the line",
          "[group][transport_ring]") {
  const int32_t members = GENERATE(2, 4, 9);
  constexpr int64_t kValues = 2'000'000;
  World world = MakeWorld(members, kValues);
  world.piece = 0;  // by the size
  world.operations = 1;
  const auto simulation = MakeSimulation(world);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 1); }, Instant() + Duration::Seconds(60)));
  CheckAllRight(world);
  Instant last;
  for (const NodeId& id : world.members) last = std::max(last, world.first.at(id).front().at);
  const double wire = 8.0 * kValues * (members - 1) / members;
  INFO(members << " members");
  CHECK(wire / kBytesPerS / (last - Instant()).seconds() > 0.95);
}

TEST_CASE("TransportRing: between two members no more is under way than the window",
          "[group][transport_ring]") {
  // Member 1 begins late: what member 0 sends it meanwhile waits there.
  World world = MakeWorld(2, 2 * kPiece * 3 * TransportRing::kWindow);
  world.late_start = Duration::Seconds(30);
  const auto simulation = MakeSimulation(world);
  simulation->RunUntil([] { return false; }, Instant() + Duration::Seconds(20));
  CHECK(world.first.empty());
  CHECK(simulation->LongestQueue(world.members[0]) <= TransportRing::kWindow + 8);
  REQUIRE(
      simulation->RunUntil([&] { return AllHave(world, 2); }, Instant() + Duration::Seconds(60)));
  CheckAllRight(world);
}

}  // namespace skerry
