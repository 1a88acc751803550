// The tours of SkipPipe's problem and the cheapest of them under prices: the pricing step of
// joint_bound.h, by depth-first enumeration with the accumulated price of memory as state.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "routing/skippipe_problem.h"

namespace skerry {

// What a visit costs under the duals of a linear program. An origin is a visit of stage 0.
struct VisitPrices {
  std::vector<double> per_visit;          // [n]
  std::vector<double> per_second;         // [n] of memory, until the end of the backward
  std::vector<double> origin_per_visit;   // [n]
  std::vector<double> origin_per_second;  // [n]
};

struct PricedTour {
  double price = 0;
  std::vector<int32_t> nodes;  // from the origin, empty: none
};

class TourPricer {
 public:
  // Of a placement, stage of every node, or with no placement (empty): any nodes in any order.
  // References are kept.
  TourPricer(const SkipPipeProblem& problem, std::vector<int32_t> stage_of);

  double Count() const;  // at least the number of tours

  // [n] the cheapest from each origin; none where no tour starts.
  std::vector<PricedTour> Cheapest(const VisitPrices& prices);

  // [nodes of the tour] seconds from each forward's start to the end of its backward, nobody waits.
  std::vector<double> MemorySeconds(const std::vector<int32_t>& tour) const;

  // [n] of the shortest tour from each origin, by enumeration; infinite: none is there.
  std::vector<double> ShortestToursSeconds();

  // A bound on the time of every tour, without enumeration: closed walks that may repeat nodes.
  double LeastTourSeconds() const;
  std::vector<double> LeastToursSeconds() const;  // [n] from each origin; infinite: none is there

  double WorkSeconds(int32_t node) const;  // forward and backward
  double LossSeconds(int32_t node) const;

 private:
  void Extend(double price, double per_second, int32_t frontier, int32_t swaps);
  bool MayFollow(int32_t node, int32_t frontier, int32_t swaps) const;
  double BothWays(int32_t a, int32_t b) const;

  const SkipPipeProblem& problem_;
  std::vector<int32_t> stage_of_;
  const VisitPrices* prices_ = nullptr;
  std::vector<int32_t> tour_;
  std::vector<bool> node_used_;
  std::vector<bool> stage_used_;
  PricedTour best_;
};

}  // namespace skerry
