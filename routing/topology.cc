#include "routing/topology.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace skerry {

LinkMatrix::LinkMatrix(std::vector<NodeId> nodes) : nodes_(std::move(nodes)) {
  SKERRY_CHECK(std::is_sorted(nodes_.begin(), nodes_.end()));
  SKERRY_CHECK(std::adjacent_find(nodes_.begin(), nodes_.end()) == nodes_.end());
  links_.resize(nodes_.size() * nodes_.size());
}

int32_t LinkMatrix::IndexOf(const NodeId& node) const {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), node);
  return it != nodes_.end() && *it == node ? static_cast<int32_t>(it - nodes_.begin()) : -1;
}

int32_t LinkMatrix::LineOf(int32_t node) const {
  SKERRY_CHECK(node >= 0 && node < size());
  return line_of_.empty() ? -1 : line_of_[static_cast<size_t>(node)];
}

int32_t LinkMatrix::AddLine(double bytes_per_s) {
  line_rates_.push_back(bytes_per_s);
  return static_cast<int32_t>(line_rates_.size()) - 1;
}

void LinkMatrix::SetLine(int32_t node, int32_t line) {
  SKERRY_CHECK(node >= 0 && node < size() && line < std::ssize(line_rates_));
  line_of_.resize(nodes_.size(), -1);
  line_of_[static_cast<size_t>(node)] = line;
}

void LinkMatrix::Set(const NodeId& from, const NodeId& to, double rtt_s, double bytes_per_s) {
  LinkEstimate& link = At(IndexOf(from), IndexOf(to));
  link = {};
  link.rtt_s = rtt_s;
  link.bytes_per_s = bytes_per_s;
  link.readings = 1;
  link.source = LinkSource::kMeasured;
}

}  // namespace skerry
