#include "coordinator/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/status.h"
#include "model/file_io.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartial = ".partial";

class DiskWriter final : public CheckpointFiles::Writer {
 public:
  explicit DiskWriter(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}
  absl::Status Write(std::span<const uint8_t> bytes) override { return file_->Write(bytes); }
  absl::Status Commit() override { return file_->Commit(); }
  absl::Status Place() override { return file_->Place(); }

 private:
  std::unique_ptr<AtomicFile> file_;
};

class MemoryWriter final : public CheckpointFiles::Writer {
 public:
  MemoryWriter(std::shared_ptr<CheckpointDisk> disk, std::string path)
      : disk_(std::move(disk)), path_(std::move(path)) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status Commit() override {
    if (!disk_->MayChange()) return Unavailable("%s: the disk is gone", path_);
    disk_->files[path_] = std::move(bytes_);
    return absl::OkStatus();
  }
  absl::Status Place() override { return Commit(); }

 private:
  std::shared_ptr<CheckpointDisk> disk_;
  std::string path_;
  Bytes bytes_;
};

// How much there was. `flags`: O_DIRECT, or none.
absl::StatusOr<int64_t> ReadPart(const std::string& path, int64_t offset, std::span<uint8_t> out,
                                 int flags = 0) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (file < 0) return NotFound("%s: %s", path, std::strerror(errno));
  int64_t have = 0;
  while (have < std::ssize(out)) {
    const auto rest = out.subspan(static_cast<size_t>(have));
    const ssize_t got = pread(file, rest.data(), rest.size(), offset + have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(file);
      return Unavailable("%s: %s", path, std::strerror(error));
    }
    have += got;
    // The odd rest of a file is its end, from which O_DIRECT does not read on.
    if (got == 0 || (flags != 0 && static_cast<size_t>(got) % kReadAlignment != 0)) break;
  }
  close(file);
  return have;
}

bool IsAligned(std::span<const uint8_t> memory) {
  return (reinterpret_cast<uintptr_t>(memory.data()) | memory.size()) % kReadAlignment == 0;
}

}  // namespace

absl::StatusOr<int64_t> CheckpointFiles::ReadInto(const std::string& path, std::span<uint8_t> out) {
  SKERRY_ASSIGN_OR_RETURN(const Bytes bytes, Read(path, 0, std::ssize(out)));
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return std::ssize(bytes);
}

absl::StatusOr<std::unique_ptr<CheckpointFiles>> DiskCheckpointFiles::Open(
    const std::string& directory) {
  for (const char* folder : kCheckpointFolders) {
    SKERRY_RETURN_IF_ERROR(MakeDirectory(directory + "/" + folder));
  }
  return std::unique_ptr<CheckpointFiles>(new DiskCheckpointFiles(directory));
}

absl::StatusOr<std::unique_ptr<CheckpointFiles::Writer>> DiskCheckpointFiles::Create(
    const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(directory_ + "/" + path));
  return std::make_unique<DiskWriter>(std::move(file));
}

int64_t DiskCheckpointFiles::SizeOf(const std::string& path) {
  struct stat facts {};
  if (stat((directory_ + "/" + path).c_str(), &facts) != 0) return -1;
  return facts.st_size;
}

absl::StatusOr<Bytes> DiskCheckpointFiles::Read(const std::string& path, int64_t offset,
                                                int64_t length) {
  Bytes bytes(static_cast<size_t>(length));
  SKERRY_ASSIGN_OR_RETURN(const int64_t have, ReadPart(directory_ + "/" + path, offset, bytes));
  bytes.resize(static_cast<size_t>(have));
  return bytes;
}

absl::StatusOr<int64_t> DiskCheckpointFiles::ReadInto(const std::string& path,
                                                      std::span<uint8_t> out) {
  const std::string full = directory_ + "/" + path;
  if (IsAligned(out)) {
    auto read = ReadPart(full, 0, out, O_DIRECT);
    if (read.ok()) return read;
  }
  return ReadPart(full, 0, out);  // not every file system does the other
}

absl::Status DiskCheckpointFiles::Sync(const std::string& folder,
                                       const std::vector<std::string>& names) {
  return SyncFiles(directory_ + "/" + folder, names);
}

absl::Status DiskCheckpointFiles::Remove(const std::string& path) {
  std::error_code error;
  fs::remove(directory_ + "/" + path, error);
  return error ? Unavailable("%s/%s: %s", directory_, path, error.message()) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DiskCheckpointFiles::List(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory_ + "/" + folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kPartial)) names.push_back(name);
  }
  if (error) return Unavailable("%s/%s: %s", directory_, folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool CheckpointDisk::MayChange() {
  if (changes_left == 0) return false;
  if (changes_left > 0) --changes_left;
  ++changes;
  return true;
}

absl::StatusOr<std::unique_ptr<CheckpointFiles::Writer>> MemoryCheckpointFiles::Create(
    const std::string& path) {
  if (!disk_->MayChange()) return Unavailable("%s: the disk is gone", path);
  return std::make_unique<MemoryWriter>(disk_, path);
}

int64_t MemoryCheckpointFiles::SizeOf(const std::string& path) {
  const auto it = disk_->files.find(path);
  return it == disk_->files.end() ? -1 : static_cast<int64_t>(it->second.size());
}

absl::StatusOr<Bytes> MemoryCheckpointFiles::Read(const std::string& path, int64_t offset,
                                                  int64_t length) {
  const auto it = disk_->files.find(path);
  if (it == disk_->files.end()) return NotFound("%s: no such file", path);
  const auto size = static_cast<int64_t>(it->second.size());
  const int64_t begin = std::min(offset, size), end = std::min(size, begin + length);
  return Bytes(it->second.begin() + begin, it->second.begin() + end);
}

absl::Status MemoryCheckpointFiles::Sync(const std::string& folder,
                                         const std::vector<std::string>&) {
  return disk_->changes_left == 0 ? Unavailable("%s: the disk is gone", folder) : absl::OkStatus();
}

absl::Status MemoryCheckpointFiles::Remove(const std::string& path) {
  if (!disk_->MayChange()) return Unavailable("%s: the disk is gone", path);
  disk_->files.erase(path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryCheckpointFiles::List(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [path, bytes] : disk_->files) {
    if (path.starts_with(folder + "/")) names.push_back(path.substr(folder.size() + 1));
  }
  return names;
}

}  // namespace skerry
