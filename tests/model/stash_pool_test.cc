// Stashes elsewhere: what comes back is what went, in any order, and errors are told.
#include "model/stash_pool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "common/rng.h"
#include "common/status.h"
#include "kernels/host_buffer.h"
#include "model/stage_team.h"
#include "tests/model/disk_directory.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

// Unnamed files of this process that lie in the directory.
std::vector<fs::path> UnnamedFilesIn(const std::string& directory) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (!gone && target.rfind(directory, 0) == 0 && target.find("(deleted)") != std::string::npos)
      found.push_back(entry.path());
  }
  return found;
}

// As a disk that loses what was written.
void CutFileIn(const std::string& directory) {
  const auto files = UnnamedFilesIn(directory);
  REQUIRE(files.size() == 1);
  REQUIRE(truncate(files.front().c_str(), 0) == 0);
}

void Fill(StashPool& pool, StashPool::Id id, int64_t floats, float seed) {
  for (int64_t i = 0; i < floats; ++i) pool.data(id)[i] = seed + static_cast<float>(i);
}

bool IsFilled(const StashPool& pool, StashPool::Id id, int64_t floats, float seed) {
  for (int64_t i = 0; i < floats; ++i) {
    if (pool.data(id)[i] != seed + static_cast<float>(i)) return false;
  }
  return true;
}

constexpr int64_t kFloats = 5000;

}  // namespace

TEST_CASE("Stash pool: in any order of ways back, what is fetched is what was kept",
          "[model][spill]") {
  const DiskDirectory directory;
  const auto backend = CreateReferenceBackend();
  const int residents = GENERATE(2, 3);
  const int window = GENERATE(3, 5, 8);
  const bool on_disk = GENERATE(true, false), staged = GENERATE(true, false);
  if (window <= residents || (staged && !on_disk)) return;
  const StashParking parking = {residents, window - residents, on_disk ? directory.path() : "",
                                staged};
  const auto pool = *StashPool::Create(backend.get(), kFloats, parking);
  Rng rng(5, "orders", static_cast<uint64_t>(window * 10 + residents));
  std::vector<StashPool::Id> alive;
  for (int round = 0; round < 300; ++round) {
    const bool begins = alive.empty() || (std::ssize(alive) < window && rng.Uniform() < 0.5);
    if (begins) {
      const auto id = pool->Take();
      REQUIRE(id.ok());
      Fill(*pool, *id, kFloats, static_cast<float>(*id));
      pool->Keep(*id);
      alive.push_back(*id);
      continue;
    }
    // Mostly the oldest.
    const size_t which = rng.Uniform() < 0.6 ? 0 : rng.Below(alive.size());
    const StashPool::Id id = alive[which];
    alive.erase(alive.begin() + static_cast<int64_t>(which));
    if (rng.Uniform() < 0.8) {
      REQUIRE(pool->Fetch(id).ok());
      REQUIRE(IsFilled(*pool, id, kFloats, static_cast<float>(id)));
    }
    pool->Give(id);
    REQUIRE(pool->allocated() <= residents);
  }
}

TEST_CASE("Stash pool: beyond its room it takes more of the device, and gives that back",
          "[model][spill]") {
  const DiskDirectory directory;
  const auto backend = CreateReferenceBackend();
  const auto pool = *StashPool::Create(backend.get(), kFloats, {2, 1, directory.path()});
  for (StashPool::Id id = 1; id <= 6; ++id) {
    REQUIRE(*pool->Take() == id);
    Fill(*pool, id, kFloats, static_cast<float>(id));
    pool->Keep(id);
  }
  CHECK(pool->allocated() == 3);
  for (StashPool::Id id = 1; id <= 6; ++id) {
    REQUIRE(pool->Fetch(id).ok());
    CHECK(IsFilled(*pool, id, kFloats, static_cast<float>(id)));
    pool->Give(id);
  }
  CHECK(pool->allocated() == 2);
  pool->Trim();
  CHECK(pool->HeldBytes() == 0);
}

