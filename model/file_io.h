// Files as models and data need them: read-only maps, parts that are read, and writes that are
// there whole or not at all.
//
// Errors: NotFound, PermissionDenied (also a read-only disk), ResourceExhausted (disk full, file
// size limit), Unavailable for the rest; the text names the path.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

// A whole file mapped read-only. The file must not be truncated while it is mapped: files of this
// project are replaced by rename, never rewritten in place. Any thread may read.
class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const uint8_t> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  std::span<const uint8_t> bytes_;
};

// A file that is read in parts, for what is looked at once: unlike a map it costs no page faults,
// and a disk that fails, or a file that shrinks, is an error. Any thread.
class PartlyReadFile {
 public:
  static absl::StatusOr<std::unique_ptr<PartlyReadFile>> Open(const std::string& path);
  ~PartlyReadFile();
  PartlyReadFile(const PartlyReadFile&) = delete;
  PartlyReadFile& operator=(const PartlyReadFile&) = delete;

  int64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }
  // All of `out`. DataLoss: the file ends before.
  absl::Status Read(int64_t offset, std::span<uint8_t> out) const;

 private:
  PartlyReadFile(std::string path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  std::string path_;
  int descriptor_;
  int64_t size_;
};

// Writes PATH.partial and renames it to PATH on Commit, after the bytes are on the disk. Destroyed
// without Commit, it leaves nothing behind. One thread owns it.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Write(std::span<const uint8_t> bytes);
  absl::Status Write(std::string_view text);
  absl::Status Commit();
  // As Commit, but the bytes are on their way to the disk only: SyncFiles waits for them. Until
  // then a machine that loses power may come back with a file that is short or empty.
  absl::Status Place();

 private:
  AtomicFile(std::string path, int descriptor);
  void BeginWriting();
  absl::Status Rename();
  std::string path_;
  std::string partial_path_;
  int descriptor_ = -1;  // −1 once committed
  int64_t written_ = 0;  // bytes
  int64_t begun_ = 0;    // of them on their way to the disk
};

// All bytes of these files of one directory, and their names, are on the disk when it returns.
absl::Status SyncFiles(const std::string& directory, const std::vector<std::string>& names);

absl::Status WriteFileAtomically(const std::string& path, std::string_view text);
// The same without waiting for the disk, for what may go with the machine's power: a status, a
// report. What is there and is no file (/dev/stdout, a pipe) is written into.
absl::Status ReplaceText(const std::string& path, std::string_view text);

// Of errno, with the page that says what to do.
absl::Status WriteError(const std::string& path, const std::string& action, int error);

// The whole file, refused above `bytes_max`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t bytes_max);

// Creates the directory and its parents; fine if it is there.
absl::Status MakeDirectory(const std::string& path);

}  // namespace skerry
