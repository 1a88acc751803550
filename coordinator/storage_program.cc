#include "coordinator/storage_program.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "common/cli_program.h"
#include "common/digest.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/log_program.h"
#include "model/dataset_address.h"
#include "model/file_io.h"
#include "model/token_dataset.h"
#include "wire/web_client.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSmallBytesMax = 64 << 20;  // of an index or a manifest
constexpr int64_t kShardBytesMax = int64_t{1} << 30;
constexpr char kNewest[] = "/generations/newest";

absl::StatusOr<Bytes> FileBytes(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(const auto map, MappedFile::Open(path));
  return Bytes(map->bytes().begin(), map->bytes().end());
}

std::string TextOf(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

Bytes BytesOf(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string WithoutSlash(std::string address) {
  while (address.ends_with('/')) address.pop_back();
  return address;
}

bool IsHere(const std::string& path, const DatasetFile& file) {
  const auto map = MappedFile::Open(path);
  return map.ok() && std::ssize((*map)->bytes()) == file.bytes &&
         DigestOf((*map)->bytes()) == file.digest;
}

// What is here already is not fetched again: an interrupted command goes on.
absl::Status FetchData(const std::string& address, const std::string& directory) {
  WebClient client(WebOptionsOfEnvironment());
  const std::string base = WithoutSlash(address);
  SKERRY_ASSIGN_OR_RETURN(const Bytes text,
                          client.ReadSmall(base + "/" + kDatasetIndexFile, kSmallBytesMax));
  const auto index = ParseDatasetIndex(TextOf(text));
  if (!index.ok()) return Annotate(index.status(), base + "/" + kDatasetIndexFile);
  SKERRY_RETURN_IF_ERROR(MakeDirectory(directory));
  size_t done = 0;
  for (const IndexedShard& shard : index->shards) {
    const std::string path = directory + "/" + shard.file.file;
    std::fprintf(stderr, "%s, %zu of %zu\n", shard.file.file.c_str(), ++done, index->shards.size());
    if (IsHere(path, shard.file)) continue;
    if (shard.file.bytes > kShardBytesMax) {
      return InvalidArgument("%s: a shard of %d bytes, at most %d are read", shard.file.file,
                             shard.file.bytes, kShardBytesMax);
    }
    SKERRY_ASSIGN_OR_RETURN(const Bytes bytes,
                            client.Read(base + "/" + shard.file.file, shard.file.bytes));
    if (DigestOf(bytes) != shard.file.digest) {
      return DataLoss("%s/%s: its digest is not that of the index [SK-data-damaged]", base,
                      shard.file.file);
    }
    SKERRY_RETURN_IF_ERROR(WriteFileAtomically(path, TextOf(bytes)));
  }
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(directory + "/" + kDatasetIndexFile, TextOf(text)));
  std::printf("%s: %zu shards\n", directory.c_str(), index->shards.size());
  return absl::OkStatus();
}

absl::Status PushData(const std::string& directory, const std::string& address) {
  WebClient client(WebOptionsOfEnvironment());
  SKERRY_ASSIGN_OR_RETURN(const auto files, ListDatasetFiles(directory));
  ShareLine line("sending the data");
  int64_t sent = 0;
  for (const DatasetFile& file : files) {  // the index is the last one
    line.Show(sent++, std::ssize(files));
    SKERRY_ASSIGN_OR_RETURN(const Bytes bytes, FileBytes(directory + "/" + file.file));
    if (DigestOf(bytes) != file.digest) {
      return DataLoss("%s/%s: damaged; prepare it again [SK-data-damaged]", directory, file.file);
    }
    SKERRY_RETURN_IF_ERROR(client.Write(WithoutSlash(address) + "/" + file.file, bytes));
  }
  line.End();
  std::printf("%s: %zu files\n", address.c_str(), files.size());
  return absl::OkStatus();
}

std::string ManifestName(int64_t generation) {
  return absl::StrFormat("/generations/%06d.json", generation);
}

std::set<std::string> ChunkNames(const Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const CheckpointStage& stage : checkpoint.stages) {
    for (const Digest& chunk : stage.chunks) names.insert("/chunks/" + chunk.Hex());
  }
  return names;
}

