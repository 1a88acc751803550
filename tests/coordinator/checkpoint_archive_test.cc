// The archive of checkpoints: content-addressed, whole or not at all whenever its process dies, and
// put together again for any stages.

#include "coordinator/checkpoint_archive.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/digest.h"
#include "coordinator/guarded_files.h"
#include "model/stage_state.h"

using namespace skerry;

namespace {

TransformerConfig SmallModel() {
  return {
      .vocab = 16, .hidden = 16, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 24, .context = 8};
}

// Each value tells its array and its place in the whole model.
std::vector<float> WholeArray(int64_t array, float salt) {
  const auto layout = ParameterLayout::ForModel(SmallModel());
  std::vector<float> values(static_cast<size_t>(layout.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = salt + static_cast<float>(array * 100'000) + static_cast<float>(i);
  }
  return values;
}

Bytes StateOf(int32_t first, int32_t last, float salt) {
  const auto whole = ParameterLayout::ForModel(SmallModel());
  const auto layout = ParameterLayout::ForStage(SmallModel(), first, last, first == 0);
  StageState state;
  state.version = 8;
  state.inner_steps = 32;
  std::vector<float>* arrays[] = {&state.base, &state.momentum, &state.first_moment,
                                  &state.second_moment};
  for (int64_t a = 0; a < 4; ++a) {
    arrays[a]->resize(static_cast<size_t>(layout.size()));
    CopyTensors(whole, WholeArray(a, salt), layout, *arrays[a]);
  }
  return EncodeState(state);
}

struct Written {
  Checkpoint checkpoint;
  std::vector<Bytes> states;
};

Written TwoStages(int64_t generation, float salt) {
  Written made;
  Checkpoint& of = made.checkpoint;
  of.generation = generation;
  of.round = 8;
  of.step = 32;
  of.tokens = 4096;
  of.config = "[run]\nname = \"x\"\n";
  of.model = SmallModel();
  for (const auto& [first, last] : {std::pair{0, 2}, std::pair{2, 4}}) {
    // Equal in all generations, so that they share its chunks.
    const Bytes state = StateOf(first, last, first == 0 ? salt : 0);
    of.stages.push_back({first,
                         last,
                         first == 0,
                         static_cast<int64_t>(state.size()),
                         {DigestOf(std::span<const uint8_t>(state))}});
    of.bytes += static_cast<int64_t>(state.size());
    made.states.push_back(state);
  }
  return made;
}

absl::Status Write(CheckpointArchive& archive, const Written& made) {
  for (size_t s = 0; s < made.states.size(); ++s) {
    const NamedChunk chunk{made.checkpoint.stages[s].chunks[0], MakePayload(made.states[s])};
    const absl::Status put = archive.Put(std::span(&chunk, 1));
    if (!put.ok()) return put;
  }
  return archive.Commit(made.checkpoint);
}

CheckpointArchive On(const std::shared_ptr<CheckpointDisk>& disk) {
  return CheckpointArchive(std::make_unique<MemoryCheckpointFiles>(disk));
}

std::vector<StageAssignment> Cut(const std::vector<int32_t>& ends) {
  std::vector<StageAssignment> stages;
  int32_t first = 0;
  for (const int32_t end : ends) {
    stages.push_back({first, end, {}});
    first = end;
  }
  return stages;
}

Bytes ReadAll(CheckpointArchive& archive, int32_t stage) {
  Bytes all;
  while (true) {
    const ObjectChunk chunk =
        archive.Read(stage, {"replica/0", static_cast<int64_t>(all.size()), 1000});
    if (chunk.total_bytes < 0) return all;
    const auto part = View(chunk.values);
    all.insert(all.end(), part.begin(), part.end());
  }
}

}  // namespace

TEST_CASE("CheckpointArchive: states are put together for any number of stages", "[checkpoint]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  REQUIRE(Write(archive, TwoStages(1, 0.5f)).ok());
  const auto ends = GENERATE(std::vector<int32_t>{4}, std::vector<int32_t>{2, 4},
                             std::vector<int32_t>{1, 3, 4}, std::vector<int32_t>{1, 2, 3, 4});

  REQUIRE(archive.Prepare(1, 8, SmallModel(), Cut(ends)).ok());

  const std::vector<StageAssignment> stages = Cut(ends);
  const auto whole = ParameterLayout::ForModel(SmallModel());
  std::vector<std::vector<float>> arrays(4, std::vector<float>(static_cast<size_t>(whole.size())));
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto layout = ParameterLayout::ForStage(SmallModel(), stages[s].first_layer,
                                                  stages[s].last_layer, s == 0);
    const auto state = DecodeState(ReadAll(archive, static_cast<int32_t>(s)), layout.size());
    REQUIRE(state.ok());
    CHECK(state->version == 8);
    CHECK(state->inner_steps == 32);
    CopyTensors(layout, state->base, whole, arrays[0]);
    CopyTensors(layout, state->momentum, whole, arrays[1]);
    CopyTensors(layout, state->first_moment, whole, arrays[2]);
    CopyTensors(layout, state->second_moment, whole, arrays[3]);
  }
  // What the first stage held is salted, the rest is not.
  const auto first = ParameterLayout::ForStage(SmallModel(), 0, 2, true);
  for (int64_t a = 0; a < 4; ++a) {
    std::vector<float> expected = WholeArray(a, 0);
    std::vector<float> part(static_cast<size_t>(first.size()));
    CopyTensors(whole, WholeArray(a, 0.5f), first, part);
    CopyTensors(first, part, whole, expected);
    CHECK(arrays[static_cast<size_t>(a)] == expected);
  }
}

TEST_CASE("CheckpointArchive: a chunk that generations share is kept once, and not fetched again",
          "[checkpoint]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  REQUIRE(Write(archive, TwoStages(1, 1)).ok());
  const Written second = TwoStages(2, 2);

  const auto held =
      archive.Held({second.checkpoint.stages[0].chunks[0], second.checkpoint.stages[1].chunks[0]});

  REQUIRE(held.ok());
  CHECK(*held == std::vector<bool>{false, true});
}

TEST_CASE("CheckpointArchive: what is dropped takes only chunks along that nobody else names",
          "[checkpoint]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  for (int64_t g = 1; g <= 3; ++g) REQUIRE(Write(archive, TwoStages(g, float(g))).ok());

  REQUIRE(archive.Keep({2, 3}).ok());

  CHECK(*archive.Generations() == std::vector<int64_t>{2, 3});
  CHECK_FALSE(archive.Load(1).ok());
  CHECK(MemoryCheckpointFiles(disk).List("chunks")->size() == 3);  // one shared, one each
  for (int64_t g = 2; g <= 3; ++g) CHECK(archive.Problems(*archive.Load(g), true).empty());
}

TEST_CASE("CheckpointArchive: wherever its process dies, what was whole stays whole",
          "[checkpoint][error]") {
  int64_t changes = 0;
  bool all_done = false;
  for (int64_t dies_after = 0; !all_done; ++dies_after) {
    const auto disk = std::make_shared<CheckpointDisk>();
    {
      CheckpointArchive archive = On(disk);
      REQUIRE(Write(archive, TwoStages(1, 1)).ok());
      REQUIRE(Write(archive, TwoStages(2, 2)).ok());
    }
    const int64_t before = disk->changes;
    disk->changes_left = dies_after;
    bool said_whole = false, said_dropped = false;
    {
      CheckpointArchive archive = On(disk);
      said_whole = Write(archive, TwoStages(3, 3)).ok();
      if (said_whole) said_dropped = archive.Keep({2, 3}).ok();
      if (said_dropped) {
        said_dropped = archive.Prepare(3, 8, SmallModel(), Cut({1, 4})).ok();
      }
    }
    changes = std::max(changes, disk->changes - before);
    disk->changes_left = -1;

    CheckpointArchive archive = On(disk);
    const auto generations = archive.Generations();
    REQUIRE(generations.ok());
    const std::set<int64_t> present(generations->begin(), generations->end());
    INFO("it died after " << dies_after << " changes");
    CHECK(present.contains(2));
    if (!said_whole) CHECK(present.contains(1));
    CHECK(present.contains(3) >= said_whole);
    for (const int64_t g : present) {
      const auto loaded = archive.Load(g);
      REQUIRE(loaded.ok());
      CHECK(archive.Problems(*loaded, true).empty());
    }
    // And the next process makes a clean house of it.
    REQUIRE(Write(archive, TwoStages(3, 3)).ok());
    REQUIRE(archive.Keep({2, 3}).ok());
    CHECK(MemoryCheckpointFiles(disk).List("chunks")->size() == 3);
    REQUIRE(archive.Prepare(3, 8, SmallModel(), Cut({1, 4})).ok());
    all_done = said_dropped;
  }
  CHECK(changes > 8);
}

TEST_CASE("CheckpointArchive: a damaged or missing chunk is named by stage, layers and tensor",
          "[checkpoint][error]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  const Written made = TwoStages(1, 1);
  REQUIRE(Write(archive, made).ok());
  const std::string path = "chunks/" + made.checkpoint.stages[1].chunks[0].Hex();
  const bool missing = GENERATE(false, true);
  if (missing) {
    disk->files.erase(path);
  } else {
    disk->files[path][100] ^= 1;
  }

  const auto problems = archive.Problems(made.checkpoint, true);

  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("chunk 0 of stage 1 (layers 2 to 3") != std::string::npos);
  CHECK(problems[0].find("model.layers.2.input_layernorm.weight of the base") != std::string::npos);
  CHECK(problems[0].find(missing ? "is missing" : "is damaged") != std::string::npos);
  CHECK(absl::IsDataLoss(archive.Prepare(1, 8, SmallModel(), Cut({2, 4}))));
  // What is damaged does not count as held, and is mended by being fetched again.
  CHECK(*archive.Held({made.checkpoint.stages[1].chunks[0]}) == std::vector<bool>{false});
  REQUIRE(Write(archive, made).ok());
  CHECK(archive.Problems(made.checkpoint, true).empty());
}

