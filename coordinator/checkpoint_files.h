// The few things that the archive of checkpoints needs of a disk, so that tests and simulations can
// give it one that fails anywhere.
//
// Paths are relative, "chunks/12ab"; folders exist. Errors as model/file_io.h. Any thread; one
// writes, or several different files where `takes_writers`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"

namespace skerry {

class CheckpointFiles {
 public:
  // A file that is there whole, or not at all.
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual absl::Status Write(std::span<const uint8_t> bytes) = 0;
    virtual absl::Status Commit() = 0;  // on the disk when it returns
    virtual absl::Status Place() = 0;   // there, and on the disk after Sync
  };
  virtual ~CheckpointFiles() = default;
  virtual absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path) = 0;
  // Files of a folder that were placed are on the disk when it returns.
  virtual absl::Status Sync(const std::string& folder, const std::vector<std::string>& names) = 0;
  // −1: there is no such file.
  virtual int64_t SizeOf(const std::string& path) = 0;
  // Shorter at the end of the file. NotFound.
  virtual absl::StatusOr<Bytes> Read(const std::string& path, int64_t offset, int64_t length) = 0;
  // The beginning of the file, into memory that is there; how much of it was filled. Where that
  // begins and ends at multiples of kReadAlignment a disk writes into it by itself.
  virtual absl::StatusOr<int64_t> ReadInto(const std::string& path, std::span<uint8_t> out);
  virtual bool takes_writers() const { return false; }
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names in a folder, ordered; what was not committed is removed, or left out.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
};

inline constexpr size_t kReadAlignment = 4096;

inline constexpr const char* kCheckpointFolders[] = {"chunks", "generations", "start"};

// Under `directory`, made if need be.
class DiskCheckpointFiles final : public CheckpointFiles {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointFiles>> Open(const std::string& directory);
  absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path) override;
  int64_t SizeOf(const std::string& path) override;
  absl::StatusOr<Bytes> Read(const std::string& path, int64_t offset, int64_t length) override;
  absl::StatusOr<int64_t> ReadInto(const std::string& path, std::span<uint8_t> out) override;
  bool takes_writers() const override { return true; }
  absl::Status Sync(const std::string& folder, const std::vector<std::string>& names) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;

 private:
  explicit DiskCheckpointFiles(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

// A disk in memory, shared by successive archives as a disk is by successive processes.
struct CheckpointDisk {
  std::map<std::string, Bytes> files;
  int64_t changes = 0;        // files created, committed, removed
  int64_t changes_left = -1;  // from then on all fail, as if the process were gone; −1: never
  bool MayChange();
};

class MemoryCheckpointFiles final : public CheckpointFiles {
 public:
  explicit MemoryCheckpointFiles(std::shared_ptr<CheckpointDisk> disk) : disk_(std::move(disk)) {}
  absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path) override;
  int64_t SizeOf(const std::string& path) override;
  absl::StatusOr<Bytes> Read(const std::string& path, int64_t offset, int64_t length) override;
  absl::Status Sync(const std::string&, const std::vector<std::string>&) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;

 private:
  std::shared_ptr<CheckpointDisk> disk_;
};

}  // namespace skerry
