// Checkpoints on a real disk, where chunks are read, verified and written by several threads.
#include <catch2/catch.hpp>
#include <thread>

#include "common/digest.h"
#include "common/rng.h"
#include "common/tree_digest.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/chunk_reader.h"
#include "coordinator/guarded_files.h"
#include "coordinator/stage_writer.h"
#include "model/stage_state.h"
#include "tests/model/temporary_directory.h"

using namespace skerry;

namespace {

Bytes RandomBytes(uint64_t seed, size_t size) {
  Rng rng(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.Next());
  return bytes;
}

NamedChunk ChunkOf(uint64_t seed, size_t size) {
  const Bytes bytes = RandomBytes(seed, size);
  return {DigestOf(std::span<const uint8_t>(bytes)), MakePayload(bytes)};
}

CheckpointArchive On(const TemporaryDirectory& directory) {
  return CheckpointArchive(std::make_unique<GuardedFiles>(
      *DiskCheckpointFiles::Open(directory.path()), [] { return true; }));
}

// Of one stage.
Checkpoint Of(const std::vector<NamedChunk>& chunks) {
  Checkpoint checkpoint;
  checkpoint.generation = 1;
  CheckpointStage stage{0, 1, true, 0, {}};
  for (const NamedChunk& chunk : chunks) {
    stage.bytes += chunk.bytes.size();
    stage.chunks.push_back(chunk.digest);
  }
  checkpoint.stages.push_back(stage);
  return checkpoint;
}

}  // namespace

TEST_CASE("A damaged chunk is named wherever in a group it lies, and so is a missing one",
          "[checkpoint][error]") {
  const TemporaryDirectory directory;
  CheckpointArchive archive = On(directory);
  // Ends that are multiples of what a disk reads at once, and others.
  std::vector<NamedChunk> chunks;
  for (const size_t size : {4096, 1, 8192, 4097, 4095, 300, 12288, 5000, 4096, 77}) {
    for (int i = 0; i < 3; ++i) chunks.push_back(ChunkOf(chunks.size(), size));
  }
  for (size_t i = 0; i < chunks.size(); i += kChunksTogether) {
    const auto rest = std::span(chunks).subspan(i);
    REQUIRE(archive.Put(rest.first(std::min(rest.size(), kChunksTogether))).ok());
  }
  const Checkpoint checkpoint = Of(chunks);
  REQUIRE(archive.Commit(checkpoint).ok());
  REQUIRE(archive.Problems(checkpoint, true).empty());
  const size_t bad = GENERATE(range(size_t{0}, size_t{30}));
  const std::string path = directory.Join(ChunkPath(chunks[bad].digest));
  std::string bytes = ReadFile(path);
  const std::string what = GENERATE("damaged", "short", "long", "missing");
  if (what == "damaged") bytes[bytes.size() - 1] ^= 1;
  if (what == "short") bytes.pop_back();
  if (what == "long") bytes.push_back('\0');
  std::filesystem::remove(path);
  if (what != "missing") WriteFile(path, bytes);

  const std::vector<std::string> problems = archive.Problems(checkpoint, true);

  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("chunk " + std::to_string(bad) + " of stage 0") != std::string::npos);
  CHECK(problems[0].find(what == "missing" ? "is missing" : "is damaged") != std::string::npos);
}

TEST_CASE("ChunkReader: a chunk that no stage has is data loss", "[checkpoint][error]") {
  const TemporaryDirectory directory;
  CheckpointArchive archive = On(directory);
  const NamedChunk chunk = ChunkOf(1, 500);
  REQUIRE(archive.Put(std::span(&chunk, 1)).ok());
  const Checkpoint checkpoint = Of({chunk});
  const auto files = *DiskCheckpointFiles::Open(directory.path());
  ChunkReader reader(*files, checkpoint);
  CHECK(reader.Get(0, 0)->size() == 500);
  CHECK(absl::IsDataLoss(reader.Get(0, 1).status()));
  CHECK(reader.Get(0, 0)->size() == 500);
}

