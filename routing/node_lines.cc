#include "routing/node_lines.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace skerry {
namespace {

// Of the links of one node: latencies and wire times in, line times out.
class Side {
 public:
  explicit Side(size_t n) : latency_(n), wire_(n), order_(n) {}

  double& latency(size_t k) { return latency_[k]; }
  double& wire(size_t k) { return wire_[k]; }

  // `line(k)` takes the time of link k; link `self` is none.
  template <typename Line>
  void Fill(size_t self, Line line) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return latency_[a] > latency_[b]; });
    double least = std::numeric_limits<double>::infinity();
    size_t reached = 0;
    for (const size_t k : order_) {
      if (k == self) continue;
      for (; reached < order_.size(); ++reached) {
        const size_t other = order_[reached];
        if (latency_[other] < kLineReach * latency_[k]) break;
        if (other != self) least = std::min(least, wire_[other]);
      }
      line(k) = least;
    }
  }

 private:
  std::vector<double> latency_;
  std::vector<double> wire_;
  std::vector<size_t> order_;  // farthest first
};

// Of an even number the later of the two.
double MiddleOf(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void SlowToLines(Fleet* fleet) {
  const std::vector<double> read_s = fleet->wire_s;
  for (int32_t line = 0; line < static_cast<int32_t>(fleet->line_s.size()); ++line) {
    const double line_s = fleet->line_s[static_cast<size_t>(line)];
    if (line_s <= 0) continue;
    std::vector<int32_t> members, others;
    for (int32_t node = 0; node < fleet->size(); ++node)
      (fleet->line_of[static_cast<size_t>(node)] == line ? members : others).push_back(node);
    for (const int32_t other : others) {
      std::vector<double> out_s, in_s;
      for (const int32_t member : members) {
        out_s.push_back(read_s[fleet->Pair(member, other)]);
        in_s.push_back(read_s[fleet->Pair(other, member)]);
      }
      if (members.empty()) break;
      const double out_least = std::min(line_s, MiddleOf(out_s));
      const double in_least = std::min(line_s, MiddleOf(in_s));
      for (const int32_t member : members) {
        double& out = fleet->wire_s[fleet->Pair(member, other)];
        double& in = fleet->wire_s[fleet->Pair(other, member)];
        out = std::max(out, out_least);
        in = std::max(in, in_least);
      }
    }
  }
}

}  // namespace

NodeLines LinesOf(const Fleet& fleet) {
  const auto n = static_cast<size_t>(fleet.size());
  NodeLines lines{fleet.wire_s, fleet.wire_s};
  if (n < 2) return lines;
  Side side(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      side.latency(k) = fleet.latency_s[i * n + k];
      side.wire(k) = fleet.wire_s[i * n + k];
    }
    side.Fill(i, [&](size_t k) -> double& { return lines.up_s[i * n + k]; });
    for (size_t k = 0; k < n; ++k) {
      side.latency(k) = fleet.latency_s[k * n + i];
      side.wire(k) = fleet.wire_s[k * n + i];
    }
    side.Fill(i, [&](size_t k) -> double& { return lines.down_s[k * n + i]; });
  }
  for (size_t pair = 0; pair < n * n; ++pair) {
    const auto from = static_cast<int32_t>(pair / n), to = static_cast<int32_t>(pair % n);
    lines.up_s[pair] = std::min(lines.up_s[pair], fleet.LineSeconds(from, to));
    // Lines are tested on the way out; on the way in they are no slower.
    const int32_t in = fleet.LineOf(to, from);
    const double in_s = in < 0 ? 0 : fleet.line_s[static_cast<size_t>(in)];
    if (in_s > 0) lines.down_s[pair] = std::min(lines.down_s[pair], in_s);
  }
  return lines;
}

void SetLines(const LinkMatrix& links, const std::vector<int32_t>& index_of_node,
              double boundary_bytes, Fleet* fleet) {
  if (links.lines() == 0) return;
  for (const int32_t node : index_of_node) fleet->line_of.push_back(links.LineOf(node));
  for (int32_t line = 0; line < links.lines(); ++line) {
    const double rate = links.LineRate(line);
    fleet->line_s.push_back(rate > 0 ? boundary_bytes / rate : 0);
  }
  SlowToLines(fleet);
}

}  // namespace skerry
