// The end of a run: the model is collected, checked, written, and everybody sent home.

#include "common/digest.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;

namespace {

const Bytes& BaseOf(int32_t stage) {
  static const std::map<int32_t, Bytes> bases = [] {
    std::map<int32_t, Bytes> made;
    for (int32_t s = 0; s < 2; ++s) {  // 10.5 and 11.5 chunks
      made[s] = Bytes(static_cast<size_t>(kObjectChunkBytesMax * (21 + 2 * s) / 2));
      for (size_t i = 0; i < made[s].size(); ++i) made[s][i] = static_cast<uint8_t>(i * 31 / 7);
    }
    return made;
  }();
  return bases.at(stage);
}

void Finish(ServedRun& run) {
  for (int32_t stage = 0; stage < 2; ++stage) {
    for (int64_t round = 0; round < 2; ++round) {
      for (const NodeId& holder : run.Live(stage)) {
        for (const NodeId& sender : run.Live(stage)) run.From(holder, Held(stage, round, sender));
      }
      for (const NodeId& node : run.Live(stage)) {
        run.From(node, RoundApplied{stage, round, DigestOf(BaseOf(stage)), 2.0, 0.5});
      }
    }
  }
  Heartbeat beat;
  beat.phase = Phase::kFinished;
  beat.step = 4;
  beat.bytes_sent = 100;
  beat.bytes_received = 50;
  for (int i = 0; i < 4; ++i) run.From(i, beat);
}

ObjectChunk Serve(const ObjectRequest& request, const Bytes& base) {
  const auto begin = static_cast<size_t>(request.offset);
  const size_t end = std::min(base.size(), begin + static_cast<size_t>(request.length));
  return {request.object, request.offset, static_cast<int64_t>(base.size()),
          MakePayload(Bytes(base.begin() + static_cast<ptrdiff_t>(begin),
                            base.begin() + static_cast<ptrdiff_t>(end)))};
}

// Nodes answer requests; `answers` may drop or change an answer (nullopt: silence).
using Answers = std::function<std::optional<ObjectChunk>(const NodeId&, const ObjectRequest&)>;
size_t Collect(ServedRun& run, const Answers& answers, int seconds) {
  size_t window = 0;
  std::vector<std::pair<NodeId, ObjectRequest>> open;
  for (int second = 0; second < seconds && !run.context.stopped;) {
    for (const auto& [to, message] : run.TakeSends()) {
      if (const auto* r = std::get_if<ObjectRequest>(&message)) open.emplace_back(to, *r);
    }
    window = std::max(window, open.size());
    if (open.empty()) {
      run.RunJobs();
      if (run.context.sends.empty()) {
        run.Pass(1);
        ++second;
        for (int i = 0; i < 4; ++i) run.From(i, DeltaHeld{});  // alive
      }
      continue;
    }
    const auto [node, request] = open.front();
    open.erase(open.begin());
    if (const auto chunk = answers(node, request)) run.From(node, *chunk);
  }
  return window;
}

std::optional<ObjectChunk> Honest(const NodeId&, const ObjectRequest& request) {
  return Serve(request, BaseOf(request.object == "base/0" ? 0 : 1));
}

}  // namespace

TEST_CASE("When all live replicas are finished the model is collected and everybody sent home",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  const auto finished = run.LastEvent("finished");
  CHECK(finished["bytes_sent"] == 400);
  CHECK(finished["bytes_received"] == 200);
  CHECK(finished["outer_rounds"] == 2);
  CHECK(finished["hidden_fraction"].get<double>() == Approx(0.75));

  const size_t window = Collect(run, Honest, 5);

  CHECK(window == 4);
  CHECK(run.model.stages.at(0) == BaseOf(0));
  CHECK(run.model.stages.size() == 2);
  CHECK(run.model.finished == 1);
  CHECK(run.LastEvent("exported")["path"] == "memory");
  CHECK(run.context.stopped);
  CHECK(run.context.stop_code == 0);
  CHECK(run.Fold().exported);
  CHECK(nlohmann::json::parse(run.status)["phase"] == "finished");
}

TEST_CASE("One replica that is not finished holds up the end", "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  REQUIRE(run.state().finished);
  ServedRun other;
  other.Gather();
  Heartbeat beat;
  beat.phase = Phase::kFinished;
  for (int i = 0; i < 3; ++i) other.From(i, beat);
  CHECK_FALSE(other.state().finished);
}