// True: it was whole here, and is there now.
absl::StatusOr<bool> PushGeneration(WebClient& client, const std::string& from,
                                    const std::string& to, const Checkpoint& checkpoint,
                                    ShareLine* line) {
  const std::set<std::string> names = ChunkNames(checkpoint);
  int64_t sent = 0;
  for (const std::string& name : names) {
    if (line != nullptr) line->Show(sent++, std::ssize(names));
    SKERRY_ASSIGN_OR_RETURN(const bool is_there, client.Exists(to + name));
    if (is_there) continue;
    const auto chunk = FileBytes(from + name);
    if (absl::IsNotFound(chunk.status())) return false;  // a newer one took its place
    SKERRY_RETURN_IF_ERROR(chunk.status());
    if ("/chunks/" + DigestOf(*chunk).Hex() != name) {
      return DataLoss("%s%s: damaged [SK-checkpoint-damaged]", from, name);
    }
    SKERRY_RETURN_IF_ERROR(client.Write(to + name, *chunk));
  }
  const std::string manifest = ManifestName(checkpoint.generation);
  const auto text = FileBytes(from + manifest);
  if (absl::IsNotFound(text.status())) return false;
  SKERRY_RETURN_IF_ERROR(text.status());
  SKERRY_RETURN_IF_ERROR(client.Write(to + manifest, *text));
  SKERRY_RETURN_IF_ERROR(
      client.Write(to + kNewest, BytesOf(std::to_string(checkpoint.generation))));
  return true;
}

// Those of the archive that come after `after`, in order; the last one that is there now.
absl::StatusOr<int64_t> PushAfter(const std::string& run_directory, const std::string& address,
                                  int64_t after, WebOptions options, ShareLine* line = nullptr) {
  SKERRY_ASSIGN_OR_RETURN(const auto archive, OpenArchive(run_directory));
  SKERRY_ASSIGN_OR_RETURN(const auto generations, archive->Generations());
  WebClient client(std::move(options));
  for (const int64_t generation : generations) {
    if (generation <= after) continue;
    const auto checkpoint = archive->Load(generation);
    if (!checkpoint.ok()) continue;
    SKERRY_ASSIGN_OR_RETURN(const bool pushed,
                            PushGeneration(client, run_directory + "/checkpoints",
                                           WithoutSlash(address), *checkpoint, line));
    if (pushed) after = generation;
  }
  return after;
}

int Ended(const absl::Status& status) {
  return EndedWith("skerry-coordinator", status);
}

}  // namespace

absl::Status PushCheckpoints(const std::string& run_directory, const std::string& address) {
  ShareLine line("sending the checkpoints");
  SKERRY_ASSIGN_OR_RETURN(const int64_t newest,
                          PushAfter(run_directory, address, 0, WebOptionsOfEnvironment(), &line));
  line.End();
  if (newest == 0) return NotFound("%s has no checkpoint yet [SK-checkpoint-none]", run_directory);
  std::printf("%s: generation %lld\n", address.c_str(), static_cast<long long>(newest));
  return absl::OkStatus();
}

