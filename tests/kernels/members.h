// Groups under test: members on threads, sums by the definition, and channels on which a member
// dies or stops at a chosen call.
#pragma once

#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "kernels/group/group.h"
#include "kernels/group/ring_group.h"
#include "tests/kernels/values.h"

namespace skerry {

using Groups = std::vector<std::unique_ptr<Group>>;

// work(member) on a thread of each; its results by rank.
template <typename Work>
std::vector<absl::Status> OnThreads(size_t members, const Work& work) {
  std::vector<absl::Status> results(members);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < members; ++r) threads.emplace_back([&, r] { results[r] = work(r); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

// What each member brings: sums of these depend on the order.
inline std::vector<Values> Brought(int32_t members, int64_t n) {
  std::vector<Values> all;
  for (int32_t r = 0; r < members; ++r) {
    all.push_back(Normals(n, "member " + std::to_string(r)));
    for (size_t i = 0; i < all.back().size(); i += 3) all.back()[i] *= 1e4f;
  }
  return all;
}

// The sum in the order that kernels/group/group.h states for a ring.
inline Values RingSum(const std::vector<Values>& brought) {
  const auto members = static_cast<int32_t>(brought.size());
  const auto n = std::ssize(brought.front());
  Values sum(static_cast<size_t>(n));
  for (int32_t p = 0; p < members; ++p) {
    const GroupPart part = PartOf(n, members, p);
    for (auto i = static_cast<size_t>(part.first); i < static_cast<size_t>(part.first + part.size);
         ++i) {
      float value = brought[static_cast<size_t>((p + 1) % members)][i];
      for (int32_t k = 2; k <= members; ++k) {
        value += brought[static_cast<size_t>((p + k) % members)][i];
      }
      sum[i] = value;
    }
  }
  return sum;
}

// What becomes of one member at one of its calls on channels.
struct Fault {
  enum class Kind { kNone, kDeath, kStop };
  Kind kind = Kind::kNone;
  int at_call = 0;
  std::latch* resumes = nullptr;  // kStop: it goes on then
  Channels ends = {};             // the member's own; kDeath: they close, as connections would
  int calls = 0;

  absl::Status OnCall() {
    const int call = calls++;
    if (kind == Kind::kStop && call == at_call) resumes->wait();
    if (kind != Kind::kDeath || call < at_call) return absl::OkStatus();
    for (const auto* channels : {&ends.to, &ends.from}) {
      for (const auto& channel : *channels) {
        if (channel != nullptr) channel->Close(Aborted("connection lost"));
      }
    }
    return Aborted("dead");
  }
};

class FaultyChannel final : public Channel {
 public:
  FaultyChannel(std::shared_ptr<Channel> inner, std::shared_ptr<Fault> fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}
  absl::Status Post(std::span<const float> values) override {
    SKERRY_RETURN_IF_ERROR(fault_->OnCall());
    return inner_->Post(values);
  }
  absl::Status Drain() override {
    SKERRY_RETURN_IF_ERROR(fault_->OnCall());
    return inner_->Drain();
  }
  absl::Status Take(int64_t n, const Use& use) override {
    SKERRY_RETURN_IF_ERROR(fault_->OnCall());
    return inner_->Take(n, use);
  }
  void Close(const absl::Status& why) override { inner_->Close(why); }
  absl::Status status() const override { return inner_->status(); }

 private:
  std::shared_ptr<Channel> inner_;
  std::shared_ptr<Fault> fault_;
};

// A ring in which that befalls member `victim`; the fault counts its calls.
struct FaultyRing {
  Groups groups;
  std::shared_ptr<Fault> fault;
};
inline FaultyRing MakeFaultyRing(int32_t members, int32_t victim, const Fault& fault,
                                 Duration patience) {
  FaultyRing ring{{}, std::make_shared<Fault>(fault)};
  for (Channels& channels : MemoryMesh(members, patience)) {
    if (channels.rank == victim) {
      ring.fault->ends = channels;
      for (auto* ends : {&channels.to, &channels.from}) {
        for (auto& channel : *ends) {
          if (channel != nullptr) channel = std::make_shared<FaultyChannel>(channel, ring.fault);
        }
      }
    }
    ring.groups.push_back(MakeRing(std::move(channels), "under test"));
  }
  return ring;
}

}  // namespace skerry
