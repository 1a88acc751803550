#include "node/state_transfer.h"

#include <catch2/catch.hpp>
#include <map>

#include "common/digest.h"
#include "tests/coordinator/fake_context.h"

using namespace skerry;
using skerry::testing::FakeContext;

namespace {

constexpr int64_t kCommon = 5 * kStateChunkBytes + 100, kMoments = 2 * kStateChunkBytes + 8;
const NodeId kCoordinator = TestNodeId(0);

NodeId Donor(int i) {
  return TestNodeId(static_cast<uint32_t>(i) + 1);
}

Bytes Filled(int64_t size, uint8_t salt) {
  Bytes bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / 1000 + salt);
  return bytes;
}

// A stage of two arrays; moments whose first byte is 255 are none.
class TwoArrays final : public StageWork {
 public:
  int64_t boundary_bytes() const override { return 4; }
  int32_t microbatch_tokens() const override { return 1; }
  Duration Cost(WorkKind) const override { return {}; }
  WorkResult ForwardFirst(int64_t, int32_t) override { return {}; }
  WorkResult Forward(int64_t, int32_t, const Payload&) override { return {}; }
  WorkResult Loss(int64_t, int32_t, const Payload&) override { return {}; }
  WorkResult Backward(int64_t, int32_t, const Payload&) override { return {}; }
  void Accumulate(int64_t, int32_t) override {}
  void Discard(int64_t, int32_t) override {}
  absl::Status OptimizerStep(int64_t, int32_t) override { return absl::OkStatus(); }
  absl::StatusOr<Payload> EncodeDelta(int64_t) override { return Payload(); }
  absl::Status ApplyRound(int64_t, const std::vector<Accepted>&) override {
    return absl::OkStatus();
  }
  absl::Status CheckDelta(int64_t, const Payload&) const override { return absl::OkStatus(); }
  absl::Status SetTable(int64_t, const Bytes&) override { return absl::OkStatus(); }
  void AdoptBase() override {}
  Digest BaseDigest() override { return {}; }
  Payload BaseParameters() override { return {}; }
  absl::StatusOr<Payload> SaveState() override { return Payload(); }
  absl::StatusOr<int64_t> RestoreState(const Payload&) override { return int64_t{0}; }
  void StartFromBase(int64_t, int64_t) override {}
  JoinersSizes SizesForJoiners() const override { return {kCommon, kMoments}; }
  absl::Status CheckMoments(int64_t, std::span<const uint8_t> bytes) const override {
    return bytes[0] == 255 ? absl::DataLossError("none") : absl::OkStatus();
  }
};

// Donors that answer what they are asked, some of them falsely.
struct Stage {
  Stage() {
    Bytes bytes;
    for (int64_t chunk = 0; chunk < StateChunks(kCommon); ++chunk) {
      const Digest digest = DigestOf(PartOf(common, chunk * kStateChunkBytes, kStateChunkBytes));
      bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.end());
    }
    table = MakePayload(bytes);
    root = DigestOf(std::span<const uint8_t>(*table));
  }
  void Begin(int donors) {
    std::vector<NodeId> live;
    for (int i = 0; i < donors; ++i) live.push_back(Donor(i));
    transfer.SetDonors(context, live);
    transfer.Begin(context, &work);
    for (int i = 0; i < donors; ++i) {
      transfer.OnRoot(context, Donor(i), StateRoot{3, 7, root, 100 + i});
    }
    transfer.OnRoot(context, kCoordinator, StateRoot{3, 7, root, 0});
  }
  // Answers until nobody is asked anything more.
  void Answer() {
    while (!context.sends.empty()) {
      const auto [to, message] = context.sends.front();
      context.sends.erase(context.sends.begin());
      if (const auto* said = std::get_if<StateRefuted>(&message)) {
        CHECK(to == kCoordinator);
        refuted.push_back(*said);
        continue;
      }
      const auto& request = std::get<ObjectRequest>(message);
      ++asked[to];
      if (silent.contains(to)) continue;
      context.AdvanceTo(context.now() + Duration::Millis(10));
      transfer.OnChunk(context, to, Given(to, request));
    }
  }
  ObjectChunk Given(const NodeId& donor, const ObjectRequest& request) {
    const bool is_table = request.object == "table/3/7", is_state = request.object == "state/3/7";
    REQUIRE((is_table || is_state || request.object == "moments/3/7"));
    const Payload& object = is_table ? table : is_state ? common : moments;
    CHECK(request.offset + request.length <= object.size());
    const auto part = PartOf(object, request.offset, request.length);
    Bytes bytes(part.begin(), part.end());
    if (is_table && lies_in_table.contains(donor)) bytes[5] ^= 1;
    if (is_state && lies_in_state.contains(donor)) bytes.back() ^= 1;
    if (!is_table && !is_state && lies_in_moments.contains(donor)) bytes[0] = 255;
    if (is_state && cuts_short.contains(donor)) bytes.pop_back();
    return {request.object, request.offset, object.size(), MakePayload(std::move(bytes))};
  }
  // What was taken is what honest donors have.
  void CheckDone() {
    REQUIRE(transfer.Done());
    const auto taken = transfer.Take();
    Bytes all_common, all_moments;
    for (const Payload& chunk : taken.common) {
      all_common.insert(all_common.end(), chunk->begin(), chunk->end());
    }
    for (const Payload& chunk : taken.moments) {
      all_moments.insert(all_moments.end(), chunk->begin(), chunk->end());
    }
    CHECK(all_common == *common);
    CHECK(all_moments == *moments);
    CHECK(taken.version == 7);
    steps = taken.inner_steps;
  }

  FakeContext context;
  TwoArrays work;
  Payload common = MakePayload(Filled(kCommon, 1)), moments = MakePayload(Filled(kMoments, 9));
  Payload table;
  Digest root;
  StateTransfer transfer{3, 7, kCoordinator,
                         [](Context& c, const NodeId& to, Message m) { c.Send(to, std::move(m)); }};
  std::set<NodeId> silent, lies_in_table, lies_in_state, lies_in_moments, cuts_short;
  std::map<NodeId, int> asked;
  std::vector<StateRefuted> refuted;
  int64_t steps = 0;
};

}  // namespace