TEST_CASE("CheckpointArchive: a manifest is whole or refused", "[checkpoint][error]") {
  const Written made = TwoStages(1, 1);
  const std::string text = ManifestText(made.checkpoint);
  const auto parsed = ParseManifest(text);
  REQUIRE(parsed.ok());
  CHECK(parsed->stages == made.checkpoint.stages);
  CHECK(parsed->model == made.checkpoint.model);
  CHECK(parsed->config == made.checkpoint.config);
  for (size_t length = 0; length < text.size(); length += 97) {
    CHECK_FALSE(ParseManifest(text.substr(0, length)).ok());
  }
  std::string damaged = text;
  damaged[text.size() / 2] ^= 1;
  CHECK(absl::IsDataLoss(ParseManifest(damaged).status()));
}

TEST_CASE("CheckpointArchive: a model with a ladder is of a format that older programs refuse",
          "[checkpoint][ladder]") {
  Written made = TwoStages(1, 1);
  CHECK(ManifestText(made.checkpoint).find("\"format\": 1,") != std::string::npos);
  made.checkpoint.model.ladder = 2;
  const std::string text = ManifestText(made.checkpoint);
  CHECK(text.find("\"format\": 2,") != std::string::npos);
  const auto parsed = ParseManifest(text);
  REQUIRE(parsed.ok());
  CHECK(parsed->model == made.checkpoint.model);
}