TEST_CASE("Several threads write chunks that are partly the same into one archive",
          "[checkpoint][threads]") {
  const TemporaryDirectory directory;
  CheckpointArchive archive = On(directory);
  std::vector<NamedChunk> all;
  for (uint64_t seed = 0; seed < 64; ++seed) all.push_back(ChunkOf(seed, 20'000));
  std::vector<std::thread> writers;
  std::vector<absl::Status> written(4);
  for (size_t writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (size_t first = 8 * writer; first + 8 <= all.size() && written[writer].ok(); first += 8) {
        written[writer] = archive.Put(std::span(all).subspan(first, 8));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();

  for (const absl::Status& status : written) CHECK(status.ok());
  REQUIRE(archive.Commit(Of(all)).ok());
  CHECK(archive.Problems(Of(all), true).empty());
}

TEST_CASE("StageWriter: the state is what was added and its digest, whatever the parts",
          "[checkpoint]") {
  const TemporaryDirectory directory;
  CheckpointArchive archive = On(directory);
  const auto size =
      static_cast<size_t>(GENERATE(kCheckpointChunkBytes - 32, 9 * kCheckpointChunkBytes + 5));
  const Bytes body = RandomBytes(3, size);
  StageWriter writer(archive);
  for (auto rest = std::span(body); !rest.empty();) {
    const auto part = rest.first(std::min<size_t>(rest.size(), 1'000'003));
    REQUIRE(writer.Add(part).ok());
    rest = rest.subspan(part.size());
  }
  Checkpoint checkpoint = Of({});

  REQUIRE(writer.Finish(&checkpoint.stages[0]).ok());

  REQUIRE(archive.Commit(checkpoint).ok());
  CHECK(archive.Problems(checkpoint, true).empty());
  Bytes got;
  for (const Digest& chunk : checkpoint.stages[0].chunks) {
    const std::string bytes = ReadFile(directory.Join(ChunkPath(chunk)));
    got.insert(got.end(), bytes.begin(), bytes.end());
  }
  Bytes want = body;
  const Digest sum = TreeDigestOf(body);
  want.insert(want.end(), sum.bytes.begin(), sum.bytes.end());
  CHECK(std::ssize(got) == checkpoint.stages[0].bytes);
  const bool is_equal = got == want;  // not printed where they differ
  CHECK(is_equal);
}

TEST_CASE("Prepare: several stages at a time are put together as in memory",
          "[checkpoint][threads]") {
  const TemporaryDirectory directory;
  CheckpointArchive on_disk = On(directory);
  CheckpointArchive in_memory(
      std::make_unique<MemoryCheckpointFiles>(std::make_shared<CheckpointDisk>()));
  TransformerConfig model;
  model.vocab = model.hidden = 64;
  model.heads = model.kv_heads = 2;
  model.ffn = 96;
  model.layers = 6;
  Checkpoint checkpoint;
  checkpoint.generation = 1;
  checkpoint.model = model;
  for (int32_t first = 0; first < 6; first += 3) {
    CheckpointStage stage{first, first + 3, first == 0, 0, {}};
    const auto layout = ParameterLayout::ForStage(model, first, first + 3, first == 0);
    Bytes state = NewState(layout.size(), layout.size(), 1, 4);
    Rng rng(static_cast<uint64_t>(first));
    for (float& value : ArraysOf(state).base) value = static_cast<float>(rng.Uniform());
    SealState(&state);
    stage.bytes = std::ssize(state);
    const NamedChunk chunk{DigestOf(std::span<const uint8_t>(state)), MakePayload(state)};
    stage.chunks = {chunk.digest};
    for (CheckpointArchive* archive : {&on_disk, &in_memory}) {
      REQUIRE(archive->Put(std::span(&chunk, 1)).ok());
    }
    checkpoint.stages.push_back(stage);
  }
  std::vector<StageAssignment> stages;
  for (int32_t layer = 0; layer < 6; ++layer) stages.push_back({layer, layer + 1, {}});

  for (CheckpointArchive* archive : {&on_disk, &in_memory}) {
    REQUIRE(archive->Commit(checkpoint).ok());
    REQUIRE(archive->Prepare(1, 3, model, stages).ok());
  }

  for (int32_t i = 0; i < 6; ++i) {
    const ObjectChunk a = on_disk.Read(i, {"x", 0, 1 << 24}),
                      b = in_memory.Read(i, {"x", 0, 1 << 24});
    REQUIRE(a.total_bytes > 0);
    CHECK(*a.values == *b.values);
    const auto layout = ParameterLayout::ForStage(model, i, i + 1, i == 0);
    CHECK(DecodeState(View(a.values), layout.size()).ok());
  }
}
