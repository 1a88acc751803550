#include "sim/max_min.h"

#include <algorithm>
#include <functional>

#include "common/check.h"

namespace skerry {

int32_t MaxMin::AddLink(int64_t capacity) {
  SKERRY_CHECK(capacity > 0);
  links_.push_back({});
  links_.back().capacity = capacity;
  return static_cast<int32_t>(links_.size()) - 1;
}

void MaxMin::SetCapacity(int32_t link, int64_t capacity) {
  SKERRY_CHECK(capacity > 0);
  Link& l = links_[Index(link)];
  if (l.capacity == capacity) return;
  l.capacity = capacity;
  for (const int32_t flow : l.flows) {
    SetDemand(flow, DemandOf(flows_[Index(flow)]));
    MarkDirty(flow);
  }
}

int64_t MaxMin::DemandOf(const Flow& flow) const {
  int64_t demand = flow.cap;
  for (const int32_t link : LinksOf(flow)) demand = std::min(demand, links_[Index(link)].capacity);
  return demand;
}

void MaxMin::MarkDirty(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  if (!f.dirty) dirty_flows_.push_back(flow);
  f.dirty = true;
}

void MaxMin::Touch(int32_t link) {
  Link& l = links_[Index(link)];
  if (!l.touched) touched_.push_back(link);
  l.touched = true;
}

void MaxMin::SetDemand(int32_t flow, int64_t demand) {
  Flow& f = flows_[Index(flow)];
  for (const int32_t link : LinksOf(f)) links_[Index(link)].demand += demand - f.demand;
  f.demand = demand;
}

int32_t MaxMin::AddFlow(std::span<const int32_t> links, int64_t cap, int64_t weight) {
  SKERRY_CHECK(links.size() <= kLinksPerFlowMax && cap > 0 && weight > 0);
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<int32_t>(flows_.size()));
    flows_.push_back({});
  }
  const int32_t flow = free_flows_.back();
  free_flows_.pop_back();
  Flow& f = flows_[Index(flow)];
  const bool was_dirty = f.dirty;
  f = {};
  f.dirty = was_dirty;
  f.used = true;
  f.cap = cap;
  f.weight = weight;
  f.link_count = static_cast<int32_t>(links.size());
  for (size_t i = 0; i < links.size(); ++i) {
    Link& l = links_[Index(links[i])];
    f.links[i] = links[i];
    f.place[i] = static_cast<int32_t>(l.flows.size());
    l.flows.push_back(flow);
  }
  SetDemand(flow, DemandOf(f));
  MarkDirty(flow);
  return flow;
}

void MaxMin::SetCap(int32_t flow, int64_t cap) {
  SKERRY_CHECK(cap > 0);
  Flow& f = flows_[Index(flow)];
  if (f.cap == cap) return;
  f.cap = cap;
  SetDemand(flow, DemandOf(f));
  // What a link binds below its old and its new demand stays as it is.
  if (f.bound_by == kDemand || f.demand / f.weight <= f.level()) MarkDirty(flow);
}

void MaxMin::RemoveFlow(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  SKERRY_CHECK(f.used, "a flow is removed once");
  SetDemand(flow, 0);
  if (f.bound_by != kDemand) links_[Index(f.bound_by)].bound -= f.weight;
  for (size_t i = 0; i < Index(f.link_count); ++i) {
    Link& l = links_[Index(f.links[i])];
    Touch(f.links[i]);
    l.load -= f.rate;
    const int32_t last = l.flows.back();
    l.flows[Index(f.place[i])] = last;
    l.flows.pop_back();
    if (last == flow) continue;
    Flow& moved = flows_[Index(last)];
    for (size_t j = 0; j < Index(moved.link_count); ++j) {
      if (moved.links[j] == f.links[i]) moved.place[j] = f.place[i];
    }
  }
  f.used = false;
  f.link_count = 0;
  free_flows_.push_back(flow);
}

void MaxMin::Join(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  if (!f.used || f.in_set) return;
  f.in_set = true;
  set_.push_back(flow);
  if (f.bound_by != kDemand) links_[Index(f.bound_by)].bound -= f.weight;
  for (const int32_t link : LinksOf(f)) {
    Link& l = links_[Index(link)];
    l.load -= f.rate;
    l.set_weight += f.weight;
    Touch(link);
  }
}

void MaxMin::PushShare(int32_t link) {
  const Link& l = links_[Index(link)];
  if (l.active == 0) return;
  shares_.emplace_back(l.left / l.active, link);
  std::push_heap(shares_.begin(), shares_.end(), std::greater<>());
}