TEST_CASE("StateTransfer: every chunk once, from all donors, held to the root", "[node][join]") {
  Stage stage;
  stage.Begin(3);
  stage.Answer();
  stage.CheckDone();
  CHECK(stage.asked.size() == 3);
  CHECK(stage.refuted.empty());
  CHECK(stage.steps == 100);
}

TEST_CASE(
    "StateTransfer: nothing is asked before the coordinator has said the root, nor of who "
    "said another",
    "[node][join]") {
  Stage stage;
  stage.transfer.SetDonors(stage.context, {Donor(0), Donor(1)});
  stage.transfer.Begin(stage.context, &stage.work);
  stage.transfer.OnRoot(stage.context, Donor(0), StateRoot{3, 7, Digest{{9}}, 1});
  stage.transfer.OnRoot(stage.context, Donor(1), StateRoot{3, 7, stage.root, 1});
  CHECK(stage.context.sends.empty());
  stage.transfer.OnRoot(stage.context, kCoordinator, StateRoot{3, 8, Digest{{9}}, 0});
  CHECK(stage.context.sends.empty());
  stage.transfer.OnRoot(stage.context, kCoordinator, StateRoot{3, 7, stage.root, 0});
  stage.Answer();
  stage.CheckDone();
  CHECK_FALSE(stage.asked.contains(Donor(0)));
}

TEST_CASE("StateTransfer: who gives something else is asked no more, and reported",
          "[node][join]") {
  Stage stage;
  int64_t chunk = -1;
  SECTION("another list of chunks") {
    stage.lies_in_table = {Donor(0)};
  }
  SECTION("another chunk") {
    stage.lies_in_state = {Donor(0)};
    chunk = 0;
  }
  SECTION("a chunk cut short") {
    stage.cuts_short = {Donor(0)};
    chunk = 0;
  }
  SECTION("moments that are none") {
    stage.lies_in_moments = {Donor(0)};
    chunk = StateChunks(kCommon);
  }
  stage.Begin(2);
  stage.Answer();
  stage.CheckDone();
  REQUIRE(stage.refuted.size() == 1);
  CHECK(stage.refuted[0].donor == Donor(0));
  CHECK(stage.refuted[0].stage == 3);
  CHECK(stage.refuted[0].round == 7);
  CHECK((chunk < 0 ? stage.refuted[0].chunk == -1 : stage.refuted[0].chunk >= chunk));
}

TEST_CASE("StateTransfer: a donor that falls silent with the list, or later, is followed by others",
          "[node][join]") {
  Stage stage;
  stage.silent = {Donor(0)};
  stage.Begin(2);
  for (int second = 0; second < 20 && !stage.transfer.Done(); ++second) {
    stage.Answer();
    stage.context.AdvanceTo(stage.context.now() + Duration::Seconds(1));
    const auto timers = std::exchange(stage.context.timers, {});
    for (const auto& [at, timer] : timers) stage.transfer.OnTimer(stage.context, timer);
  }
  stage.CheckDone();
  CHECK(stage.refuted.empty());
}

TEST_CASE("StateTransfer: what is here stays when all donors are gone, and others come",
          "[node][join]") {
  Stage stage;
  stage.Begin(1);
  for (int i = 0; i < 4; ++i) {  // the list, and some chunks
    const auto [to, message] = stage.context.sends.front();
    stage.context.sends.erase(stage.context.sends.begin());
    stage.transfer.OnChunk(stage.context, to, stage.Given(to, std::get<ObjectRequest>(message)));
  }
  stage.context.sends.clear();
  stage.transfer.SetDonors(stage.context, {});
  CHECK(stage.context.sends.empty());
  stage.transfer.OnRoot(stage.context, Donor(5), StateRoot{3, 7, stage.root, 50});
  stage.transfer.SetDonors(stage.context, {Donor(5)});
  stage.Answer();
  stage.CheckDone();
  CHECK(stage.asked.at(Donor(5)) == StateChunks(kCommon) + StateChunks(kMoments) - 3);
}

TEST_CASE("StateTransfer: hollow payloads keep their sizes and what they hold", "[node][join]") {
  Stage stage;
  stage.common = MakeHollowPayload({1, 2, 3}, kCommon);
  stage.moments = MakeHollowPayload({}, kMoments);
  CHECK(PartOf(stage.common, 0, 2).size() == 2);
  CHECK(PartOf(stage.common, kStateChunkBytes, 10).empty());
}
