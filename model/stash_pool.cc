#include "model/stash_pool.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/host_buffer.h"

namespace skerry {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kReadAhead = 2;       // backward passes
constexpr int64_t kLeftForForward = 1;  // buffers
constexpr int64_t kWrittenAhead = 2;

}  // namespace

absl::StatusOr<std::unique_ptr<StashPool>> StashPool::Create(Backend* backend, int64_t floats,
                                                             const StashParking& parking) {
  std::unique_ptr<StashPool> pool(new StashPool(backend, floats));
  if (!parking.IsOn()) return pool;
  SKERRY_CHECK(parking.residents >= 2, "one to compute on and one that moves");
  pool->residents_ = parking.residents;
  const int32_t slots = parking.parked + kSwapSlots;
  if (parking.directory.empty()) {
    SKERRY_ASSIGN_OR_RETURN(pool->store_, OpenStashMemory(*backend, slots, floats));
  } else {
    SKERRY_CHECK(backend->is_host() || parking.staged,
                 "a disk is written to from the program's own memory");
    constexpr int64_t kBorder = kStashBorder / kFloatBytes;
    pool->floats_ = (floats + kBorder - 1) / kBorder * kBorder;
    pool->is_aligned_ = !parking.staged;
    SKERRY_ASSIGN_OR_RETURN(
        pool->store_, parking.staged
                          ? OpenStagedStashFile(*backend, parking.directory, slots, pool->floats_)
                          : OpenStashFile(parking.directory, slots, pool->floats_));
  }
  for (int32_t slot = slots; slot-- > 0;) pool->slots_.push_back(slot);
  return pool;
}

absl::StatusOr<StashPool::Id> StashPool::Take() {
  SKERRY_ASSIGN_OR_RETURN(auto buffer, Obtain());
  stashes_[++last_].buffer = std::move(buffer);
  return last_;
}

void StashPool::Keep(Id id) {
  stashes_.at(id).in_use = false;
  last_hidden_ = last_move_;
  if (store_ == nullptr) return;
  store_->PassEnded();
  while (Spare() + Written() < kWrittenAhead && WriteNewest()) {
  }
}

absl::Status StashPool::Fetch(Id id) {
  Stash& stash = stashes_.at(id);
  stash.in_use = true;
  if (stash.buffer == nullptr) {
    auto buffer = Obtain();
    stash.in_use = buffer.ok();
    SKERRY_RETURN_IF_ERROR(buffer.status());
    stash.buffer = *std::move(buffer);
    stash.move = last_move_ = store_->Read(stash.slot, stash.buffer->data());
    stash.is_read = true;
  }
  if (std::exchange(stash.is_read, false)) {
    const absl::Status status = Await(stash.move);
    if (!status.ok()) {
      stash.in_use = false;
      Recycle(std::move(stash.buffer), std::exchange(stash.move, 0));
      return status;
    }
  }
  ReadAhead();
  return absl::OkStatus();
}

void StashPool::Give(Id id) {
  const auto it = stashes_.find(id);
  if (it == stashes_.end()) return;
  Stash stash = std::move(it->second);
  stashes_.erase(it);
  last_hidden_ = last_move_;
  if (store_ != nullptr) store_->PassEnded();
  // Whoever is written there next comes after what is under way.
  if (stash.slot >= 0) slots_.push_back(stash.slot);
  if (stash.buffer != nullptr) Recycle(std::move(stash.buffer), stash.move);
  ReadAhead();
}

float* StashPool::data(Id id) const {
  const Stash& stash = stashes_.at(id);
  SKERRY_CHECK(stash.in_use && stash.buffer != nullptr, "a stash is fetched before it is read");
  return stash.buffer->data();
}

int64_t StashPool::HeldBytes() const {
  return allocated_ * floats_ * kFloatBytes + (store_ == nullptr ? 0 : store_->HeldBytes());
}

void StashPool::Trim() {
  for (const FreeBuffer& free : free_) {
    // An error is of a move that nobody wants any more.
    if (store_ != nullptr) store_->Wait(free.move).IgnoreError();
  }
  allocated_ -= std::ssize(free_);
  free_.clear();
}

absl::StatusOr<std::unique_ptr<Buffer>> StashPool::Allocate() {
  SKERRY_ASSIGN_OR_RETURN(auto buffer, is_aligned_ ? AllocateHostBuffer(floats_, kStashBorder)
                                                   : backend_->Allocate(floats_));
  ++allocated_;
  return buffer;
}

