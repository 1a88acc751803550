#include "kernels/group/device_group.h"

#include <utility>

#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/plugin/gpu_group.h"

namespace skerry {
namespace {

// Another group's operations, on values of a device whose memory the host does not see. Every one
// passes n values over the bus each way. Host memory grows with the largest n.
class StagedGroup final : public Group {
 public:
  StagedGroup(std::unique_ptr<Group> inner, Backend* backend)
      : inner_(std::move(inner)), backend_(backend) {}

  std::string name() const override { return inner_->name() + ", through host memory"; }
  int32_t rank() const override { return inner_->rank(); }
  int32_t size() const override { return inner_->size(); }

  absl::Status AllReduce(float* values, int64_t n) override {
    return Staged(values, n, [&](float* host) { return inner_->AllReduce(host, n); });
  }
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    const auto host =
        Host(n).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.size));
    return Staged(values + range.first, host,
                  [&] { return inner_->ReduceScatterOf(host_.data(), n, range); });
  }
  absl::Status AllGather(float* values, int64_t n) override {
    return Staged(values, n, [&](float* host) { return inner_->AllGather(host, n); });
  }
  absl::Status Broadcast(float* values, int64_t n, int32_t root) override {
    return Staged(values, n, [&](float* host) { return inner_->Broadcast(host, n, root); });
  }
  absl::Status Send(const float* values, int64_t n, int32_t to) override {
    backend_->Download(values, Host(n));
    backend_->Synchronize();
    return inner_->Send(host_.data(), n, to);
  }
  absl::Status Receive(float* values, int64_t n, int32_t from) override {
    SKERRY_RETURN_IF_ERROR(inner_->Receive(Host(n).data(), n, from));
    backend_->Upload(Host(n), values);
    backend_->Synchronize();
    return absl::OkStatus();
  }
  void Abort(const absl::Status& why) override { inner_->Abort(why); }

 private:
  std::span<float> Host(int64_t n) {
    const auto size = static_cast<size_t>(n);
    if (host_.size() < size) host_.resize(size);
    return std::span<float>(host_).first(size);
  }

  template <typename Operation>
  absl::Status Staged(float* values, int64_t n, const Operation& operation) {
    const std::span<float> host = Host(n);
    return Staged(values, host, [&] { return operation(host.data()); });
  }
  template <typename Operation>
  absl::Status Staged(float* values, std::span<float> host, const Operation& operation) {
    backend_->Download(values, host);
    backend_->Synchronize();
    SKERRY_RETURN_IF_ERROR(operation());
    backend_->Upload(host, values);
    backend_->Synchronize();
    return absl::OkStatus();
  }

  std::unique_ptr<Group> inner_;
  Backend* backend_;
  std::vector<float> host_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Group>>> MakeDeviceGroup(
    std::span<Backend* const> backends, Duration patience) {
  if (backends.size() > 1) {
    auto nccl = MakeGpuGroup(backends, patience);
    if (nccl.ok()) return nccl;
  }
  auto groups = MakeThreadRing(static_cast<int32_t>(backends.size()), patience);
  for (size_t i = 0; i < backends.size(); ++i) {
    if (backends[i]->is_host() || backends.size() == 1) continue;
    groups[i] = std::make_unique<StagedGroup>(std::move(groups[i]), backends[i]);
  }
  return groups;
}

absl::StatusOr<GroupBeside> MakeGroupBeside(std::span<Backend* const> backends, Duration patience) {
  GroupBeside beside;
  std::vector<Backend*> streams;
  for (Backend* backend : backends) {
    streams.push_back(backend);
    const GpuHandle gpu = GpuOf(*backend);
    if (gpu.table == nullptr) continue;
    SKERRY_ASSIGN_OR_RETURN(auto stream, CreateGpuBackend(*gpu.table, gpu.index));
    streams.back() = beside.streams.emplace_back(std::move(stream)).get();
  }
  SKERRY_ASSIGN_OR_RETURN(beside.ends, MakeDeviceGroup(streams, patience));
  return beside;
}

}  // namespace skerry
