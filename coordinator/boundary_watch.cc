#include "coordinator/boundary_watch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/median.h"

namespace skerry {
namespace {

double SpreadOf(std::vector<double> values, double median) {
  for (double& value : values) value = std::fabs(value - median);
  return Median(std::move(values));
}

// Without the one at `i`.
std::vector<double> OthersOf(const std::vector<double>& values, size_t i) {
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<int64_t>(i));
  return others;
}

}  // namespace

const char* NameOf(BoundaryWatch::Is is) {
  return is == BoundaryWatch::Is::kOdd ? "odd" : "disputed";
}

void BoundaryWatch::Note(const NodeId& from, const BoundarySizes& sizes) {
  auto& said = said_[from];
  const int64_t number = sizes.first_step / kBoundaryPeriodSteps;
  said.erase(said.lower_bound(number), said.end());
  Period& period = said[number];
  for (const BoundarySide& side : sizes.sides) {
    period[{side.other, side.is_gradient, side.was_sent}] = {side.count, double{side.log2_rms}};
  }
  while (said.size() > kPeriods) said.erase(said.begin());
}

void BoundaryWatch::Forget(const NodeId& node) {
  said_.erase(node);
  for (auto& [from, said] : said_) {
    for (auto& [number, period] : said) {
      std::erase_if(period, [&](const auto& side) { return std::get<NodeId>(side.first) == node; });
    }
  }
}

// Who is gone contradicts nobody.
void BoundaryWatch::KeepOnly(const std::vector<std::vector<NodeId>>& stages) {
  std::set<NodeId> here;
  for (const auto& replicas : stages) here.insert(replicas.begin(), replicas.end());
  std::erase_if(said_, [&](const auto& said) { return !here.contains(said.first); });
  for (auto& [from, said] : said_) {
    for (auto& [number, period] : said) {
      std::erase_if(period,
                    [&](const auto& side) { return !here.contains(std::get<NodeId>(side.first)); });
    }
  }
}

// What one end says of an edge in a period; who was sent to says how much there was.
void BoundaryWatch::AddSide(std::map<EdgeKey, Edge>* edges, const NodeId& from, int64_t number,
                            const Side& side, const Word& word) const {
  const auto& [other, is_gradient, was_sent] = side;
  Edge& edge =
      (*edges)[was_sent ? EdgeKey(from, other, is_gradient) : EdgeKey(other, from, is_gradient)];
  const auto theirs = said_.find(other);
  const Word* counter = nullptr;
  bool has_said = false;
  if (theirs != said_.end()) {
    const auto period = theirs->second.find(number);
    has_said = period != theirs->second.end();
    if (has_said) {
      const auto found = period->second.find({from, is_gradient, !was_sent});
      if (found != period->second.end()) counter = &found->second;
    }
  }
  if (counter == nullptr) {
    const bool is_overdue = has_said || said_.at(from).rbegin()->first - number >= kOverdue;
    if (is_overdue) edge.contradicted += word.count;
    return;
  }
  if (was_sent) return;  // once, by the receiver's
  const int32_t visits = std::min(word.count, counter->count);
  if (std::fabs(word.log2 - counter->log2) > kAgreeWithin) {
    edge.contradicted += visits;
  } else {
    edge.agreed += visits;
    edge.log2 += visits * word.log2;
  }
}

std::map<BoundaryWatch::EdgeKey, BoundaryWatch::Edge> BoundaryWatch::Edges() const {
  std::map<EdgeKey, Edge> edges;
  for (const auto& [from, said] : said_) {
    for (const auto& [number, period] : said) {
      for (const auto& [side, word] : period) AddSide(&edges, from, number, side, word);
    }
  }
  return edges;
}

std::map<NodeId, BoundaryWatch::Flows> BoundaryWatch::FlowsOf(
    const std::map<EdgeKey, Edge>& edges) {
  std::map<NodeId, Flows> flows;
  const auto add = [&](const NodeId& node, const NodeId& other, Flow& flow, const Edge& edge) {
    flow.visits += edge.agreed;
    flow.log2 += edge.log2;
    flow.is_disputed = flow.is_disputed || edge.IsDisputed();
    if (edge.agreed > 0) flow.with.push_back(other);
    if (edge.agreed + edge.contradicted >= kDisputedMin) flows[node].partners.insert(other);
    if (edge.IsDisputed()) flows[node].contradicted_by.insert(other);
  };
  for (const auto& [key, edge] : edges) {
    const auto& [sender, receiver, is_gradient] = key;
    add(sender, receiver, flows[sender].of[is_gradient][1], edge);
    add(receiver, sender, flows[receiver].of[is_gradient][0], edge);
  }
  return flows;
}