TEST_CASE("Stash pool: where passes come in turn every move is beside a pass", "[model][spill]") {
  const DiskDirectory directory;
  const auto backend = CreateReferenceBackend();
  constexpr int kWindow = 8;
  const int residents = GENERATE(2, 3, 4, 7);
  const auto pool = *StashPool::Create(backend.get(), kFloats,
                                       {residents, kWindow - residents, directory.path()});
  const auto forward = [&](StashPool::Id id) {
    REQUIRE(*pool->Take() == id);
    Fill(*pool, id, kFloats, static_cast<float>(id));
    pool->Keep(id);
  };
  for (StashPool::Id id = 1; id <= kWindow; ++id) forward(id);
  int64_t after_some = 0;
  for (StashPool::Id id = 1; id <= 60; ++id) {
    REQUIRE(pool->Fetch(id).ok());
    REQUIRE(IsFilled(*pool, id, kFloats, static_cast<float>(id)));
    pool->Give(id);
    forward(id + kWindow);
    if (id == kWindow) after_some = pool->exposed_moves();
  }
  CHECK(after_some <= 2);
  CHECK(pool->exposed_moves() == after_some);
  CHECK(pool->allocated() == residents);
}

TEST_CASE("Stash pool: without parking it is a pool of buffers, and no file is opened",
          "[model][spill]") {
  const DiskDirectory directory;
  const auto backend = CreateReferenceBackend();
  const auto pool = *StashPool::Create(backend.get(), kFloats, {0, 0, directory.path()});
  CHECK(UnnamedFilesIn(directory.path()).empty());
  for (StashPool::Id id = 1; id <= 3; ++id) {
    REQUIRE(*pool->Take() == id);
    pool->Keep(id);
  }
  CHECK(pool->allocated() == 3);
  for (StashPool::Id id = 1; id <= 3; ++id) pool->Give(id);
  CHECK(pool->allocated() == 3);
  CHECK(*pool->Take() == 4);
  CHECK(pool->allocated() == 3);
}

TEST_CASE("Stash store: a file that was cut is data lost, not zeros", "[model][spill][error]") {
  const DiskDirectory directory;
  constexpr int64_t kBlock = kStashBorder / 4;
  const auto backend = CreateReferenceBackend();
  const auto store = GENERATE(false, true)
                         ? *OpenStagedStashFile(*backend, directory.path(), 2, kBlock)
                         : *OpenStashFile(directory.path(), 2, kBlock);
  const auto buffer = *AllocateHostBuffer(kBlock, kStashBorder);
  REQUIRE(store->Wait(store->Write(1, buffer->data())).ok());
  CutFileIn(directory.path());
  const absl::Status status = store->Wait(store->Read(1, buffer->data()));
  CHECK(absl::IsDataLoss(status));
  CHECK(ErrorText(status).find("[SK-spill]") != std::string::npos);
  CHECK(store->Wait(store->Write(1, buffer->data())).ok());
  CHECK(store->Wait(store->Read(1, buffer->data())).ok());
}

TEST_CASE("Stash store: what is written to a file that was cut does not make zeros of the rest",
          "[model][spill][error]") {
  const DiskDirectory directory;
  constexpr int64_t kBlock = kStashBorder / 4;
  const auto backend = CreateReferenceBackend();
  const auto store = GENERATE(false, true)
                         ? *OpenStagedStashFile(*backend, directory.path(), 3, kBlock)
                         : *OpenStashFile(directory.path(), 3, kBlock);
  const auto buffer = *AllocateHostBuffer(kBlock, kStashBorder);
  for (const int32_t slot : {0, 1}) REQUIRE(store->Wait(store->Write(slot, buffer->data())).ok());
  CutFileIn(directory.path());
  std::fill_n(buffer->data(), kBlock, 7.0f);
  REQUIRE(store->Wait(store->Write(2, buffer->data())).ok());
  CHECK(absl::IsDataLoss(store->Wait(store->Read(0, buffer->data()))));
  REQUIRE(store->Wait(store->Read(2, buffer->data())).ok());
  CHECK(buffer->data()[kBlock - 1] == 7.0f);
  REQUIRE(store->Wait(store->Write(0, buffer->data())).ok());
  CHECK(store->Wait(store->Read(0, buffer->data())).ok());
  CHECK(absl::IsDataLoss(store->Wait(store->Read(1, buffer->data()))));
}

