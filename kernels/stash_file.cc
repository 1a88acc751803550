#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/stash_store.h"

namespace skerry {
namespace {

constexpr size_t kMovesMax = 4096;                 // not done yet
constexpr int64_t kPieceBytes = int64_t{4} << 20;  // of a move, between two looks at whether to end
// Behind all slots, and never written: a file that somebody has cut stays shorter than it was,
// whatever is written to it then.
constexpr int64_t kGuardBytes = kStashBorder;

std::string LastError() {
  return std::strerror(errno);
}

class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&&) = delete;
  ~FileHandle() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// And what lies behind it, which takes none.
absl::Status TakeSpace(int fd, int64_t bytes, const std::string& directory) {
  int error = fallocate(fd, 0, 0, bytes) == 0 ? 0 : errno;
  if (error == EOPNOTSUPP) error = posix_fallocate(fd, 0, bytes);
  if (error == 0 && ftruncate(fd, bytes + kGuardBytes) == 0) return absl::OkStatus();
  if (error == 0) error = errno;
  const std::string what =
      absl::StrFormat("%s: no %.2f GiB for activations: %s", directory,
                      static_cast<double>(bytes) / (int64_t{1} << 30), std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("%s; make room, or give --spill-space less [SK-spill]", what);
  }
  return Unavailable("%s [SK-spill]", what);
}

class StashFile final : public StashStore {
 public:
  StashFile(FileHandle file, bool is_direct, std::string directory, int32_t slots,
            int64_t slot_bytes)
      : file_(std::move(file)),
        is_direct_(is_direct),
        directory_(std::move(directory)),
        slot_bytes_(slot_bytes),
        lost_(static_cast<size_t>(slots), false) {
    thread_ = std::thread([this] { Run(); });
  }
  StashFile(const StashFile&) = delete;
  StashFile& operator=(const StashFile&) = delete;
  ~StashFile() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int64_t Write(int32_t slot, const float* from) override {
    // What is written is only read.
    return Start({true, slot, reinterpret_cast<char*>(const_cast<float*>(from))});
  }
  int64_t Read(int32_t slot, float* to) override {
    return Start({false, slot, reinterpret_cast<char*>(to)});
  }
  absl::Status Wait(int64_t move) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= move; });
    const auto failed = failed_.find(move);
    return failed == failed_.end() ? absl::OkStatus() : failed->second;
  }
  bool CanFollow(int64_t move) override {
    const std::lock_guard lock(mutex_);
    return done_ >= move && !failed_.contains(move);
  }
  int64_t HeldBytes() const override { return 0; }

 private:
  struct Move {
    bool writes = false;
    int32_t slot = 0;
    char* memory = nullptr;
  };

  int64_t Start(const Move& move) {
    const std::lock_guard lock(mutex_);
    SKERRY_CHECK(waiting_.size() < kMovesMax, "a caller waits for its moves");
    waiting_.push_back(move);
    changed_.notify_all();
    return ++started_;
  }
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      const Move move = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const absl::Status status = Make(move);
      lock.lock();
      ++done_;
      if (!status.ok()) failed_.emplace(done_, status);
      changed_.notify_all();
    }
  }
  // What was cut, and when, nobody knows: then all that was written is lost.
  absl::Status Make(const Move& move) {
    const auto slot = static_cast<size_t>(move.slot);
    if (move.writes) SKERRY_RETURN_IF_ERROR(Transfer(move));
    struct stat facts {};
    if (fstat(file_.get(), &facts) != 0 || facts.st_size < bytes() + kGuardBytes) {
      lost_.assign(lost_.size(), true);
      SKERRY_RETURN_IF_ERROR(TakeSpace(file_.get(), bytes(), directory_));
      if (move.writes) SKERRY_RETURN_IF_ERROR(Transfer(move));
    }
    if (move.writes) lost_[slot] = false;
    if (lost_[slot]) return Lost(slot_bytes_);
    return move.writes ? absl::OkStatus() : Transfer(move);
  }
  int64_t bytes() const { return static_cast<int64_t>(lost_.size()) * slot_bytes_; }
  static absl::Status Lost(int64_t bytes) {
    return DataLoss(
        "the file for activations lacks %d bytes that were written to it: somebody has cut it, or "
        "the disk loses data [SK-spill]",
        bytes);
  }
  absl::Status Transfer(const Move& move) {
    const int64_t first = move.slot * slot_bytes_;
    for (int64_t at = 0; at < slot_bytes_;) {
      const auto bytes = static_cast<size_t>(std::min(kPieceBytes, slot_bytes_ - at));
      const ssize_t moved = move.writes ? pwrite(file_.get(), move.memory + at, bytes, first + at)
                                        : pread(file_.get(), move.memory + at, bytes, first + at);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) {
        return Unavailable("the disk for activations cannot be %s: %s [SK-spill]",
                           move.writes ? "written to" : "read", LastError());
      }
      if (moved == 0) return Lost(slot_bytes_ - at);
      at += moved;
    }
    if (!is_direct_) LeaveCache(move.writes, first);
    return absl::OkStatus();
  }
  // Pages leave the cache only when they are on disk.
  void LeaveCache(bool written, int64_t first) {
    if (written) fdatasync(file_.get());
    posix_fadvise(file_.get(), first, slot_bytes_, POSIX_FADV_DONTNEED);
  }

  FileHandle file_;
  const bool is_direct_;
  const std::string directory_;
  const int64_t slot_bytes_;
  std::vector<bool> lost_;  // [slots]; the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Move> waiting_;
  std::map<int64_t, absl::Status> failed_;
  int64_t started_ = 0, done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

// −1: errno says why.
int OpenUnnamed(const std::string& directory) {
  const int unnamed = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return unnamed;
  std::string name = directory + "/skerry-activations-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

// Some file systems refuse O_DIRECT, some refuse only the first write.
bool MakeDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  void* block = std::aligned_alloc(kStashBorder, kStashBorder);
  if (block == nullptr) return true;
  std::memset(block, 0, kStashBorder);
  const bool works = pwrite(fd, block, kStashBorder, 0) == kStashBorder;
  std::free(block);
  if (!works) fcntl(fd, F_SETFL, flags);
  return works;
}

}  // namespace

absl::Status CheckOnDisk(const std::string& directory) {
  struct statfs facts {};
  if (statfs(directory.c_str(), &facts) != 0) {
    return Unavailable("%s: %s; --spill wants a directory that is there [SK-spill]", directory,
                       LastError());
  }
  const auto type = static_cast<uint64_t>(facts.f_type);
  if (type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC) {
    return FailedPrecondition(
        "%s lies in memory (tmpfs), which is what activations are to make room in: --spill wants a "
        "directory on a disk [SK-spill]",
        directory);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StashStore>> OpenStashFile(const std::string& directory,
                                                          int32_t slots, int64_t floats) {
  const int64_t slot_bytes = floats * static_cast<int64_t>(sizeof(float));
  SKERRY_CHECK(slots > 0 && slot_bytes > 0 && slot_bytes % kStashBorder == 0);
  SKERRY_RETURN_IF_ERROR(CheckOnDisk(directory));
  FileHandle file(OpenUnnamed(directory));
  if (file.get() < 0) return Unavailable("%s: %s [SK-spill]", directory, LastError());
  SKERRY_RETURN_IF_ERROR(TakeSpace(file.get(), slots * slot_bytes, directory));
  const bool is_direct = MakeDirect(file.get());
  return std::make_unique<StashFile>(std::move(file), is_direct, directory, slots, slot_bytes);
}

}  // namespace skerry
