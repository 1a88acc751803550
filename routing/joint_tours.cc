#include "routing/joint_tours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace skerry {

TourPricer::TourPricer(const SkipPipeProblem& problem, std::vector<int32_t> stage_of)
    : problem_(problem),
      stage_of_(std::move(stage_of)),
      node_used_(problem.forward_s.size()),
      stage_used_(problem.stage_sizes.size()) {}

double TourPricer::Count() const {
  const double visits = problem_.path_length - 1;
  if (stage_of_.empty()) return std::pow(problem_.nodes(), visits + 1);
  double count = problem_.stage_sizes.front();
  double others = problem_.nodes() - problem_.stage_sizes.front();
  const double largest =
      *std::max_element(problem_.stage_sizes.begin() + 1, problem_.stage_sizes.end());
  for (int32_t hop = 1; hop < problem_.path_length; ++hop, others -= largest) {
    count *= std::max(others, largest);
  }
  return count;
}

double TourPricer::WorkSeconds(int32_t node) const {
  return problem_.forward_s[static_cast<size_t>(node)] * (1 + problem_.backward_factor);
}

double TourPricer::LossSeconds(int32_t node) const {
  return problem_.forward_s[static_cast<size_t>(node)] * problem_.loss_factor;
}

double TourPricer::BothWays(int32_t a, int32_t b) const {
  return problem_.TransferSeconds(a, b) + problem_.TransferSeconds(b, a);
}

std::vector<double> TourPricer::MemorySeconds(const std::vector<int32_t>& tour) const {
  std::vector<double> seconds(tour.size());
  double rest = BothWays(tour.back(), tour.front()) + LossSeconds(tour.front());
  for (size_t hop = tour.size(); hop-- > 0;) {
    rest += WorkSeconds(tour[hop]);
    seconds[hop] = rest;
    if (hop > 0) rest += BothWays(tour[hop - 1], tour[hop]);
  }
  return seconds;
}

double TourPricer::LeastTourSeconds() const {
  const std::vector<double> tours = LeastToursSeconds();
  return *std::min_element(tours.begin(), tours.end());
}

std::vector<double> TourPricer::LeastToursSeconds() const {
  const auto n = static_cast<size_t>(problem_.nodes());
  std::vector<double> least(n, std::numeric_limits<double>::infinity());
  for (int32_t origin = 0; origin < problem_.nodes(); ++origin) {
    if (!stage_of_.empty() && stage_of_[static_cast<size_t>(origin)] != 0) continue;
    std::vector<double> home(n, std::numeric_limits<double>::infinity());
    home[static_cast<size_t>(origin)] = LossSeconds(origin);
    for (int32_t hop = 0; hop < problem_.path_length; ++hop) {
      std::vector<double> longer(n, std::numeric_limits<double>::infinity());
      for (int32_t from = 0; from < problem_.nodes(); ++from) {
        for (int32_t to = 0; to < problem_.nodes(); ++to) {
          if (to == from) continue;
          double& seconds = longer[static_cast<size_t>(from)];
          seconds = std::min(
              seconds, WorkSeconds(from) + BothWays(from, to) + home[static_cast<size_t>(to)]);
        }
      }
      home = longer;
    }
    least[static_cast<size_t>(origin)] = home[static_cast<size_t>(origin)];
  }
  return least;
}

bool TourPricer::MayFollow(int32_t node, int32_t frontier, int32_t swaps) const {
  if (node_used_[static_cast<size_t>(node)]) return false;
  if (stage_of_.empty()) return true;
  const int32_t stage = stage_of_[static_cast<size_t>(node)];
  if (stage_used_[static_cast<size_t>(stage)]) return false;
  if (stage > frontier + problem_.jump_max || stage < frontier - 1) return false;
  return stage > frontier || swaps < problem_.swaps_max;
}

// Every second later on the tour is paid for by all memory taken so far.
void TourPricer::Extend(double price, double per_second, int32_t frontier, int32_t swaps) {
  const int32_t last = tour_.back();
  if (static_cast<int32_t>(tour_.size()) == problem_.path_length) {
    const double total =
        price + per_second * (BothWays(last, tour_.front()) + LossSeconds(tour_.front()));
    if (total < best_.price) best_ = {total, tour_};
    return;
  }
  for (int32_t node = 0; node < problem_.nodes(); ++node) {
    if (!MayFollow(node, frontier, swaps)) continue;
    const auto i = static_cast<size_t>(node);
    const double memory = per_second + prices_->per_second[i];
    const double total = price + prices_->per_visit[i] + per_second * BothWays(last, node) +
                         memory * WorkSeconds(node);
    const int32_t stage = stage_of_.empty() ? 0 : stage_of_[i];
    tour_.push_back(node);
    node_used_[i] = true;
    if (!stage_of_.empty()) stage_used_[static_cast<size_t>(stage)] = true;
    Extend(total, memory, std::max(frontier, stage), swaps + (stage < frontier ? 1 : 0));
    if (!stage_of_.empty()) stage_used_[static_cast<size_t>(stage)] = false;
    node_used_[i] = false;
    tour_.pop_back();
  }
}

std::vector<PricedTour> TourPricer::Cheapest(const VisitPrices& prices) {
  prices_ = &prices;
  std::vector<PricedTour> cheapest(node_used_.size());
  for (int32_t origin = 0; origin < problem_.nodes(); ++origin) {
    const auto i = static_cast<size_t>(origin);
    best_ = {std::numeric_limits<double>::infinity(), {}};
    if (stage_of_.empty() || stage_of_[i] == 0) {
      tour_ = {origin};
      node_used_[i] = true;
      stage_used_[0] = true;
      Extend(prices.origin_per_visit[i] + prices.origin_per_second[i] * WorkSeconds(origin),
             prices.origin_per_second[i], 0, 0);
      node_used_[i] = false;
    }
    cheapest[i] = best_;
  }
  return cheapest;
}

std::vector<double> TourPricer::ShortestToursSeconds() {
  const std::vector<double> none(node_used_.size());
  const VisitPrices prices{none, none, none, std::vector<double>(node_used_.size(), 1.0)};
  std::vector<double> seconds;
  for (const PricedTour& tour : Cheapest(prices)) {
    seconds.push_back(tour.nodes.empty() ? std::numeric_limits<double>::infinity() : tour.price);
  }
  return seconds;
}

}  // namespace skerry