absl::Status StashPool::Await(int64_t move) {
  if (move > last_hidden_) ++exposed_;
  return store_->Wait(move);
}

// For the device, waiting where that must be.
absl::StatusOr<std::unique_ptr<Buffer>> StashPool::Obtain() {
  if (!free_.empty()) {
    FreeBuffer free = std::move(free_.back());
    free_.pop_back();
    if (store_ != nullptr) Await(free.move).IgnoreError();
    return std::move(free.buffer);
  }
  if (store_ == nullptr || allocated_ < residents_) return Allocate();
  if (Stash* const stash = BestToEvict()) return Evict(*stash);
  if (WriteNewest()) return Evict(*BestToEvict());
  return Allocate();
}

// An error of writing leaves it where it is.
absl::StatusOr<std::unique_ptr<Buffer>> StashPool::Evict(Stash& stash) {
  const absl::Status status = Await(std::exchange(stash.move, 0));
  // One that was being read has its copy still, whatever came of that.
  if (!std::exchange(stash.is_read, false) && !status.ok()) {
    slots_.push_back(std::exchange(stash.slot, -1));
    return status;
  }
  return std::move(stash.buffer);
}

// What was written first; without such, of those that were read ahead the newest.
StashPool::Stash* StashPool::BestToEvict() {
  Stash* best = nullptr;
  for (auto& [id, stash] : stashes_) {
    if (!stash.HasCopy()) continue;
    const bool is_better =
        best == nullptr || best->is_read || (!stash.is_read && stash.move < best->move);
    if (is_better) best = &stash;
  }
  return best;
}

int64_t StashPool::Written() const {
  return std::count_if(stashes_.begin(), stashes_.end(),
                       [](const auto& of) { return of.second.HasCopy() && !of.second.is_read; });
}

bool StashPool::WriteNewest() {
  if (slots_.empty()) return false;
  for (auto it = stashes_.rbegin(); it != stashes_.rend(); ++it) {
    Stash& stash = it->second;
    if (stash.in_use || stash.buffer == nullptr || stash.slot >= 0) continue;
    stash.slot = slots_.back();
    slots_.pop_back();
    stash.move = last_move_ = store_->Write(stash.slot, stash.buffer->data());
    return true;
  }
  return false;
}

bool StashPool::IsDue(std::map<Id, Stash>::const_iterator away) const {
  const auto before =
      std::count_if(stashes_.begin(), away, [](const auto& of) { return !of.second.in_use; });
  return before < kReadAhead;
}

void StashPool::ReadAhead() {
  if (store_ == nullptr) return;
  const auto is_away = [](const auto& of) { return of.second.buffer == nullptr; };
  const auto in_use = [](const auto& of) { return of.second.in_use; };
  while (true) {
    const auto away = std::find_if(stashes_.begin(), stashes_.end(), is_away);
    if (away == stashes_.end() || !IsDue(away)) return;
    // What is in use is free when the next forward pass begins.
    const int64_t coming = std::any_of(stashes_.begin(), stashes_.end(), in_use) ? 1 : 0;
    if (Spare() + Written() + coming <= kLeftForForward) return;
    auto buffer = ObtainAtOnce();
    if (buffer == nullptr) return;
    Stash& stash = away->second;
    stash.buffer = std::move(buffer);
    stash.move = last_move_ = store_->Read(stash.slot, stash.buffer->data());
    stash.is_read = true;
  }
}

// For the store; nullptr: not without waiting.
std::unique_ptr<Buffer> StashPool::ObtainAtOnce() {
  if (!free_.empty() && store_->CanFollow(free_.back().move)) {
    auto buffer = std::move(free_.back().buffer);
    free_.pop_back();
    return buffer;
  }
  if (allocated_ < residents_) {
    auto buffer = Allocate();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }
  Stash* const stash = BestToEvict();
  if (stash == nullptr || stash->is_read || !store_->CanFollow(stash->move)) return nullptr;
  stash->move = 0;
  return std::move(stash->buffer);
}

void StashPool::Recycle(std::unique_ptr<Buffer> buffer, int64_t move) {
  if (store_ != nullptr && allocated_ > residents_) {
    store_->Wait(move).IgnoreError();
    --allocated_;
    return;
  }
  free_.push_back({std::move(buffer), move});
}

}  // namespace skerry