TEST_CASE("Stash store: by way of the host moves of a slot keep their order, however many wait",
          "[model][spill]") {
  const DiskDirectory directory;
  const auto backend = CreateReferenceBackend();
  constexpr int64_t kBlock = kStashBorder / 4;
  const auto store = *OpenStagedStashFile(*backend, directory.path(), 3, kBlock);
  CHECK(store->HeldBytes() == kStagedStashes * kStashBorder);
  constexpr int kMoves = 40;
  std::vector<std::unique_ptr<Buffer>> written, read;
  std::vector<int64_t> reads;
  for (int i = 0; i < kMoves; ++i) {
    written.push_back(*AllocateHostBuffer(kBlock));
    read.push_back(*AllocateHostBuffer(kBlock));
    std::fill_n(written.back()->data(), kBlock, static_cast<float>(i));
    store->Write(i % 3, written.back()->data());
    reads.push_back(store->Read(i % 3, read.back()->data()));
    if (i % 5 == 0) store->PassEnded();
  }
  const bool last_first = GENERATE(false, true);
  if (last_first) REQUIRE(store->Wait(reads.back()).ok());
  for (int i = 0; i < kMoves; ++i) {
    REQUIRE(store->Wait(reads[static_cast<size_t>(i)]).ok());
    CHECK(store->CanFollow(reads[static_cast<size_t>(i)]));
    CHECK(read[static_cast<size_t>(i)]->data()[kBlock - 1] == static_cast<float>(i));
  }
}

TEST_CASE("Stash store: nothing is left in the directory, and space is taken at once",
          "[model][spill]") {
  const DiskDirectory directory;
  constexpr int64_t kBlock = int64_t{1} << 18;
  {
    const auto store = *OpenStashFile(directory.path(), 8, kBlock);
    CHECK(fs::is_empty(directory.path()));
    const auto files = UnnamedFilesIn(directory.path());
    REQUIRE(files.size() == 1);
    struct stat facts {};
    REQUIRE(stat(files.front().c_str(), &facts) == 0);
    CHECK(facts.st_blocks * 512 >= 8 * kBlock * 4);
  }
  CHECK(UnnamedFilesIn(directory.path()).empty());
}

TEST_CASE("Stash store: directories that do not do are refused, saying why",
          "[model][spill][error]") {
  const DiskDirectory directory;
  constexpr int64_t kBlock = kStashBorder / 4;
  const auto missing = OpenStashFile(directory.path() + "/none", 1, kBlock).status();
  CHECK(absl::IsUnavailable(missing));
  // More than any disk of this machine has.
  const auto full = OpenStashFile(directory.path(), 1 << 20, int64_t{1} << 28).status();
  CHECK(absl::IsResourceExhausted(full));
  CHECK(ErrorText(full).find("--spill-space") != std::string::npos);
  if (!fs::is_directory("/dev/shm")) return;
  const auto memory = OpenStashFile("/dev/shm", 1, kBlock).status();
  CHECK(absl::IsFailedPrecondition(memory));
  CHECK(ErrorText(memory).find("tmpfs") != std::string::npos);
}

namespace {

// One stage of three layers; microbatches come back in an order of their own, some of them never.
struct Stage {
  std::unique_ptr<StageTrainer> trainer;
  std::vector<float> in, out;

  Stage(const RunConfig& config, Backend* backend, const StashParking& parking,
        int32_t recomputed = 0)
      : in(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden)), out(in.size()) {
    auto made =
        StageTrainer::Create(config, 1, 4, false, backend, recomputed, {0, {}, nullptr, parking});
    REQUIRE(made.ok());
    trainer = *std::move(made);
  }
  void Values(int32_t microbatch, const char* what) {
    Rng rng(9, what, static_cast<uint64_t>(microbatch));
    for (float& value : in) value = static_cast<float>(rng.Uniform() - 0.5);
  }
  absl::Status Forward(int32_t microbatch) {
    Values(microbatch, "in");
    return trainer->Forward({0, microbatch}, in, out);
  }
  absl::Status Backward(int32_t microbatch) {
    Values(microbatch, "gradient");
    return trainer->Backward({0, microbatch}, in, out);
  }
  std::vector<float> Parameters() {
    std::vector<float> values(static_cast<size_t>(trainer->layout().size()));
    trainer->ReadParameters(values);
    return values;
  }
};

}  // namespace

