#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "common/check.h"
#include "common/status.h"
#include "kernels/group/channel.h"

namespace skerry {
namespace {

class MemoryChannel final : public Channel {
 public:
  explicit MemoryChannel(Duration patience) : patience_(patience) {}

  absl::Status Post(std::span<const float> values) override {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return closed_;
    if (values.empty()) return absl::OkStatus();
    if (!posted_.empty() && posted_.back().data() + posted_.back().size() == values.data()) {
      posted_.back() = {posted_.back().data(), posted_.back().size() + values.size()};
    } else {
      SKERRY_CHECK(posted_.size() < kPostsMax);
      posted_.push_back(values);
    }
    Moved();
    return absl::OkStatus();
  }

  // What was taken was taken, even if the receiver has left since.
  absl::Status Drain() override {
    std::unique_lock lock(mutex_);
    while (!posted_.empty() || is_taking_) {
      if (!closed_.ok()) return closed_;
      SKERRY_RETURN_IF_ERROR(Wait(lock));
    }
    return absl::OkStatus();
  }

  absl::Status Take(int64_t n, const Use& use) override {
    std::unique_lock lock(mutex_);
    for (int64_t done = 0; done < n;) {
      if (!closed_.ok()) return closed_;
      if (posted_.empty()) {
        SKERRY_RETURN_IF_ERROR(Wait(lock));
        continue;
      }
      const auto most = static_cast<size_t>(std::min(n - done, kPieceMax));
      const auto piece = posted_.front().first(std::min(most, posted_.front().size()));
      is_taking_ = true;
      lock.unlock();
      use(piece, done);
      lock.lock();
      is_taking_ = false;
      posted_.front() = posted_.front().subspan(piece.size());
      if (posted_.front().empty()) posted_.pop_front();
      done += std::ssize(piece);
      Moved();
    }
    return absl::OkStatus();
  }

  void Close(const absl::Status& why) override {
    SKERRY_CHECK(!why.ok());
    std::unique_lock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    Moved();
    changed_.wait(lock, [&] { return !is_taking_; });
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  void Moved() {
    ++moves_;
    changed_.notify_all();
  }

  // Until something moves, or it is closed.
  absl::Status Wait(std::unique_lock<std::mutex>& lock) {
    const int64_t seen = moves_;
    const auto patience = std::chrono::nanoseconds(patience_.nanos());
    if (changed_.wait_for(lock, patience, [&] { return moves_ != seen; })) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrFormat("nothing moved for %.3g s", patience_.seconds()));
  }

  const Duration patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::span<const float>> posted_;  // not yet taken
  bool is_taking_ = false;                     // the receiver reads the front's memory
  int64_t moves_ = 0;
  absl::Status closed_;
};

}  // namespace

std::vector<Channels> MemoryMesh(int32_t size, Duration patience) {
  SKERRY_CHECK(size >= 1 && patience > Duration());
  const auto n = static_cast<size_t>(size);
  std::vector<Channels> mesh(n);
  for (size_t r = 0; r < n; ++r) {
    mesh[r].rank = static_cast<int32_t>(r);
    mesh[r].to.resize(n);
    mesh[r].from.resize(n);
  }
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      if (from == to) continue;
      mesh[from].to[to] = mesh[to].from[from] = std::make_shared<MemoryChannel>(patience);
    }
  }
  return mesh;
}

}  // namespace skerry
