#include "routing/link_estimator.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "routing/link_hygiene.h"

namespace skerry {
namespace {

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

// For each node the rates of the near links that it is an end of.
std::vector<std::vector<double>> NearRates(const LinkMatrix& links) {
  std::vector<std::vector<double>> rates(static_cast<size_t>(links.size()));
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      const LinkEstimate& link = links.At(i, j);
      if (link.source != LinkSource::kMeasured || link.rtt_s >= LinkEstimator::kRttFloor) continue;
      for (const int32_t end : {i, j}) rates[static_cast<size_t>(end)].push_back(link.bytes_per_s);
    }
  }
  return rates;
}

// What most near links of either end read. One at least has a rate.
double UsualRate(const std::vector<double>& of_one, const std::vector<double>& of_other) {
  std::vector<double> rates = of_one;
  rates.insert(rates.end(), of_other.begin(), of_other.end());
  std::sort(rates.begin(), rates.end());
  return Quantile(rates, 0.5);
}

struct Summary {
  double median = 0;
  double log_spread = 0;
};

Summary Summarise(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto log_at = [&](double share) {
    return std::log(std::max(Quantile(values, share), 1e-9));
  };
  return {Quantile(values, 0.5), (log_at(0.75) - log_at(0.25)) / 2};
}

}  // namespace

absl::Status LinkEstimator::Add(const NodeId& from, const NodeId& to, double rtt_s,
                                double bytes_per_s, Instant at) {
  const bool finite = std::isfinite(rtt_s) && std::isfinite(bytes_per_s);
  if (!finite || rtt_s < 0 || bytes_per_s <= 0 || from == to) {
    return InvalidArgument(
        "link reading %s → %s: want rtt ≥ 0 and rate > 0, got %g s and %g byte/s", from.Short(),
        to.Short(), rtt_s, bytes_per_s);
  }
  History& history = histories_[{from, to}];
  history.unanswered = false;
  history.readings.push_back({rtt_s, bytes_per_s, at});
  if (history.readings.size() > kReadingsMax) history.readings.pop_front();
  return absl::OkStatus();
}

absl::Status LinkEstimator::AddShown(const NodeId& from, const NodeId& to, double rtt_s,
                                     double bytes_per_s, Instant at) {
  SKERRY_RETURN_IF_ERROR(Add(from, to, rtt_s, bytes_per_s, at));
  std::erase_if(histories_[{from, to}].readings,
                [&](const Reading& reading) { return reading.bytes_per_s < bytes_per_s; });
  return absl::OkStatus();
}

void LinkEstimator::AddUnanswered(const NodeId& from, const NodeId& to) {
  if (from != to) histories_[{from, to}].unanswered = true;
}

LinkEstimate LinkEstimator::MedianOf(const History& history, Instant now) {
  LinkEstimate link;
  link.suspect = history.unanswered;
  if (history.unanswered || history.readings.empty()) return link;
  std::vector<double> rtts;
  std::vector<double> rates;
  for (const Reading& reading : history.readings) {
    rtts.push_back(reading.rtt_s);
    rates.push_back(reading.bytes_per_s);
  }
  const Summary rtt = Summarise(std::move(rtts));
  const Summary rate = Summarise(std::move(rates));
  return {.rtt_s = rtt.median,
          .bytes_per_s = rate.median,
          .rtt_spread = rtt.log_spread,
          .rate_spread = rate.log_spread,
          .age_s = (now - history.readings.back().at).seconds(),
          .readings = static_cast<int32_t>(history.readings.size()),
          .source = LinkSource::kMeasured};
}

LinkEstimate LinkEstimator::Read(const NodeId& from, const NodeId& to, Instant now) const {
  const auto found = histories_.find({from, to});
  return found == histories_.end() ? LinkEstimate{} : MedianOf(found->second, now);
}

LinkMatrix LinkEstimator::Estimate(const std::vector<NodeId>& nodes, Instant now) const {
  LinkMatrix links(nodes);
  for (const auto& [pair, history] : histories_) {
    const int32_t from = links.IndexOf(pair.first);
    const int32_t to = links.IndexOf(pair.second);
    if (from >= 0 && to >= 0) links.At(from, to) = MedianOf(history, now);
  }
  CleanLinks({.suspect_log = kSuspectLog, .rtt_floor_s = kRttFloor, .believe_after = kBelieveAfter},
             links);
  SetLines(lines_, &links);
  return links;
}

void LinkEstimator::AddLine(const LineFinding& finding) {
  lines_.push_back(finding);
}

std::vector<std::pair<NodeId, NodeId>> LinkEstimator::Doubtful(const std::vector<NodeId>& nodes,
                                                               Instant now, bool uneven) const {
  const LinkMatrix links = Estimate(nodes, now);
  const std::vector<std::vector<double>> near =
      uneven ? NearRates(links) : std::vector<std::vector<double>>();
  // Slower than its way back, or than other near links of its ends.
  const auto is_uneven = [&](int32_t i, int32_t j) {
    const LinkEstimate &link = links.At(i, j), &back = links.At(j, i);
    if (!uneven || link.source != LinkSource::kMeasured || link.rtt_s >= kRttFloor) return false;
    const double usual = UsualRate(near[static_cast<size_t>(i)], near[static_cast<size_t>(j)]);
    return kUneven * link.bytes_per_s < std::max(usual, back.bytes_per_s);
  };
  std::vector<std::pair<NodeId, NodeId>> pairs;
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      const LinkEstimate& link = links.At(i, j);
      // Of two that disagree nobody knows which was the slip: their median is neither.
      const bool is_torn = std::max(link.rtt_spread, link.rate_spread) > kTornSpread;
      if (!(link.suspect || is_torn || is_uneven(i, j)) || link.readings < 1) continue;
      if (link.readings >= kBelieveAfter) continue;
      pairs.emplace_back(nodes[static_cast<size_t>(i)], nodes[static_cast<size_t>(j)]);
    }
  }
  return pairs;
}

std::vector<std::pair<NodeId, NodeId>> LinkEstimator::WorthMeasuring(
    const std::vector<NodeId>& nodes, Instant now) const {
  const LinkMatrix links = Estimate(nodes, now);
  std::vector<std::pair<NodeId, NodeId>> pairs;
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j || links.At(i, j).source == LinkSource::kMeasured) continue;
      pairs.emplace_back(nodes[static_cast<size_t>(i)], nodes[static_cast<size_t>(j)]);
    }
  }
  return pairs;
}

}  // namespace skerry
