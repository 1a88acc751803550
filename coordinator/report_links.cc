#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "common/status.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

std::string RegionOf(const RunReport& report, const std::string& id) {
  const auto found = std::find_if(report.nodes.begin(), report.nodes.end(),
                                  [&](const ReportNode& node) { return node.id == id; });
  return found == report.nodes.end() ? "" : found->region;
}

Offsets OffsetsOf(std::vector<double> shares) {
  if (shares.empty()) return {};
  std::sort(shares.begin(), shares.end());
  return {shares[shares.size() / 2], shares.back()};
}

}  // namespace

const ConfiguredLink* RunReport::ConfiguredBetween(const std::string& from,
                                                   const std::string& to) const {
  const auto found = configured.find({RegionOf(*this, from), RegionOf(*this, to)});
  return found == configured.end() ? nullptr : &found->second;
}

std::string ReportHouse::Text() const {
  if (nodes.size() == 1)
    return absl::StrFormat("%s carries %.1f Mbit/s to several at once", nodes.front(), mbps);
  if (sharing.empty()) {
    return absl::StrFormat("%s are near each other, and each has a line of its own",
                           absl::StrJoin(nodes, ", "));
  }
  return absl::StrFormat("%s share one line to the others, of %.1f Mbit/s",
                         absl::StrJoin(sharing, ", "), mbps);
}

LinkAccuracy AccuracyOf(const RunReport& report) {
  LinkAccuracy accuracy;
  std::vector<double> rtts, rates;
  for (const auto& [ends, link] : report.links) {
    const ConfiguredLink* configured = report.ConfiguredBetween(ends.first, ends.second);
    if (configured == nullptr || configured->rtt_ms <= 0 || configured->mbps <= 0) continue;
    rtts.push_back(std::abs(link.rtt_ms / configured->rtt_ms - 1));
    rates.push_back(std::abs(link.mbps / configured->mbps - 1));
    ++accuracy.links;
    if (std::max(rtts.back(), rates.back()) <= kLinkTolerance) ++accuracy.within;
  }
  accuracy.rtt = OffsetsOf(std::move(rtts));
  accuracy.rate = OffsetsOf(std::move(rates));
  return accuracy;
}

std::string LinkAccuracyText(const LinkAccuracy& accuracy) {
  if (accuracy.links == 0) return "";
  return absl::StrFormat(
      "links as measured against the scenario's: %d of %d within %.0f %%; round trips off by "
      "%.1f %% (median), %.1f %% (worst), rates by %.1f and %.1f %%",
      accuracy.within, accuracy.links, 100 * kLinkTolerance, 100 * accuracy.rtt.median,
      100 * accuracy.rtt.worst, 100 * accuracy.rate.median, 100 * accuracy.rate.worst);
}

}  // namespace skerry
