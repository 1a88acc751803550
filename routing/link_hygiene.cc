#include "routing/link_hygiene.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "routing/network_coordinates.h"

namespace skerry {
namespace {

enum class Tie : uint8_t { kLower, kUpper };  // which of the two middle values

// Puts them in another order.
double Median(std::vector<double>& values, Tie tie = Tie::kLower) {
  const size_t middle = tie == Tie::kLower ? (values.size() - 1) / 2 : values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

// A bag of numbers that knows its median without one of them.
class Bag {
 public:
  void Add(double value) { values_.push_back(value); }
  void Seal() { std::sort(values_.begin(), values_.end()); }
  bool empty() const { return values_.empty(); }
  double Median() const { return values_[(values_.size() - 1) / 2]; }
  bool HasOthers() const { return values_.size() > 1; }
  double MedianWithout(double value) const {
    const auto at = static_cast<size_t>(std::lower_bound(values_.begin(), values_.end(), value) -
                                        values_.begin());
    const size_t middle = (values_.size() - 2) / 2;
    return values_[middle < at ? middle : middle + 1];
  }

 private:
  std::vector<double> values_;
};

double LogRtt(const LinkEstimate& link) {
  return std::log(std::max(link.rtt_s, 1e-5));
}

bool IsRead(const LinkEstimate& link) {
  return link.source == LinkSource::kMeasured;
}

template <typename Visit>
void ForEachRead(const LinkMatrix& links, Visit visit) {
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i != j && IsRead(links.At(i, j))) visit(i, j, links.At(i, j));
    }
  }
}

// Round trips from→k→to over third nodes: what a direct one can hardly exceed, and cannot undercut.
struct Detours {
  std::vector<double> sums;
  std::vector<double> differences;
};

// A round trip is much the same from either end.
const LinkEstimate* EitherWay(const LinkMatrix& links, int32_t a, int32_t b) {
  if (IsRead(links.At(a, b))) return &links.At(a, b);
  return IsRead(links.At(b, a)) ? &links.At(b, a) : nullptr;
}

// The round trips that detours are made of, side by side: there are n² pairs to look at.
class Thirds {
 public:
  explicit Thirds(const LinkMatrix& links)
      : stride_(std::max(1, links.size() / kThirdsMax)),
        thirds_((links.size() + stride_ - 1) / stride_) {
    for (int32_t i = 0; i < links.size(); ++i) {
      for (int32_t k = 0; k < links.size(); k += stride_) {
        const LinkEstimate* there = i == k ? nullptr : EitherWay(links, i, k);
        const LinkEstimate* back = i == k ? nullptr : EitherWay(links, k, i);
        to_third_s_.push_back(there == nullptr ? kNotRead : there->rtt_s);
        from_third_s_.push_back(back == nullptr ? kNotRead : back->rtt_s);
      }
    }
  }

  // Until the next call.
  Detours& Between(int32_t from, int32_t to) {
    detours_.sums.clear();
    detours_.differences.clear();
    const double* first = &to_third_s_[static_cast<size_t>(from) * static_cast<size_t>(thirds_)];
    const double* second = &from_third_s_[static_cast<size_t>(to) * static_cast<size_t>(thirds_)];
    for (int32_t k = 0; k < thirds_; ++k) {
      if (first[k] < 0 || second[k] < 0) continue;
      detours_.sums.push_back(first[k] + second[k]);
      detours_.differences.push_back(std::abs(first[k] - second[k]));
    }
    return detours_;
  }

 private:
  static constexpr double kNotRead = -1;
  int32_t stride_;
  int32_t thirds_;
  std::vector<double> to_third_s_, from_third_s_;  // [nodes, thirds]
  Detours detours_;
};

bool RttIsSuspect(const HygieneOptions& options, double rtt_s, Detours& detours) {
  const double factor = std::exp(options.suspect_log);
  if (detours.sums.empty()) return false;
  if (rtt_s > options.rtt_floor_s && rtt_s > factor * Median(detours.sums, Tie::kUpper))
    return true;
  if (detours.differences.size() < 2) return false;
  const double least = Median(detours.differences, Tie::kLower);
  return least > options.rtt_floor_s && rtt_s * factor < least;
}

