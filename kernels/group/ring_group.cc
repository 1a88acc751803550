#include "kernels/group/ring_group.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/group/ring_order.h"

namespace skerry {
namespace {

class Ring final : public Group {
 public:
  Ring(Channels channels, std::string where)
      : rank_(channels.rank),
        size_(static_cast<int32_t>(channels.to.size())),
        channels_(std::move(channels)),
        where_(std::move(where)) {
    SKERRY_CHECK(size_ >= 1 && channels_.from.size() == channels_.to.size());
    SKERRY_CHECK(rank_ >= 0 && rank_ < size_);
  }
  ~Ring() override { Abort(Aborted("it has left")); }

  std::string name() const override { return absl::StrFormat("ring of %d %s", size_, where_); }
  int32_t rank() const override { return rank_; }
  int32_t size() const override { return size_; }

  absl::Status AllReduce(float* values, int64_t n) override {
    return Checked([&] {
      const absl::Status reduced = ReduceParts(values, n, {0, n});
      return reduced.ok() ? GatherParts(values, n) : reduced;
    });
  }
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    return Checked([&] { return ReduceParts(values, n, range); });
  }
  absl::Status AllGather(float* values, int64_t n) override {
    return Checked([&] { return GatherParts(values, n); });
  }

  absl::Status Broadcast(float* values, int64_t n, int32_t root) override {
    SKERRY_CHECK(root >= 0 && root < size_);
    return Checked([&] { return size_ == 1 ? absl::OkStatus() : PassOn(values, n, root); });
  }

  absl::Status Send(const float* values, int64_t n, int32_t to) override {
    SKERRY_CHECK(to >= 0 && to < size_ && to != rank_);
    return Checked([&] {
      Channel& channel = *channels_.to[static_cast<size_t>(to)];
      const absl::Status posted = channel.Post({values, static_cast<size_t>(n)});
      return Of(to, posted.ok() ? channel.Drain() : posted);
    });
  }

  absl::Status Receive(float* values, int64_t n, int32_t from) override {
    SKERRY_CHECK(from >= 0 && from < size_ && from != rank_);
    return Checked([&] { return Of(from, CopyFrom(from, values, n)); });
  }

  void Abort(const absl::Status& why) override {
    const absl::Status told = Of(rank_, why);
    for (const auto* ends : {&channels_.to, &channels_.from}) {
      for (const auto& channel : *ends) {
        if (channel != nullptr) channel->Close(told);
      }
    }
  }

 private:
  int32_t Next() const { return (rank_ + 1) % size_; }
  int32_t Previous() const { return (rank_ + size_ - 1) % size_; }

  // One operation. Not where some member is gone already, though its part would need others only;
  // and after a failure nobody may wait for this member, or read its memory.
  template <typename Operation>
  absl::Status Checked(const Operation& operation) {
    absl::Status status = Lost();
    if (status.ok()) status = operation();
    if (!status.ok()) Abort(status);
    return status;
  }

  absl::Status Lost() const {
    for (int32_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      SKERRY_RETURN_IF_ERROR(Of(r, channels_.from[static_cast<size_t>(r)]->status()));
    }
    return absl::OkStatus();
  }

  // Names the member that an error is about, unless it says so itself.
  absl::Status Of(int32_t rank, const absl::Status& status) const {
    constexpr const char* kBegins = "member ";
    if (status.ok() || ErrorText(status).rfind(kBegins, 0) == 0) return status;
    return Annotate(status, absl::StrFormat("%s%d of %d", kBegins, rank, size_));
  }

  absl::Status CopyFrom(int32_t from, float* values, int64_t n) {
    return channels_.from[static_cast<size_t>(from)]->Take(
        n, [values](std::span<const float> piece, int64_t first) {
          std::copy(piece.begin(), piece.end(), values + first);
        });
  }

  // One step around: sends `give` to the next member while take(piece, first) is called for what
  // comes from the one before; both are parts of one array that do not meet.
  absl::Status Step(std::span<const float> give, int64_t wanted, const Channel::Use& take) {
    Channel& out = *channels_.to[static_cast<size_t>(Next())];
    Channel& in = *channels_.from[static_cast<size_t>(Previous())];
    SKERRY_RETURN_IF_ERROR(Of(Next(), out.Post(give)));
    SKERRY_RETURN_IF_ERROR(Of(Previous(), in.Take(wanted, take)));
    return Of(Next(), out.Drain());
  }

  // One step's parts of n values.
  struct Parts {
    GroupPart give, take;
  };
  Parts PartsOf(RingPass pass, int32_t step, int64_t n) const {
    const RingStep parts = RingStepOf(pass, size_, rank_, step);
    return {PartOf(n, size_, parts.give), PartOf(n, size_, parts.take)};
  }

  absl::Status ReduceParts(float* values, int64_t n, const GroupPart& range) {
    for (int32_t step = 0; step + 1 < size_; ++step) {
      const Parts parts = PartsOf(RingPass::kReduce, step, n);
      const GroupPart give = Common(parts.give, range), take = Common(parts.take, range);
      SKERRY_RETURN_IF_ERROR(
          Step({values + give.first, static_cast<size_t>(give.size)}, take.size,
               [own = values + take.first](std::span<const float> piece, int64_t first) {
                 for (size_t i = 0; i < piece.size(); ++i)
                   own[first + static_cast<int64_t>(i)] += piece[i];
               }));
    }
    return absl::OkStatus();
  }

  absl::Status GatherParts(float* values, int64_t n) {
    for (int32_t step = 0; step + 1 < size_; ++step) {
      const auto [give, take] = PartsOf(RingPass::kGather, step, n);
      SKERRY_RETURN_IF_ERROR(
          Step({values + give.first, static_cast<size_t>(give.size)}, take.size,
               [own = values + take.first](std::span<const float> piece, int64_t first) {
                 std::copy(piece.begin(), piece.end(), own + first);
               }));
    }
    return absl::OkStatus();
  }

  // Each member hands on what it has just got while the next piece is coming.
  absl::Status PassOn(float* values, int64_t n, int32_t root) {
    Channel& out = *channels_.to[static_cast<size_t>(Next())];
    const bool is_last = Next() == root;
    if (rank_ == root) {
      SKERRY_RETURN_IF_ERROR(Of(Next(), out.Post({values, static_cast<size_t>(n)})));
      return Of(Next(), out.Drain());
    }
    for (int64_t first = 0; first < n; first += Channel::kPieceMax) {
      const int64_t piece = std::min(n - first, Channel::kPieceMax);
      SKERRY_RETURN_IF_ERROR(Of(Previous(), CopyFrom(Previous(), values + first, piece)));
      if (is_last) continue;
      SKERRY_RETURN_IF_ERROR(Of(Next(), out.Post({values + first, static_cast<size_t>(piece)})));
    }
    return is_last ? absl::OkStatus() : Of(Next(), out.Drain());
  }

  const int32_t rank_, size_;
  Channels channels_;
  std::string where_;
};

}  // namespace

std::unique_ptr<Group> MakeRing(Channels channels, std::string where) {
  return std::make_unique<Ring>(std::move(channels), std::move(where));
}

std::vector<std::unique_ptr<Group>> MakeThreadRing(int32_t members, Duration patience) {
  std::vector<std::unique_ptr<Group>> ring;
  for (Channels& channels : MemoryMesh(members, patience))
    ring.push_back(MakeRing(std::move(channels), "in this process"));
  return ring;
}

}  // namespace skerry