TEST_CASE("Stash pool: a stage trains to the same bits whatever is parked and in which order",
          "[model][spill]") {
  const DiskDirectory directory;
  const RunConfig config = TinyRun();
  const DType type = GENERATE(DType::kFloat32, DType::kBfloat16);
  const int window = GENERATE(3, 5, 8);
  const int residents = GENERATE(2, 3);
  const int recomputed = GENERATE(0, 2);
  const bool staged = GENERATE(false, true);
  if (window <= residents || (staged && recomputed > 0)) return;
  const auto backend = CreateCpuBackend(1, type);
  Stage here(config, backend.get(), {}, recomputed);
  Stage parks(config, backend.get(), {residents, window - residents, directory.path(), staged},
              recomputed);
  Rng rng(3, "window", static_cast<uint64_t>(window));
  std::vector<int32_t> under_way, back;
  for (int32_t next = 0; next < 20 || !under_way.empty();) {
    if (next < 20 && std::ssize(under_way) < window) {
      REQUIRE(here.Forward(next).ok());
      REQUIRE(parks.Forward(next).ok());
      REQUIRE(parks.out == here.out);
      under_way.push_back(next++);
      continue;
    }
    const size_t which = rng.Uniform() < 0.5 ? 0 : rng.Below(under_way.size());
    const int32_t microbatch = under_way[which];
    under_way.erase(under_way.begin() + static_cast<int64_t>(which));
    if (rng.Uniform() < 0.1) {
      here.trainer->Discard({0, microbatch});
      parks.trainer->Discard({0, microbatch});
      continue;
    }
    REQUIRE(here.Backward(microbatch).ok());
    REQUIRE(parks.Backward(microbatch).ok());
    REQUIRE(parks.out == here.out);
    back.push_back(microbatch);
  }
  std::sort(back.begin(), back.end());
  for (const int32_t microbatch : back) {
    here.trainer->Accumulate({0, microbatch});
    parks.trainer->Accumulate({0, microbatch});
  }
  const auto count = static_cast<int32_t>(back.size());
  REQUIRE(here.trainer->OptimizerStep(0, count).ok());
  REQUIRE(parks.trainer->OptimizerStep(0, count).ok());
  CHECK(parks.Parameters() == here.Parameters());
}

TEST_CASE("Stash pool: devices of a team park what is theirs", "[model][spill]") {
  const DiskDirectory directory;
  const RunConfig config = TinyRun();
  const auto first = CreateCpuBackend(1), second = CreateCpuBackend(1);
  const auto trained = [&](const StashParking& parking) {
    const std::vector<TeamDevice> devices = {{first.get(), 1, nullptr, parking},
                                             {second.get(), 1, nullptr, parking}};
    const auto team = *StageTeam::Create(config, {1, 4, false, 1}, devices);
    std::vector<float> in(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    std::vector<float> out(in.size());
    Rng rng(8);
    for (float& value : in) value = static_cast<float>(rng.Uniform() - 0.5);
    for (int32_t m = 0; m < 5; ++m) REQUIRE(team->Forward({0, m}, in, out).ok());
    for (const int32_t m : {2, 0, 1, 4, 3}) REQUIRE(team->Backward({0, m}, in, out).ok());
    for (int32_t m = 0; m < 5; ++m) team->Accumulate({0, m});
    REQUIRE(team->OptimizerStep(0, 5).ok());
    std::vector<float> parameters(static_cast<size_t>(team->layout().size()));
    team->ReadParameters(parameters);
    return parameters;
  };
  CHECK(trained({2, 3, directory.path()}) == trained({}));
}

TEST_CASE("Stash pool: a stage whose disk loses data says so, and trains on with what is left",
          "[model][spill][error]") {
  const DiskDirectory directory;
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  Stage stage(config, backend.get(), {2, 4, directory.path()});
  for (int32_t m = 0; m < 6; ++m) REQUIRE(stage.Forward(m).ok());
  CutFileIn(directory.path());
  int lost = 0;
  for (int32_t m = 0; m < 6; ++m) {
    const absl::Status status = stage.Backward(m);
    if (status.ok()) continue;
    ++lost;
    CHECK(absl::IsDataLoss(status));
    CHECK(absl::IsDataLoss(stage.Backward(m)));  // as before the call
    CHECK(absl::IsAlreadyExists(stage.Forward(m)));
    stage.trainer->Discard({0, m});
  }
  CHECK(lost >= 3);
  for (int32_t m = 10; m < 16; ++m) REQUIRE(stage.Forward(m).ok());
  for (int32_t m = 10; m < 16; ++m) REQUIRE(stage.Backward(m).ok());
}

TEST_CASE("Stash pool: a disk that is full ends the building of a stage, not a step",
          "[model][spill][error]") {
  const DiskDirectory directory;
  RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  const StashParking parking = {2, 1 << 30, directory.path()};
  const auto made =
      StageTrainer::Create(config, 1, 4, false, backend.get(), 0, {0, {}, nullptr, parking});
  CHECK(absl::IsResourceExhausted(made.status()));
}

}  // namespace skerry
