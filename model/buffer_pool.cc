#include "model/buffer_pool.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<Buffer>> BufferPool::Take() {
  if (free_.empty()) {
    SKERRY_ASSIGN_OR_RETURN(auto buffer, backend_->Allocate(floats_));
    ++allocated_;
    return buffer;
  }
  auto buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void BufferPool::Give(std::unique_ptr<Buffer> buffer) {
  if (buffer == nullptr) return;
  SKERRY_CHECK(buffer->size() == floats_, "a buffer goes back where it came from");
  free_.push_back(std::move(buffer));
}

void BufferPool::Trim() {
  allocated_ -= static_cast<int64_t>(free_.size());
  free_.clear();
}

}  // namespace skerry