// log(rate) ≈ intercept + slope · log(rtt), by medians.
struct Regression {
  double intercept = 0;
  double slope = 0;
  double At(double log_rtt) const { return intercept + slope * log_rtt; }
};

// Theil–Sen over the pairs (i, i + half) of the points in order of x: n/2 slopes instead of n²/2.
Regression Fit(std::vector<std::pair<double, double>> points) {
  constexpr double kApart = 0.1;  // closer in log(rtt) a slope is noise
  std::sort(points.begin(), points.end());
  const size_t half = (points.size() + 1) / 2;
  std::vector<double> slopes;
  for (size_t i = 0; i + half < points.size(); ++i) {
    const double dx = points[i + half].first - points[i].first;
    if (dx > kApart) slopes.push_back((points[i + half].second - points[i].second) / dx);
  }
  Regression fit;
  // One flow carries a fixed window per round trip at worst, and no rate grows with distance.
  if (!slopes.empty()) fit.slope = std::clamp(Median(slopes), -1.0, 0.0);
  std::vector<double> offsets;
  for (const auto& [x, y] : points) offsets.push_back(y - fit.slope * x);
  fit.intercept = Median(offsets);
  return fit;
}

// What the fleet says about rates: the regression, and the residuals of every sender and receiver.
class RateModel {
 public:
  explicit RateModel(const LinkMatrix& links)
      : rows_(static_cast<size_t>(links.size())), columns_(rows_.size()) {
    std::vector<std::pair<double, double>> points;
    ForEachRead(links, [&](int32_t, int32_t, const LinkEstimate& link) {
      points.emplace_back(LogRtt(link), std::log(link.bytes_per_s));
    });
    fit_ = Fit(std::move(points));
    ForEachRead(links, [&](int32_t i, int32_t j, const LinkEstimate& link) {
      const double residual = Residual(link);
      rows_[static_cast<size_t>(i)].Add(residual);
      columns_[static_cast<size_t>(j)].Add(residual);
    });
    for (Bag& bag : rows_) bag.Seal();
    for (Bag& bag : columns_) bag.Seal();
  }

  bool IsSuspect(double suspect_log, int32_t i, int32_t j, const LinkEstimate& link) const {
    const double residual = Residual(link);
    const Bag& row = rows_[static_cast<size_t>(i)];
    const Bag& column = columns_[static_cast<size_t>(j)];
    const double sender = row.HasOthers() ? row.MedianWithout(residual) : 0;
    const double receiver = column.HasOthers() ? column.MedianWithout(residual) : 0;
    double nearest = std::abs(residual);
    for (const double explained : {sender, receiver, sender + receiver}) {
      nearest = std::min(nearest, std::abs(residual - explained));
    }
    return nearest > suspect_log;
  }

  // The narrower of the two ends decides.
  double Predict(int32_t i, int32_t j, const LinkEstimate& link) const {
    const Bag& row = rows_[static_cast<size_t>(i)];
    const Bag& column = columns_[static_cast<size_t>(j)];
    const double sender = row.empty() ? 0 : row.Median();
    const double receiver = column.empty() ? 0 : column.Median();
    return std::exp(fit_.At(LogRtt(link)) + std::min(sender, receiver));
  }

 private:
  double Residual(const LinkEstimate& link) const {
    return std::log(link.bytes_per_s) - fit_.At(LogRtt(link));
  }

  Regression fit_;
  std::vector<Bag> rows_;     // by sender
  std::vector<Bag> columns_;  // by receiver
};

NetworkCoordinates MapOf(const LinkMatrix& links) {
  std::vector<RoundTrip> readings;
  ForEachRead(links, [&](int32_t i, int32_t j, const LinkEstimate& link) {
    if (!link.suspect) readings.push_back({i, j, link.rtt_s});
  });
  return NetworkCoordinates(links.size(), readings);
}