TEST_CASE("CheckpointArchive: bytes that are not those of their digest are not kept",
          "[checkpoint][error]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  const Bytes good(10, 1);
  const std::vector<NamedChunk> chunks = {
      {DigestOf(std::span<const uint8_t>(good)), MakePayload(good)}, {Digest(), MakePayload(good)}};
  CHECK(absl::IsDataLoss(archive.Put(chunks)));
  CHECK(disk->files.empty());
}

TEST_CASE("CheckpointArchive: the base of the whole model is exported from any stages",
          "[checkpoint]") {
  const auto disk = std::make_shared<CheckpointDisk>();
  CheckpointArchive archive = On(disk);
  const Written made = TwoStages(1, 0);
  REQUIRE(Write(archive, made).ok());
  const auto base = archive.BaseOf(made.checkpoint);
  REQUIRE(base.ok());
  CHECK(*base == WholeArray(0, 0));
}

TEST_CASE(
    "GuardedFiles: what is begun while leading is not there if the lead is lost before its end",
    "[coordinator][checkpoint]") {
  bool leads = true;
  const auto disk = std::make_shared<CheckpointDisk>();
  GuardedFiles files(std::make_unique<MemoryCheckpointFiles>(disk), [&] { return leads; });
  auto kept = files.Create("generations/000001.json");
  REQUIRE(kept.ok());
  REQUIRE((*kept)->Commit().ok());
  auto begun = files.Create("generations/000002.json");
  REQUIRE(begun.ok());
  leads = false;
  CHECK(absl::IsAborted((*begun)->Commit()));
  CHECK(absl::IsAborted(files.Create("chunks/ab").status()));
  CHECK(absl::IsAborted(files.Remove("generations/000001.json")));
  CHECK(files.List("generations").value() == std::vector<std::string>{"000001.json"});
}

