// Chunks are waited for once, all together, and before the manifest that names them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/digest.h"
#include "coordinator/checkpoint_archive.h"

using namespace skerry;

namespace {

// Notes what is done to which file, in order.
class NotedFiles final : public CheckpointFiles {
 public:
  NotedFiles(std::shared_ptr<CheckpointDisk> disk, std::vector<std::string>* notes)
      : files_(std::move(disk)), notes_(notes) {}
  absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path) override {
    auto writer = files_.Create(path);
    if (!writer.ok()) return writer.status();
    return std::make_unique<NotedWriter>(*std::move(writer), path, notes_);
  }
  absl::Status Sync(const std::string& folder, const std::vector<std::string>& names) override {
    for (const std::string& name : names) notes_->push_back("synced " + folder + "/" + name);
    return files_.Sync(folder, names);
  }
  int64_t SizeOf(const std::string& path) override { return files_.SizeOf(path); }
  absl::StatusOr<Bytes> Read(const std::string& path, int64_t offset, int64_t length) override {
    return files_.Read(path, offset, length);
  }
  absl::Status Remove(const std::string& path) override { return files_.Remove(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_.List(folder);
  }

 private:
  struct NotedWriter final : Writer {
    NotedWriter(std::unique_ptr<Writer> to, std::string of, std::vector<std::string>* in)
        : writer(std::move(to)), path(std::move(of)), notes(in) {}
    absl::Status Write(std::span<const uint8_t> bytes) override { return writer->Write(bytes); }
    absl::Status Commit() override {
      notes->push_back("synced " + path);
      return writer->Commit();
    }
    absl::Status Place() override {
      notes->push_back("placed " + path);
      return writer->Place();
    }
    std::unique_ptr<Writer> writer;
    std::string path;
    std::vector<std::string>* notes;
  };
  MemoryCheckpointFiles files_;
  std::vector<std::string>* notes_;
};

// Of one stage, of as many chunks as there are letters.
Checkpoint Of(int64_t generation, const std::string& letters) {
  Checkpoint checkpoint;
  checkpoint.generation = generation;
  CheckpointStage stage{0, 1, true, std::ssize(letters), {}};
  for (const char letter : letters) {
    stage.chunks.push_back(DigestOf(std::span<const uint8_t>(Bytes(1, uint8_t(letter)))));
  }
  checkpoint.stages.push_back(stage);
  return checkpoint;
}

struct Fixture {
  void Put(const std::string& letters) {
    const Checkpoint checkpoint = Of(1, letters);
    std::vector<NamedChunk> chunks;
    for (size_t i = 0; i < letters.size(); ++i) {
      chunks.push_back(
          {checkpoint.stages[0].chunks[i], MakePayload(Bytes(1, uint8_t(letters[i])))});
    }
    REQUIRE(archive.Put(chunks).ok());
  }
  std::string Chunk(char letter) const {
    return "chunks/" + Of(1, std::string(1, letter)).stages[0].chunks[0].Hex();
  }
  bool Noted(const std::string& note) const {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  }
  std::vector<std::string> notes;
  CheckpointArchive archive{
      std::make_unique<NotedFiles>(std::make_shared<CheckpointDisk>(), &notes)};
};

}  // namespace

TEST_CASE("CheckpointArchive: every chunk is on the disk before its manifest", "[checkpoint]") {
  Fixture f;
  f.Put("ab");
  CHECK(f.Noted("placed " + f.Chunk('a')));
  CHECK_FALSE(f.Noted("synced " + f.Chunk('a')));

  REQUIRE(f.archive.Commit(Of(1, "ab")).ok());

  CHECK(f.Noted("synced " + f.Chunk('a')));
  CHECK(f.Noted("synced " + f.Chunk('b')));
  CHECK(f.notes.back() == "synced generations/000001.json");
}

TEST_CASE("CheckpointArchive: waits for what is new, and for what came anew", "[checkpoint]") {
  Fixture f;
  f.Put("ab");
  REQUIRE(f.archive.Commit(Of(1, "ab")).ok());
  f.notes.clear();

  SECTION("a chunk of the generation before is there") {
    f.Put("c");
    REQUIRE(f.archive.Commit(Of(2, "bc")).ok());
    CHECK_FALSE(f.Noted("synced " + f.Chunk('b')));
    CHECK(f.Noted("synced " + f.Chunk('c')));
  }
  SECTION("one that was spoilt and fetched again") {
    f.Put("b");
    REQUIRE(f.archive.Commit(Of(2, "b")).ok());
    CHECK(f.Noted("synced " + f.Chunk('b')));
  }
  SECTION("one that was dropped and came again") {
    REQUIRE(f.archive.Keep({}).ok());
    f.Put("a");
    REQUIRE(f.archive.Commit(Of(2, "a")).ok());
    CHECK(f.Noted("synced " + f.Chunk('a')));
  }
}
