#include "kernels/host_buffer.h"

#include <cstdlib>
#include <cstring>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr int64_t kFloatsMax = INT64_MAX / 8;

class HostBuffer : public Buffer {
 public:
  HostBuffer(float* values, int64_t size) : values_(values), size_(size) {}
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() override { std::free(values_); }

  float* data() override { return values_; }
  int64_t size() const override { return size_; }

 private:
  float* values_;
  int64_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostBuffer(int64_t floats, int64_t border) {
  SKERRY_CHECK(floats >= 0);
  void* memory = nullptr;
  if (floats <= kFloatsMax) {
    const int64_t bytes = (floats * 4 + border) / border * border;
    memory = std::aligned_alloc(static_cast<size_t>(border), static_cast<size_t>(bytes));
  }
  if (memory == nullptr) {
    return ResourceExhausted("no memory for %d float32 values; use a smaller microbatch", floats);
  }
  std::memset(memory, 0, static_cast<size_t>(floats) * sizeof(float));
  return std::make_unique<HostBuffer>(static_cast<float*>(memory), floats);
}

}  // namespace skerry
