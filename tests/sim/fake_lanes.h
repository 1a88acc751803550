// Lanes between simulated nodes: a sum is there some looks after all members have asked for it.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/group/group_lane.h"

namespace skerry::testing {

class FakeLanes {
 public:
  // What goes wrong, from this part of a sum of a meeting on; the first is 0.
  enum class Fault { kNone, kNoId, kFailsAtOne, kNeverEndsAtOne, kFailsAtAll };
  explicit FakeLanes(Fault fault = Fault::kNone, int64_t from = 0) : fault_(fault), from_(from) {}

  int64_t sums = 0;  // that any meeting has begun; each may be of several parts
  std::unique_ptr<GroupLane> Make() { return std::make_unique<End>(this); }

 private:
  struct Ask {
    std::shared_ptr<const std::vector<float>> own;
    std::shared_ptr<std::vector<float>> sum;
  };
  struct Meeting {
    int32_t size = 0;
    std::map<int64_t, std::map<int32_t, Ask>> asked;  // by number, by rank
  };

  class End final : public GroupLane {
   public:
    explicit End(FakeLanes* all) : all_(all) {}
    void MakeId() override { made_ = ++all_->ids_; }
    Id id() const override {
      Id id = {};
      std::memcpy(id.data(), &made_, sizeof made_);
      return id;
    }
    void Meet(const Id& id, int32_t rank, int32_t size) override {
      int64_t number = 0;
      std::memcpy(&number, id.data(), sizeof number);
      meeting_ = &all_->meetings_[number];
      meeting_->size = size;
      rank_ = rank;
    }
    void Sum(std::shared_ptr<const std::vector<float>> own, std::shared_ptr<std::vector<float>> sum,
             int64_t first, int64_t size) override {
      looks_ = 0;
      auto& asked = meeting_->asked[++sums_];
      sum->resize(own->size());
      asked[rank_] = {std::move(own), std::move(sum)};
      if (static_cast<int32_t>(asked.size()) < meeting_->size) return;
      if (first + size == std::ssize(*asked.begin()->second.own)) ++all_->sums;
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + size); ++i) {
        float total = 0;
        for (const auto& [rank, ask] : asked) total += (*ask.own)[i];
        for (const auto& [rank, ask] : asked) (*ask.sum)[i] = total;
      }
      asked.clear();
      meeting_->asked[sums_];
    }
    Progress Look() override {
      constexpr int kLooks = 3;
      if (sums_ == 0) {
        const bool fails = all_->fault_ == Fault::kNoId;
        return {fails ? State::kFailed : State::kDone, 0};
      }
      const bool is_at_fault =
          sums_ > all_->from_ && (rank_ == 1 || all_->fault_ == Fault::kFailsAtAll);
      if (is_at_fault && all_->fault_ == Fault::kNeverEndsAtOne) return {};
      if (is_at_fault && all_->fault_ != Fault::kNone) return {State::kFailed, 0};
      const bool is_here = meeting_->asked[sums_].empty() && ++looks_ >= kLooks;
      return {is_here ? State::kDone : State::kUnderWay, 0};
    }
    std::string Words() const override { return "a lane of the simulation"; }

   private:
    FakeLanes* all_;
    Meeting* meeting_ = nullptr;
    int32_t rank_ = 0;
    int64_t made_ = 0, sums_ = 0;
    int looks_ = 0;
  };

  Fault fault_;
  int64_t from_;
  int64_t ids_ = 0;
  std::map<int64_t, Meeting> meetings_;
};

}  // namespace skerry::testing
