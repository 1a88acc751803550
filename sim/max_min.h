// Max-min fair rates: no flow can get more without taking from one that has, for its weight, no
// more than it.
//
// Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2) with a cap per flow,
// in whole bytes per second. A flow is bound by its demand or by a link; that link is full, and no
// flow of it gets, for its weight, more. After changes this is restored where it no longer holds:
// the changed flows are filled into what the others leave, then those join them that could get
// more now, or have more than is fair, until none is left. So a change costs what it changes, and
// not all it could reach. Rates depend on what came before by no more than the rounding of a share
// (one byte per second and unit of weight, per link).
//
// Pure. Not thread-safe. Flow and link numbers are small and reused; the numbers of removed flows
// are given out again, last first.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace skerry {

class MaxMin {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;
  static constexpr size_t kLinksPerFlowMax = 10;

  // Bytes per second, > 0; kUnlimited for a link that never limits.
  int32_t AddLink(int64_t capacity);
  void SetCapacity(int32_t link, int64_t capacity);

  // `links` are distinct, at most kLinksPerFlowMax. `weight` > 0. The rate is 0 until Update.
  int32_t AddFlow(std::span<const int32_t> links, int64_t cap, int64_t weight = 1);
  void SetCap(int32_t flow, int64_t cap);
  void RemoveFlow(int32_t flow);

  // Brings all rates up to date. Returns the flows whose rate changed, in increasing order; valid
  // until the next call.
  std::span<const int32_t> Update();

  int64_t rate(int32_t flow) const { return flows_[Index(flow)].rate; }
  int64_t capacity(int32_t link) const { return links_[Index(link)].capacity; }
  size_t flows_on(int32_t link) const { return links_[Index(link)].flows.size(); }
  // What the flows of a link get together, as of the last Update.
  int64_t load(int32_t link) const { return links_[Index(link)].load; }
  // Flows computed by all calls of Update so far: the price of the changes.
  int64_t flows_computed() const { return flows_computed_; }

 private:
  static constexpr int32_t kDemand = -1;
  static constexpr int64_t kRounding = 1;  // by which equal levels differ

  struct Flow {
    std::array<int32_t, kLinksPerFlowMax> links{};
    std::array<int32_t, kLinksPerFlowMax> place{};  // index in the link's list
    int32_t link_count = 0;
    int32_t bound_by = kDemand;  // or a link
    bool used = false;
    bool dirty = false;
    bool in_set = false;
    bool frozen = false;
    int64_t cap = 0;
    int64_t weight = 1;
    int64_t demand = 0;  // most it can get alone: cap, and every link's capacity
    int64_t rate = 0;
    int64_t next_rate = 0;  // of one in the set
    int64_t level() const { return rate / weight; }
  };
  // Those outside the set, and those of the set while filling.
  struct Link {
    int64_t capacity = 0;
    std::vector<int32_t> flows;
    int64_t demand = 0;  // of its flows together
    int64_t load = 0;    // of those outside
    int64_t bound = 0;   // weight of those outside that it binds
    int64_t level = 0;   // of the flows it binds, within kRounding
    bool touched = false;
    int64_t set_weight = 0;
    int64_t set_load = 0;
    int64_t set_bound = 0;
    int64_t set_level = 0;  // the highest
    int64_t left = 0;
    int64_t active = 0;  // weight of the flows not yet frozen
  };

  static size_t Index(int32_t number) { return static_cast<size_t>(number); }
  std::span<const int32_t> LinksOf(const Flow& f) const {
    return std::span(f.links).first(Index(f.link_count));
  }
  bool MayBeFull(const Link& link) const { return link.demand > link.capacity; }
  int64_t DemandOf(const Flow& flow) const;
  void MarkDirty(int32_t flow);
  void Touch(int32_t link);
  void SetDemand(int32_t flow, int64_t demand);
  void Join(int32_t flow);
  void Fill();
  void Freeze(int32_t flow, int64_t rate, int32_t bound_by);
  void PushShare(int32_t link);
  void JoinByLink(int32_t link);
  void Commit();

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<int32_t> free_flows_;
  std::vector<int32_t> dirty_flows_, changed_;
  std::vector<int32_t> set_;                            // flows that are computed again
  std::vector<int32_t> touched_;                        // links whose flows have to be looked at
  std::vector<std::pair<int64_t, int32_t>> by_demand_;  // heap of (that of weight 1, flow)
  size_t not_frozen_ = 0;                               // of set_
  std::vector<std::pair<int64_t, int32_t>> shares_;  // heap of (that of weight 1, link), some old
  int64_t flows_computed_ = 0;
};

}  // namespace skerry
