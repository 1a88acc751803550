#include "kernels/copy_lane.h"

#include "common/status.h"
#include "kernels/host_buffer.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/stash_store.h"

namespace skerry {
namespace {

class PlainLane final : public CopyLane {
 public:
  PlainLane(Backend& backend, std::unique_ptr<Buffer> memory)
      : backend_(backend), memory_(std::move(memory)) {}

  std::span<float> memory() override {
    return {memory_->data(), static_cast<size_t>(memory_->size())};
  }
  int64_t Fetch(const float* device, std::span<float> host) override {
    backend_.Download(device, host);
    backend_.Synchronize();
    return ++copies_;
  }
  int64_t Send(std::span<const float> host, float* device) override {
    backend_.Upload(host, device);
    backend_.Synchronize();
    return ++copies_;
  }
  void Wait(int64_t) override {}

 private:
  Backend& backend_;
  std::unique_ptr<Buffer> memory_;
  int64_t copies_ = 0;
};

class PinnedLane final : public CopyLane {
 public:
  PinnedLane(GpuHandle gpu, GpuLane* lane, int64_t values)
      : table_(*gpu.table), device_(gpu.device), lane_(lane), values_(values) {}
  PinnedLane(const PinnedLane&) = delete;
  PinnedLane& operator=(const PinnedLane&) = delete;
  ~PinnedLane() override { table_.close_lane(device_, lane_); }

  std::span<float> memory() override {
    return {static_cast<float*>(table_.lane_memory(device_, lane_)), static_cast<size_t>(values_)};
  }
  int64_t Fetch(const float* device, std::span<float> host) override {
    return table_.lane_fetch(device_, lane_, device, host.data(), Bytes(host.size()));
  }
  int64_t Send(std::span<const float> host, float* device) override {
    return table_.lane_send(device_, lane_, host.data(), device, Bytes(host.size()));
  }
  void Wait(int64_t copies) override { table_.lane_wait(device_, lane_, copies); }

 private:
  static int64_t Bytes(size_t values) { return static_cast<int64_t>(values * sizeof(float)); }

  const GpuTable& table_;
  GpuDevice* device_;
  GpuLane* lane_;
  int64_t values_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane(Backend& backend, int64_t values) {
  const GpuHandle gpu = GpuOf(backend);
  if (gpu.device == nullptr) {
    SKERRY_ASSIGN_OR_RETURN(auto memory, AllocateHostBuffer(values, kStashBorder));
    return std::make_unique<PlainLane>(backend, std::move(memory));
  }
  const int64_t bytes = values * static_cast<int64_t>(sizeof(float));
  GpuLane* lane = gpu.table->open_lane(gpu.device, bytes);
  if (lane == nullptr) {
    return ResourceExhausted("no %d bytes of host memory that a GPU could copy from [SK-memory]",
                             bytes);
  }
  return std::make_unique<PinnedLane>(gpu, lane, values);
}

}  // namespace skerry