// Those whom most of their partners contradict, then who is left in a contradiction with others.
void BoundaryWatch::FindContradicted(std::map<NodeId, Flows>* flows,
                                     std::map<NodeId, Finding>* found) {
  for (const auto& [node, of] : *flows) {
    const size_t against = of.contradicted_by.size();
    if (against < 2 || 2 * against <= of.partners.size()) continue;
    (*found)[node] = {node,    0, Is::kOdd,
                      "words", 0, {of.contradicted_by.begin(), of.contradicted_by.end()}};
  }
  const std::map<NodeId, Finding> odd = *found;
  for (auto& [node, of] : *flows) {
    if (odd.contains(node)) continue;
    std::erase_if(of.contradicted_by, [&](const NodeId& other) { return odd.contains(other); });
    if (of.contradicted_by.empty()) continue;
    (*found)[node] = {node,    0, Is::kDisputed,
                      "words", 0, {of.contradicted_by.begin(), of.contradicted_by.end()}};
  }
}

void BoundaryWatch::FindOdd(const std::map<NodeId, Flows>& flows,
                            const std::vector<NodeId>& replicas, int32_t stage, bool is_gradient,
                            std::map<NodeId, Finding>* found) {
  struct Replica {
    NodeId node;
    const Flows* flows;
    double gain;
  };
  // Whose input is like the others', one kind after the other: activations first, of a backward
  // pass the gradients too. What the first stage starts with is text.
  std::vector<Replica> alike;
  for (const NodeId& node : replicas) {
    const auto of = flows.find(node);
    if (of != flows.end()) alike.push_back({node, &of->second, 0});
  }
  const auto keep_alike = [&](bool of_gradients) {
    std::erase_if(alike, [&](const Replica& r) { return !r.flows->of[of_gradients][0].IsKnown(); });
    if (alike.size() < 2) return alike.clear();
    std::vector<double> came;
    for (const Replica& r : alike) came.push_back(r.flows->of[of_gradients][0].mean());
    const double median = Median(came);
    std::erase_if(alike, [&](const Replica& r) {
      return std::fabs(r.flows->of[of_gradients][0].mean() - median) > kAlikeWithin;
    });
  };
  const bool is_first = stage == 0;
  if (!is_first || is_gradient) keep_alike(false);
  if (!is_first && is_gradient) keep_alike(true);
  std::erase_if(alike, [&](const Replica& r) { return !r.flows->of[is_gradient][1].IsKnown(); });
  std::vector<double> gains;
  for (const Replica& r : alike) {
    const double came = is_first ? 0 : r.flows->of[is_gradient][0].mean();
    gains.push_back(r.flows->of[is_gradient][1].mean() - came);
  }
  if (alike.size() < 2) return;
  for (size_t i = 0; i < alike.size(); ++i) {
    const std::vector<double> others = OthersOf(gains, i);
    const double median = Median(others);
    const double off = gains[i] - median;
    if (std::fabs(off) <= std::max(kOffMost, kSpreads * SpreadOf(others, median))) continue;
    const auto known = found->find(alike[i].node);
    if (known != found->end() && known->second.is == Is::kOdd) continue;
    // Of two replicas nobody can tell which; nor of two where others could not be compared.
    if (others.size() < 2 && replicas.size() > 2) continue;
    const Is is = others.size() < 2 ? Is::kDisputed : Is::kOdd;
    (*found)[alike[i].node] = {alike[i].node,
                               stage,
                               is,
                               is_gradient ? "gradients" : "activations",
                               off,
                               alike[i].flows->of[is_gradient][1].with};
  }
}

BoundaryWatch::Changes BoundaryWatch::Judge(const std::vector<std::vector<NodeId>>& stages) {
  ++judgements_;
  KeepOnly(stages);
  std::map<NodeId, Flows> flows = FlowsOf(Edges());
  std::map<NodeId, Finding> all, found;
  FindContradicted(&flows, &all);
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto stage = static_cast<int32_t>(s);
    for (const NodeId& node : stages[s]) {
      if (const auto it = all.find(node); it != all.end()) {
        found[node] = it->second;
        found[node].stage = stage;
      }
    }
    FindOdd(flows, stages[s], stage, false, &found);
    FindOdd(flows, stages[s], stage, true, &found);
  }
  Changes changes;
  for (const auto& [node, finding] : found) {
    int& row = in_a_row_[node];
    const auto known = named_.find(node);
    if (known != named_.end() && known->second.is == finding.is) {
      row = 0;
      continue;
    }
    row = std::max(row, 0) + 1;
    if (row < kTwice) continue;
    row = 0;
    named_[node] = finding;
    changes.named.push_back(finding);
  }
  for (auto it = in_a_row_.begin(); it != in_a_row_.end();) {
    const bool is_found = found.contains(it->first), is_named = named_.contains(it->first);
    if (!is_found && is_named) it->second = std::min(it->second, 0) - 1;
    const bool is_settled = is_named && it->second <= -kThrice;
    if (is_settled) {
      named_.erase(it->first);
      changes.settled.push_back(it->first);
    }
    it = is_settled || (!is_found && !is_named) ? in_a_row_.erase(it) : std::next(it);
  }
  return changes;
}

}  // namespace skerry