// By third nodes where enough of them were measured with both, else from the map.
double PredictRtt(const LinkMatrix& links, int32_t i, int32_t j, Thirds& thirds,
                  const NetworkCoordinates& map) {
  const auto enough = static_cast<size_t>(std::min(3, links.size() - 2));
  const LinkEstimate& back = links.At(j, i);
  if (IsRead(back) && !back.suspect) return back.rtt_s;
  Detours& detours = thirds.Between(i, j);
  if (detours.sums.empty() || detours.sums.size() < enough) return map.Predict(i, j);
  return (Median(detours.sums, Tie::kLower) + Median(detours.differences, Tie::kUpper)) / 2;
}

bool Agrees(const HygieneOptions& options, const LinkEstimate& link, double spread) {
  return link.readings >= options.believe_after && spread <= options.agree_spread;
}

using Pairs = std::vector<std::pair<int32_t, int32_t>>;

void ReplaceSuspectRtts(const HygieneOptions& options, LinkMatrix& links) {
  Pairs suspects;
  Thirds thirds(links);
  ForEachRead(links, [&](int32_t i, int32_t j, const LinkEstimate& link) {
    if (Agrees(options, link, link.rtt_spread)) return;
    if (RttIsSuspect(options, link.rtt_s, thirds.Between(i, j))) suspects.emplace_back(i, j);
  });
  if (suspects.empty()) return;
  for (const auto& [i, j] : suspects) links.At(i, j).suspect = true;
  const NetworkCoordinates map = MapOf(links);
  std::vector<double> predicted;
  for (const auto& [i, j] : suspects) predicted.push_back(PredictRtt(links, i, j, thirds, map));
  for (size_t s = 0; s < suspects.size(); ++s) {
    links.At(suspects[s].first, suspects[s].second).rtt_s = predicted[s];
  }
}

void ReplaceSuspectRates(const HygieneOptions& options, const RateModel& rates, LinkMatrix& links) {
  Pairs suspects;
  ForEachRead(links, [&](int32_t i, int32_t j, const LinkEstimate& link) {
    if (Agrees(options, link, link.rate_spread)) return;
    if (rates.IsSuspect(options.suspect_log, i, j, link)) suspects.emplace_back(i, j);
  });
  for (const auto& [i, j] : suspects) {
    LinkEstimate& link = links.At(i, j);
    link.suspect = true;
    link.bytes_per_s = rates.Predict(i, j, link);
  }
}

// From what was read only: that stays as it is.
void FillMissing(const RateModel& rates, LinkMatrix& links) {
  std::vector<bool> known(static_cast<size_t>(links.size()));
  ForEachRead(links, [&](int32_t i, int32_t j, const LinkEstimate&) {
    known[static_cast<size_t>(i)] = known[static_cast<size_t>(j)] = true;
  });
  Thirds thirds(links);
  std::optional<NetworkCoordinates> map;  // made when it is needed
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j || !known[static_cast<size_t>(i)] || !known[static_cast<size_t>(j)]) continue;
      LinkEstimate& link = links.At(i, j);
      if (link.source != LinkSource::kMissing || link.suspect) continue;
      const LinkEstimate& back = links.At(j, i);
      if (!map) map = MapOf(links);
      link.rtt_s = PredictRtt(links, i, j, thirds, *map);
      link.bytes_per_s = IsRead(back) ? back.bytes_per_s : rates.Predict(i, j, link);
      link.source = IsRead(back) ? LinkSource::kReverse : LinkSource::kPredicted;
    }
  }
}

}  // namespace

void CleanLinks(const HygieneOptions& options, LinkMatrix& links) {
  bool any = false;
  ForEachRead(links, [&](int32_t, int32_t, const LinkEstimate&) { any = true; });
  if (!any) return;
  if (links.size() >= 3) ReplaceSuspectRtts(options, links);
  const RateModel rates(links);
  if (links.size() >= 3) ReplaceSuspectRates(options, rates, links);
  FillMissing(rates, links);
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      LinkEstimate& link = links.At(i, j);
      if (link.suspect && IsRead(link)) link.source = LinkSource::kPredicted;
    }
  }
}

}  // namespace skerry