void MaxMin::Freeze(int32_t flow, int64_t rate, int32_t bound_by) {
  Flow& f = flows_[Index(flow)];
  f.frozen = true;
  --not_frozen_;
  f.next_rate = std::max<int64_t>(rate, 1);
  f.bound_by = bound_by;
  for (const int32_t link : LinksOf(f)) {
    Link& l = links_[Index(link)];
    l.left = std::max<int64_t>(l.left - f.next_rate, 0);
    l.active -= f.weight;
    l.set_load += f.next_rate;
    l.set_level = f.next_rate / f.weight;
  }
  if (bound_by != kDemand) links_[Index(bound_by)].set_bound += f.weight;
}

// The flows of the set, into what the others leave.
void MaxMin::Fill() {
  shares_.clear();
  for (const int32_t link : touched_) {
    Link& l = links_[Index(link)];
    l.set_load = l.set_bound = l.set_level = 0;
    l.left = std::max<int64_t>(l.capacity - l.load, 0);
    l.active = l.set_weight;
    if (MayBeFull(l)) PushShare(link);
  }
  // Smallest demand for its weight first; the order among equals does not change the rates. A heap,
  // since mostly the links decide and few demands are looked at.
  by_demand_.clear();
  for (const int32_t flow : set_) {
    Flow& f = flows_[Index(flow)];
    f.frozen = false;
    by_demand_.emplace_back(f.demand / f.weight, flow);
  }
  std::make_heap(by_demand_.begin(), by_demand_.end(), std::greater<>());
  const auto next = [this] {
    std::pop_heap(by_demand_.begin(), by_demand_.end(), std::greater<>());
    by_demand_.pop_back();
  };
  not_frozen_ = set_.size();
  while (not_frozen_ > 0) {
    const auto [demand, flow] = by_demand_.front();
    if (flows_[Index(flow)].frozen) {
      next();
      continue;
    }
    if (shares_.empty() || demand <= shares_.front().first) {
      Freeze(flow, flows_[Index(flow)].demand, kDemand);
      next();
      continue;
    }
    const auto [share, link] = shares_.front();
    std::pop_heap(shares_.begin(), shares_.end(), std::greater<>());
    shares_.pop_back();
    Link& l = links_[Index(link)];
    // Shares only grow while flows are frozen below them: an outdated one goes back, larger.
    if (l.active == 0) continue;
    if (l.left / l.active != share) {
      PushShare(link);
      continue;
    }
    for (const int32_t other : l.flows) {
      const Flow& f = flows_[Index(other)];
      if (f.in_set && !f.frozen) Freeze(other, share * f.weight, link);
    }
  }
}

// Flows outside the set that this link should give more, or less, than they have.
void MaxMin::JoinByLink(int32_t link) {
  Link& l = links_[Index(link)];
  const bool has_room = l.capacity - l.load - l.set_load >= l.bound + l.set_bound;
  if (l.bound > 0 && (has_room || l.set_level > l.level + kRounding)) {
    for (const int32_t flow : l.flows) {
      if (flows_[Index(flow)].bound_by == link) Join(flow);
    }
  }
  // A link whose level is known to hold has nobody far above it.
  if (l.set_bound == 0 || (l.bound > 0 && l.set_level >= l.level - kRounding)) return;
  const int64_t level = l.set_level;
  for (const int32_t flow : l.flows) {
    if (flows_[Index(flow)].level() > level + kRounding) Join(flow);
  }
}

void MaxMin::Commit() {
  for (const int32_t link : touched_) {
    Link& l = links_[Index(link)];
    if (l.set_bound > 0 && l.bound == 0) l.level = l.set_level;
    l.load += l.set_load;
    l.bound += l.set_bound;
    l.set_weight = 0;
    l.touched = false;
  }
  for (const int32_t flow : set_) {
    Flow& f = flows_[Index(flow)];
    f.in_set = false;
    if (f.rate != f.next_rate) changed_.push_back(flow);
    f.rate = f.next_rate;
  }
  set_.clear();
  touched_.clear();
  std::sort(changed_.begin(), changed_.end());
}

std::span<const int32_t> MaxMin::Update() {
  changed_.clear();
  if (dirty_flows_.empty() && touched_.empty()) return changed_;
  for (const int32_t flow : dirty_flows_) {
    flows_[Index(flow)].dirty = false;
    Join(flow);
  }
  dirty_flows_.clear();
  size_t filled = 0;
  do {
    filled = set_.size();
    flows_computed_ += static_cast<int64_t>(filled);
    Fill();
    for (size_t i = 0, touched = touched_.size(); i < touched; ++i) JoinByLink(touched_[i]);
  } while (filled < set_.size());
  Commit();
  return changed_;
}

}  // namespace skerry
