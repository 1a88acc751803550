#include "model/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

absl::Status FileError(const std::string& path, const std::string& action, int error,
                       const char* page = "") {
  const std::string why = std::generic_category().message(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound("%s: cannot %s: %s%s", path, action, why, page);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied("%s: cannot %s: %s%s", path, action, why, page);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhausted("%s: cannot %s: %s; make room and try again%s", path, action, why,
                               page);
    default:
      return Unavailable("%s: cannot %s: %s%s", path, action, why, page);
  }
}

std::string DirectoryOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? std::string(".") : parent.string();
}

absl::Status SyncDirectory(const std::string& directory) {
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError(directory, "open", errno);
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // Some file systems cannot sync a directory; the rename itself was atomic.
  return error == 0 || error == EINVAL ? absl::OkStatus() : WriteError(directory, "sync", error);
}

constexpr int64_t kBeginBytes = 8 << 20;

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

// A pipe, a terminal.
absl::Status WriteInto(const std::string& path, std::string_view text) {
  const Descriptor out{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (out.value < 0) return WriteError(path, "open", errno);
  while (!text.empty()) {
    const ssize_t written = write(out.value, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path, "write", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteError(const std::string& path, const std::string& action, int error) {
  return FileError(path, action, error, " [SK-disk-write]");
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) return FileError(path, "open", errno);
  struct stat facts {};
  if (fstat(file.value, &facts) != 0) return FileError(path, "stat", errno);
  if (!S_ISREG(facts.st_mode)) return InvalidArgument("%s: not a regular file", path);
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(path, {}));
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (address == MAP_FAILED) return FileError(path, "map", errno);
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, {static_cast<const uint8_t*>(address), size}));
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

absl::StatusOr<std::unique_ptr<PartlyReadFile>> PartlyReadFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(path, "open", errno);
  std::unique_ptr<PartlyReadFile> file(new PartlyReadFile(path, descriptor, 0));
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) return FileError(path, "stat", errno);
  if (!S_ISREG(facts.st_mode)) return InvalidArgument("%s: not a regular file", path);
  file->size_ = facts.st_size;
  return file;
}

PartlyReadFile::~PartlyReadFile() {
  close(descriptor_);
}

absl::Status PartlyReadFile::Read(int64_t offset, std::span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path_, "read", errno);
    if (got == 0) return DataLoss("%s: ends at %d bytes, it had %d", path_, offset, size_);
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

AtomicFile::AtomicFile(std::string path, int descriptor)
    : path_(std::move(path)), partial_path_(path_ + ".partial"), descriptor_(descriptor) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  const std::string partial = path + ".partial";
  const int descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return WriteError(path, "create", errno);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, descriptor));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_path_.c_str());
}

absl::Status AtomicFile::Write(std::span<const uint8_t> bytes) {
  SKERRY_CHECK(descriptor_ >= 0, "no writing after Commit");
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path_, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    written_ += written;
    if (written_ - begun_ >= kBeginBytes) BeginWriting();
  }
  return absl::OkStatus();
}

// The disk works while more comes. Where it cannot be told so, the sync at the end does it all.
void AtomicFile::BeginWriting() {
  static_cast<void>(sync_file_range(descriptor_, begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE));
  begun_ = written_;
}

absl::Status AtomicFile::Write(std::string_view text) {
  return Write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

absl::Status AtomicFile::Commit() {
  SKERRY_CHECK(descriptor_ >= 0, "one Commit");
  if (fsync(descriptor_) != 0) return WriteError(path_, "sync", errno);
  SKERRY_RETURN_IF_ERROR(Rename());
  return SyncDirectory(DirectoryOf(path_));
}

absl::Status AtomicFile::Place() {
  SKERRY_CHECK(descriptor_ >= 0, "one Commit");
  BeginWriting();
  return Rename();
}

absl::Status AtomicFile::Rename() {
  if (rename(partial_path_.c_str(), path_.c_str()) != 0) return WriteError(path_, "replace", errno);
  close(descriptor_);
  descriptor_ = -1;
  return absl::OkStatus();
}

absl::Status SyncFiles(const std::string& directory, const std::vector<std::string>& names) {
  // A disk is told to empty its own memory once for each fsync: many files wait for all others'
  // bytes rather.
  constexpr size_t kOneByOneMax = 4;
  if (names.size() > kOneByOneMax) {
    const Descriptor all{open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (all.value < 0) return FileError(directory, "open", errno);
    return syncfs(all.value) == 0 ? absl::OkStatus() : WriteError(directory, "sync", errno);
  }
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.value < 0) return FileError(path, "open", errno);
    if (fsync(file.value) != 0) return WriteError(path, "sync", errno);
  }
  return SyncDirectory(directory);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view text) {
  SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  SKERRY_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

absl::Status ReplaceText(const std::string& path, std::string_view text) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) return WriteInto(path, text);
  SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  SKERRY_RETURN_IF_ERROR(file->Write(text));
  return file->Place();
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t bytes_max) {
  SKERRY_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  if (static_cast<int64_t>(bytes.size()) > bytes_max) {
    return InvalidArgument("%s: %d bytes, at most %d belong here", path, bytes.size(), bytes_max);
  }
  return std::string(bytes.begin(), bytes.end());
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? WriteError(path, "create directory", error.value()) : absl::OkStatus();
}

}  // namespace skerry