absl::Status FetchCheckpoint(const std::string& address, const std::string& run_directory) {
  WebClient client(WebOptionsOfEnvironment());
  const std::string from = WithoutSlash(address);
  SKERRY_ASSIGN_OR_RETURN(const Bytes newest, client.ReadSmall(from + kNewest, 32));
  const std::string digits = TextOf(newest);
  int64_t generation = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), generation);
  if (parsed.ec != std::errc() || generation < 1) {
    return DataLoss("%s%s: no number of a checkpoint [SK-checkpoint-damaged]", from, kNewest);
  }
  SKERRY_ASSIGN_OR_RETURN(const Bytes text,
                          client.ReadSmall(from + ManifestName(generation), kSmallBytesMax));
  const auto checkpoint = ParseManifest(TextOf(text));
  if (!checkpoint.ok()) return Annotate(checkpoint.status(), from + ManifestName(generation));
  const std::string to = run_directory + "/checkpoints";
  SKERRY_RETURN_IF_ERROR(DiskCheckpointFiles::Open(to).status());
  constexpr int64_t kChunkBytesMax = 4 << 20;
  const std::set<std::string> names = ChunkNames(*checkpoint);
  ShareLine line("fetching the checkpoint");
  int64_t fetched = 0;
  for (const std::string& name : names) {
    line.Show(fetched++, std::ssize(names));
    if (const auto here = MappedFile::Open(to + name);
        here.ok() && "/chunks/" + DigestOf((*here)->bytes()).Hex() == name) {
      continue;
    }
    SKERRY_ASSIGN_OR_RETURN(const Bytes chunk, client.ReadSmall(from + name, kChunkBytesMax));
    if ("/chunks/" + DigestOf(chunk).Hex() != name) {
      return DataLoss("%s%s: its digest is not its name [SK-checkpoint-damaged]", from, name);
    }
    SKERRY_RETURN_IF_ERROR(WriteFileAtomically(to + name, TextOf(chunk)));
  }
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(to + ManifestName(generation), TextOf(text)));
  line.End();
  std::printf("%s: generation %lld, step %lld\n", run_directory.c_str(),
              static_cast<long long>(generation), static_cast<long long>(checkpoint->step));
  return absl::OkStatus();
}

struct CheckpointPusher::Work {
  std::string directory, address;
  std::mutex mutex;
  std::condition_variable woken;
  bool is_over = false;
  std::thread thread;

  bool IsOver() {
    const std::lock_guard lock(mutex);
    return is_over;
  }

  void Run() {
    constexpr auto kLookEvery = std::chrono::seconds(2);
    int64_t newest = 0;
    std::string said;
    std::unique_lock lock(mutex);
    while (!is_over) {
      lock.unlock();
      WebOptions options = WebOptionsOfEnvironment();
      options.stops = [this] { return IsOver(); };
      const auto pushed = PushAfter(directory, address, newest, std::move(options));
      const std::string line =
          pushed.ok() ? absl::StrFormat("checkpoint %d is at %s, too", *pushed, address)
                      : "checkpoints are not copied: " + ErrorText(pushed.status());
      const bool is_news = pushed.ok() ? *pushed > newest : line != said;
      if (is_news && !absl::IsAborted(pushed.status())) LogLine(said = line);
      if (pushed.ok()) newest = *pushed;
      lock.lock();
      woken.wait_for(lock, kLookEvery, [this] { return is_over; });
    }
  }
};

CheckpointPusher::CheckpointPusher(std::string run_directory, std::string address)
    : work_(std::make_unique<Work>()) {
  work_->directory = std::move(run_directory);
  work_->address = std::move(address);
  work_->thread = std::thread([work = work_.get()] { work->Run(); });
}

CheckpointPusher::~CheckpointPusher() {
  {
    const std::lock_guard lock(work_->mutex);
    work_->is_over = true;
  }
  work_->woken.notify_all();
  work_->thread.join();
}

void AddStorageCommands(CLI::App& data, int* exit_code) {
  struct Line {
    std::string from, to;
  };
  const auto line = std::make_shared<Line>();
  auto* fetch = data.add_subcommand("fetch", "copy a data set from the web or object storage");
  fetch->add_option("address", line->from, "http://, https:// or s3://BUCKET/PREFIX")->required();
  fetch->add_option("--out", line->to, "directory of the token shards")->required();
  fetch->callback([line, exit_code] { *exit_code = Ended(FetchData(line->from, line->to)); });
  auto* push = data.add_subcommand("push", "copy a data set into object storage");
  push->add_option("dir", line->from, "token shards, as data prepare makes them")->required();
  push->add_option("address", line->to, "s3://BUCKET/PREFIX")->required();
  push->callback([line, exit_code] { *exit_code = Ended(PushData(line->from, line->to)); });
  auto* address = data.add_subcommand(
      "address", "say in the index of a data set where nodes may fetch its shards");
  address->add_option("dir", line->from, "of shards; of a run: RUN/data")->required();
  address->add_option("address", line->to, "http://, https:// or s3://BUCKET/PREFIX; none: nowhere")
      ->required();
  address->callback([line, exit_code] {
    *exit_code = Ended(SetBaseAddress(line->from, line->to == "none" ? "" : line->to));
  });
}

}  // namespace skerry
