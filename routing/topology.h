// The network as the planner sees it: one estimate per ordered pair of nodes.
//
// A link here is "from → to": how long an empty message takes there and back, and how many bytes
// per second the way *there* carries. A value type; copies are deep. Built by LinkEstimator from
// readings, or by hand (simulations, tests).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/ids.h"

namespace skerry {

// Where an estimate comes from: only kMeasured is a reading of this very direction.
enum class LinkSource : uint8_t {
  kMissing,    // nothing is known: not usable
  kMeasured,   // median of readings of this direction
  kReverse,    // taken over from the opposite direction
  kPredicted,  // what the rest of the fleet makes likely: never read, or read and not believed
};

struct LinkEstimate {
  double rtt_s = 0;        // round trip, ≥ 0
  double bytes_per_s = 0;  // goodput of this direction; 0: unusable
  double rtt_spread = 0;   // half the interquartile range of log readings; 0 with one reading
  double rate_spread = 0;
  double age_s = 0;      // since the newest reading
  int32_t readings = 0;  // how many the medians are of
  LinkSource source = LinkSource::kMissing;
  bool suspect = false;  // read, but far from everything else says: replaced until re-measured
  bool usable() const { return source != LinkSource::kMissing && bytes_per_s > 0; }
  bool operator==(const LinkEstimate&) const = default;
};

class LinkMatrix {
 public:
  LinkMatrix() = default;
  // `nodes` ascending, without repetition. All links start out missing.
  explicit LinkMatrix(std::vector<NodeId> nodes);

  const std::vector<NodeId>& nodes() const { return nodes_; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t IndexOf(const NodeId& node) const;  // −1: not in the matrix

  // Indices in [0, size); from ≠ to.
  const LinkEstimate& At(int32_t from, int32_t to) const {
    SKERRY_CHECK(from >= 0 && from < size() && to >= 0 && to < size() && from != to);
    return links_[static_cast<size_t>(from) * nodes_.size() + static_cast<size_t>(to)];
  }
  LinkEstimate& At(int32_t from, int32_t to) {
    return const_cast<LinkEstimate&>(std::as_const(*this).At(from, to));
  }

  // A measured link, for matrices made by hand. Both nodes must be in the matrix.
  void Set(const NodeId& from, const NodeId& to, double rtt_s, double bytes_per_s);

  // The line through which a node leaves for those that do not share it, as far as that was
  // measured (access_lines.h): nodes of one number share, of others do not; −1: not known.
  int32_t LineOf(int32_t node) const;
  // What a line carries of all who share it, bytes/s; 0: no more is known than the links say.
  double LineRate(int32_t line) const { return line_rates_[static_cast<size_t>(line)]; }
  int32_t lines() const { return static_cast<int32_t>(line_rates_.size()); }
  int32_t AddLine(double bytes_per_s);  // its number
  void SetLine(int32_t node, int32_t line);

 private:
  std::vector<NodeId> nodes_;
  std::vector<LinkEstimate> links_;  // [size, size], row = from
  std::vector<int32_t> line_of_;     // [size]; empty: nothing is known
  std::vector<double> line_rates_;   // [lines]
};

}  // namespace skerry