TEST_CASE("A replica that falls silent, has nothing or has other bits is not the only one asked",
          "[coordinator]") {
  const int fault = GENERATE(0, 1, 2);
  ServedRun run;
  run.Gather();
  Finish(run);
  NodeId faulty;
  int chunks = 0;
  const Answers answers = [&](const NodeId& node,
                              const ObjectRequest& request) -> std::optional<ObjectChunk> {
    if (faulty.IsZero()) faulty = node;
    if (node != faulty) return Honest(node, request);
    if (fault == 0 && ++chunks > 3) return std::nullopt;
    if (fault == 1) return ObjectChunk{request.object, request.offset, -1, nullptr};
    ObjectChunk chunk = *Honest(node, request);
    if (fault == 2)
      chunk = {chunk.object, chunk.offset, chunk.total_bytes,
               MakePayload(Bytes(View(chunk.values).size(), 1))};
    return chunk;
  };

  Collect(run, answers, 40);

  CHECK(run.CountEvents("digest_mismatch") == (fault == 2 ? 1 : 0));
  CHECK(run.model.finished == 1);
  CHECK(run.model.stages.at(0) == BaseOf(0));
  CHECK(run.context.stop_code == 0);
}

TEST_CASE("Chunks from somebody else, of another size or place are refused", "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  const auto replicas = run.Live(0);
  NodeId asked, other;
  for (const NodeId& node : replicas) {
    (run.SentTo<ObjectRequest>(node).empty() ? other : asked) = node;
  }
  const int64_t before = run.actor->refused();
  const auto total = static_cast<int64_t>(BaseOf(0).size());
  run.From(other, *Honest(other, {"base/0", 0, kObjectChunkBytesMax}));
  run.From(asked, *Honest(asked, {"base/1", 0, kObjectChunkBytesMax}));
  run.From(asked, *Honest(asked, {"base/0", kObjectChunkBytesMax, kObjectChunkBytesMax}));
  run.From(asked, ObjectChunk{"base/0", 0, total, nullptr});
  run.From(asked, ObjectChunk{"base/0", 0, 8, MakePayload(Bytes(9))});
  run.From(asked, ObjectChunk{"base/0", 0, int64_t{1} << 60, MakePayload(Bytes(9))});
  CHECK(run.actor->refused() == before + 6);
  Collect(run, Honest, 15);
  CHECK(run.model.finished == 1);
}

TEST_CASE("A disk that refuses the model ends the process, not the run", "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  run.model.full_disk = true;
  Collect(run, Honest, 5);
  CHECK(run.context.stop_code == 1);
  CHECK_FALSE(run.Fold().exported);
  for (int i = 0; i < 4; ++i) CHECK(run.SentTo<Shutdown>(Node(i)).empty());

  run.model.full_disk = false;
  run.Restart();
  for (int i = 0; i < 4; ++i) {
    Hello hello = ServedRun::HelloOf(i);
    hello.plan_version = 1;
    run.From(i, hello);
  }
  Collect(run, Honest, 15);
  CHECK(run.model.finished == 1);
  CHECK(run.context.stop_code == 0);
  CHECK(run.CountEvents("finished") == 1);  // told again: the first line may be lost
}

TEST_CASE("A coordinator that died after the export still sends home who waits", "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  Collect(run, Honest, 5);
  REQUIRE(run.Fold().exported);
  run.Restart();
  REQUIRE_FALSE(run.context.stopped);
  for (int i = 0; i < 4; ++i) {
    Hello hello = ServedRun::HelloOf(i);
    hello.plan_version = 1;
    run.From(i, hello);
    CHECK(run.SentTo<Shutdown>(Node(i)).size() == 1);
  }
  CHECK(run.context.stopped);
  CHECK(run.context.stop_code == 0);
  CHECK(run.model.finished == 1);
}

TEST_CASE("Nobody waits for ever after the export", "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  Collect(run, Honest, 5);
  run.Restart();
  run.Pass(run.config.node_silent_s + 1);
  CHECK(run.context.stopped);
}

TEST_CASE("A stage whose last replica is gone before it was collected is lost, and said to be",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  Finish(run);
  for (const NodeId& node : run.Live(1)) run.From(node, skerry::Leave{""});
  Collect(run, Honest, 15);
  CHECK(run.context.stop_code == 1);
  CHECK(run.context.stop_reason.find("no replica of stage 1 is left") != std::string::npos);
}
