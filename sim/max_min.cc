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
  // The flows of a link that was full must be reached also when it is full no more.
  TouchLink(link);
  for (const int32_t flow : l.flows) Touch(flow);
  l.capacity = capacity;
  for (const int32_t flow : l.flows) SetDemand(flow, DemandOf(flows_[Index(flow)]));
}

int64_t MaxMin::DemandOf(const Flow& flow) const {
  int64_t demand = flow.cap;
  for (int32_t i = 0; i < flow.link_count; ++i)
    demand = std::min(demand, links_[Index(flow.links[Index(i)])].capacity);
  return demand;
}

void MaxMin::Touch(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  if (!f.dirty) dirty_flows_.push_back(flow);
  f.dirty = true;
  // A link that may be full before or after the change carries the change to its other flows.
  for (int32_t i = 0; i < f.link_count; ++i) {
    if (MayBeFull(links_[Index(f.links[Index(i)])])) TouchLink(f.links[Index(i)]);
  }
}

void MaxMin::TouchLink(int32_t link) {
  Link& l = links_[Index(link)];
  if (!l.dirty) dirty_links_.push_back(link);
  l.dirty = true;
}

void MaxMin::SetDemand(int32_t flow, int64_t demand) {
  Flow& f = flows_[Index(flow)];
  for (int32_t i = 0; i < f.link_count; ++i)
    links_[Index(f.links[Index(i)])].demand += demand - f.demand;
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
    l.weight += weight;
  }
  SetDemand(flow, DemandOf(f));
  Touch(flow);
  return flow;
}

void MaxMin::SetCap(int32_t flow, int64_t cap) {
  SKERRY_CHECK(cap > 0);
  Flow& f = flows_[Index(flow)];
  if (f.cap == cap) return;
  Touch(flow);
  f.cap = cap;
  SetDemand(flow, DemandOf(f));
  Touch(flow);
}

void MaxMin::RemoveFlow(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  SKERRY_CHECK(f.used, "a flow is removed once");
  Touch(flow);
  SetDemand(flow, 0);
  for (size_t i = 0; i < Index(f.link_count); ++i) {
    Link& l = links_[Index(f.links[i])];
    l.load -= f.rate;
    l.weight -= f.weight;
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

void MaxMin::Reach(int32_t flow) {
  Flow& f = flows_[Index(flow)];
  if (!f.used || f.reached) return;
  f.reached = true;
  f.frozen = false;
  flows_reached_.push_back(flow);
}

// The flows and the possibly full links that a change can reach.
void MaxMin::Collect() {
  flows_reached_.clear();
  links_reached_.clear();
  for (const int32_t flow : dirty_flows_) {
    flows_[Index(flow)].dirty = false;
    Reach(flow);
  }
  for (const int32_t link : dirty_links_) {
    links_[Index(link)].dirty = false;
    for (const int32_t flow : links_[Index(link)].flows) Reach(flow);
  }
  dirty_flows_.clear();
  dirty_links_.clear();
  for (size_t next = 0; next < flows_reached_.size(); ++next) {
    const Flow& f = flows_[Index(flows_reached_[next])];
    for (size_t i = 0; i < Index(f.link_count); ++i) {
      Link& l = links_[Index(f.links[i])];
      if (l.reached || !MayBeFull(l)) continue;
      l.reached = true;
      l.left = l.capacity;
      l.active = l.weight;
      links_reached_.push_back(f.links[i]);
      for (const int32_t other : l.flows) Reach(other);
    }
  }
}

void MaxMin::PushShare(int32_t link) {
  const Link& l = links_[Index(link)];
  if (l.active == 0) return;
  shares_.emplace_back(l.left / l.active, link);
  std::push_heap(shares_.begin(), shares_.end(), std::greater<>());
}

void MaxMin::Freeze(int32_t flow, int64_t rate) {
  Flow& f = flows_[Index(flow)];
  f.frozen = true;
  --not_frozen_;
  rate = std::max<int64_t>(rate, 1);
  for (size_t i = 0; i < Index(f.link_count); ++i) {
    Link& l = links_[Index(f.links[i])];
    l.load += rate - f.rate;
    if (!l.reached) continue;
    l.left = std::max<int64_t>(l.left - rate, 0);
    l.active -= f.weight;
  }
  if (rate != f.rate) changed_.push_back(flow);
  f.rate = rate;
}

void MaxMin::Fill() {
  shares_.clear();
  for (const int32_t link : links_reached_) PushShare(link);
  // Smallest demand for its weight first; the order among equals does not change the rates. A heap,
  // since mostly the links decide and few demands are looked at.
  by_demand_.clear();
  for (const int32_t flow : flows_reached_) {
    const Flow& f = flows_[Index(flow)];
    by_demand_.emplace_back(f.demand / f.weight, flow);
  }
  std::make_heap(by_demand_.begin(), by_demand_.end(), std::greater<>());
  const auto next = [this] {
    std::pop_heap(by_demand_.begin(), by_demand_.end(), std::greater<>());
    by_demand_.pop_back();
  };
  not_frozen_ = flows_reached_.size();
  while (not_frozen_ > 0) {
    const auto [demand, flow] = by_demand_.front();
    if (flows_[Index(flow)].frozen) {
      next();
      continue;
    }
    if (shares_.empty() || demand <= shares_.front().first) {
      Freeze(flow, flows_[Index(flow)].demand);
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
      if (!f.frozen) Freeze(other, share * f.weight);
    }
  }
}

std::span<const int32_t> MaxMin::Update() {
  changed_.clear();
  if (dirty_flows_.empty() && dirty_links_.empty()) return {};
  Collect();
  flows_computed_ += static_cast<int64_t>(flows_reached_.size());
  Fill();
  for (const int32_t flow : flows_reached_) flows_[Index(flow)].reached = false;
  for (const int32_t link : links_reached_) links_[Index(link)].reached = false;
  std::sort(changed_.begin(), changed_.end());
  return changed_;
}

}  // namespace skerry