TEST_CASE("A stage that nobody gave is made from its neighbours, layer by layer",
          "[checkpoint][neighbours]") {
  CheckpointArchive archive = On(std::make_shared<CheckpointDisk>());
  Written made = TwoStages(1, 0.5f);
  made.checkpoint.stages.clear();
  made.states.clear();
  constexpr int32_t kLost = 1;
  for (int32_t layer = 0; layer < 4; ++layer) {
    const Bytes state = StateOf(layer, layer + 1, 0.5f);
    CheckpointStage stage{layer, layer + 1, layer == 0, 0, {}};
    if (layer != kLost) {
      const Digest digest = DigestOf(std::span<const uint8_t>(state));
      stage.bytes = std::ssize(state);
      stage.chunks = {digest};
      const NamedChunk chunk{digest, MakePayload(state)};
      REQUIRE(archive.Put(std::span(&chunk, 1)).ok());
    }
    made.checkpoint.stages.push_back(stage);
  }

  REQUIRE(archive.Remake(&made.checkpoint, {kLost}).ok());
  REQUIRE(archive.Commit(made.checkpoint).ok());
  REQUIRE(archive.Prepare(1, 8, SmallModel(), Cut({1, 2, 3, 4})).ok());

  const auto layer = [](int32_t l) {
    return ParameterLayout::ForStage(SmallModel(), l, l + 1, false);
  };
  const auto state = DecodeState(ReadAll(archive, kLost), layer(kLost).size());
  REQUIRE(state.ok());
  const auto of = [&](int64_t array, int32_t l) {
    std::vector<float> values(static_cast<size_t>(layer(l).size()));
    CopyTensors(ParameterLayout::ForModel(SmallModel()), WholeArray(array, 0.5f), layer(l), values);
    return values;
  };
  double before = 0, after = 0;
  for (const float v : of(3, 0)) before += double{v};
  for (const float v : of(3, 2)) after += double{v};
  const double share = before / (before + after);
  for (const int64_t array : {0, 3}) {
    const auto a = of(array, 0), b = of(array, 2);
    const auto& got = array == 0 ? state->base : state->second_moment;
    size_t wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      wrong += got[i] != static_cast<float>(share * double{a[i]} + (1 - share) * double{b[i]});
    }
    CHECK(wrong == 0);
  }
  const std::vector<float> zeros(state->base.size(), 0.0f);
  CHECK(state->momentum == zeros);
  CHECK(state->first_moment == zeros);
}

TEST_CASE("A stage at an end, or of another shape than its neighbours, is not made from them",
          "[checkpoint][neighbours][error]") {
  CheckpointArchive archive = On(std::make_shared<CheckpointDisk>());
  Checkpoint checkpoint = TwoStages(1, 0).checkpoint;
  checkpoint.stages = {{0, 1, true, 0, {}}, {1, 3, false, 0, {}}, {3, 4, false, 0, {}}};
  const int32_t stage = GENERATE(0, 1, 2);
  CHECK(absl::IsFailedPrecondition(archive.Remake(&checkpoint, {stage})));
}
