#include "routing/joint_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "routing/column_program.h"
#include "routing/joint_tours.h"
#include "routing/origin_bound.h"

namespace skerry {
namespace {

using Entry = ColumnProgram::Entry;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kRoundsMax = 150;
constexpr int32_t kPivotsMax = 4000;
constexpr double kRelativeGap = 1e-3;  // of the column generation
// A time that exceeds the trivial bound by this factor needs no proof.
constexpr double kFarOff = 100;

// A row Σ … ≤ or = right; rows are negated where the program wants right sides ≥ 0.
struct Row {
  double right = 0;
  bool equality = false;
  double sign() const { return right < 0 ? -1.0 : 1.0; }
};

// min T = floor + t over tours, t and free columns.
struct MasterProblem {
  double floor_s = 0;  // T ≥ floor_s
  std::vector<Row> rows;
  std::vector<double> time;                // [rows] coefficients of t
  std::vector<std::vector<Entry>> shares;  // columns ≤ T without cost
  std::vector<double> tours_from;          // [n] how many tours start there; empty: `tours` in all
  double tours = 0;
  // Rows a tour touches: its visits, and its memory per visit.
  std::function<std::vector<Entry>(const std::vector<int32_t>&)> tour_column;
  std::function<VisitPrices(const std::vector<double>&)> prices;  // reduced costs from duals
};

double ReducedCost(double cost, const std::vector<Entry>& column,
                   const std::vector<double>& duals) {
  for (const Entry& entry : column) cost -= duals[static_cast<size_t>(entry.row)] * entry.value;
  return cost;
}

std::vector<Entry> Dense(const std::vector<double>& values) {
  std::vector<Entry> entries;
  for (size_t row = 0; row < values.size(); ++row) {
    if (values[row] != 0) entries.push_back({static_cast<int32_t>(row), values[row]});
  }
  return entries;
}

class ColumnGeneration {
 public:
  ColumnGeneration(const MasterProblem& master, TourPricer& pricer)
      : master_(master), pricer_(pricer), program_(RightSides(), 1e3 * (1 + master.floor_s)) {
    Add(1, Dense(master.time));
    for (const auto& share : master.shares) Add(0, share);
    for (size_t row = 0; row < master.rows.size(); ++row) {
      if (!master.rows[row].equality) Add(0, {{static_cast<int32_t>(row), 1.0}});
    }
  }

  double Bound() {
    double bound = master_.floor_s;
    for (int round = 0; round < kRoundsMax; ++round) {
      program_.Solve(kPivotsMax);
      const std::vector<double> duals = Duals();
      const std::vector<PricedTour> tours = pricer_.Cheapest(master_.prices(duals));
      bound = std::max(bound, Lagrangian(duals, tours));
      const double upper = master_.floor_s + program_.objective();
      bool any = false;
      for (const PricedTour& tour : tours) {
        if (tour.nodes.empty() || tour.price > -1e-7) continue;
        Add(0, master_.tour_column(tour.nodes));
        any = true;
      }
      if (!any || upper - bound < kRelativeGap * bound) break;
    }
    return bound;
  }

 private:
  std::vector<double> RightSides() const {
    std::vector<double> right;
    for (const Row& row : master_.rows) right.push_back(row.right * row.sign());
    return right;
  }

  void Add(double cost, std::vector<Entry> entries) {
    for (Entry& entry : entries) entry.value *= master_.rows[static_cast<size_t>(entry.row)].sign();
    program_.AddColumn(cost, std::move(entries));
  }

  // Of the rows as stated, ≤ 0 where they are inequalities.
  std::vector<double> Duals() const {
    std::vector<double> duals = program_.duals();
    for (size_t row = 0; row < duals.size(); ++row) {
      duals[row] *= master_.rows[row].sign();
      if (!master_.rows[row].equality) duals[row] = std::min(duals[row], 0.0);
    }
    return duals;
  }

  // Whatever the duals: no T below kFarOff floors is less than this.
  double Lagrangian(const std::vector<double>& duals, const std::vector<PricedTour>& tours) const {
    const double far_off = kFarOff * master_.floor_s;
    double bound = master_.floor_s;
    for (size_t row = 0; row < duals.size(); ++row) bound += duals[row] * master_.rows[row].right;
    bound += far_off * std::min(0.0, ReducedCost(1, Dense(master_.time), duals));
    for (const auto& share : master_.shares) {
      bound += far_off * std::min(0.0, ReducedCost(0, share, duals));
    }
    double least = kNever;
    for (size_t i = 0; i < tours.size(); ++i) {
      if (tours[i].nodes.empty()) continue;
      least = std::min(least, tours[i].price);
      if (!master_.tours_from.empty()) bound += master_.tours_from[i] * tours[i].price;
    }
    if (master_.tours_from.empty()) bound += master_.tours * least;
    return std::min(bound, far_off);
  }

  const MasterProblem& master_;
  TourPricer& pricer_;
  ColumnProgram program_;
};

double StartGap(const SkipPipeProblem& problem, bool origin) {
  return origin ? problem.start_gap_s : problem.task_gap_s;
}

// Slots of a node start one forward after another and end one backward after another.
double StaggerSeconds(const SkipPipeProblem& problem, double work_s, bool origin, double slots) {
  return (work_s + StartGap(problem, origin) + problem.task_gap_s) * slots * (slots - 1) / 2;
}

// Computing of one visit, with the gaps after its tasks.
double BusySeconds(const SkipPipeProblem& problem, const TourPricer& pricer, int32_t node,
                   bool origin) {
  const double busy = pricer.WorkSeconds(node) + StartGap(problem, origin) + problem.task_gap_s;
  return origin ? busy + pricer.LossSeconds(node) + problem.task_gap_s : busy;
}

// Seconds before anything can reach each node (forward), or from its last backward's end to the end
// of the iteration.
std::vector<double> Approach(const SkipPipeProblem& problem, const std::vector<int32_t>& stage_of,
                             bool forward) {
  const double factor = forward ? 1.0 : problem.backward_factor;
  const int32_t n = problem.nodes();
  std::vector<double> seconds(static_cast<size_t>(n), kNever);
  for (int32_t i = 0; i < n; ++i) {
    if (stage_of[static_cast<size_t>(i)] == 0) seconds[static_cast<size_t>(i)] = 0;
  }
  for (int32_t hop = 1; hop < problem.path_length; ++hop) {
    for (int32_t i = 0; i < n; ++i) {
      if (stage_of[static_cast<size_t>(i)] == 0) continue;
      for (int32_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const double link = forward ? problem.TransferSeconds(j, i) : problem.TransferSeconds(i, j);
        const double through = seconds[static_cast<size_t>(j)] + link +
                               factor * problem.forward_s[static_cast<size_t>(j)];
        seconds[static_cast<size_t>(i)] = std::min(seconds[static_cast<size_t>(i)], through);
      }
    }
  }
  return seconds;
}

MasterProblem EqualLoadMaster(const SkipPipeProblem& problem, const TourPricer& pricer,
                              const std::vector<int32_t>& stage_of) {
  const auto n = static_cast<size_t>(problem.nodes());
  const double visits = static_cast<double>(problem.microbatches()) * (problem.path_length - 1) /
                        (problem.stages() - 1);
  const std::vector<double> heads = Approach(problem, stage_of, true);
  const std::vector<double> tails = Approach(problem, stage_of, false);
  std::vector<double> loads(n);
  MasterProblem master;
  for (size_t i = 0; i < n; ++i) {
    const auto node = static_cast<int32_t>(i);
    const auto stage = static_cast<size_t>(stage_of[i]);
    const bool origin = stage == 0;
    loads[i] = origin ? problem.in_flight * problem.waves : visits / problem.stage_sizes[stage];
    const double busy = loads[i] * BusySeconds(problem, pricer, node, origin);
    master.floor_s = std::max(master.floor_s, heads[i] + busy - problem.task_gap_s + tails[i]);
    master.rows.push_back({loads[i], true});
    master.tours_from.push_back(origin ? loads[i] : 0);
  }
  master.time.assign(2 * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    const double slots = std::min<double>(problem.in_flight, loads[i]);
    const double window = master.floor_s - heads[i] - tails[i] + problem.task_gap_s;
    const double work = pricer.WorkSeconds(static_cast<int32_t>(i));
    master.rows.push_back(
        {slots * window - StaggerSeconds(problem, work, stage_of[i] == 0, slots), false});
    master.time[n + i] = -slots;
  }
  master.tour_column = [&problem, &pricer, n](const std::vector<int32_t>& tour) {
    const std::vector<double> seconds = pricer.MemorySeconds(tour);
    std::vector<Entry> column;
    for (size_t hop = 0; hop < tour.size(); ++hop) {
      column.push_back({tour[hop], 1.0});
      column.push_back({tour[hop] + static_cast<int32_t>(n), seconds[hop] + problem.task_gap_s});
    }
    return column;
  };
  master.prices = [&problem, n](const std::vector<double>& duals) {
    VisitPrices prices;
    for (size_t i = 0; i < n; ++i) {
      prices.per_visit.push_back(-duals[i] - duals[n + i] * problem.task_gap_s);
      prices.per_second.push_back(-duals[n + i]);
    }
    prices.origin_per_visit = prices.per_visit;
    prices.origin_per_second = prices.per_second;
    return prices;
  };
  return master;
}

// Rows of AnyPlanMaster; u_n, the part of the iteration in which node n is of stage 0, is shared
// out.
enum AnyRow : size_t { kOriginMemory, kMemory, kShareMax, kOriginBusy, kBusy, kPerNode };

size_t RowOf(AnyRow kind, size_t node, size_t nodes) {
  return static_cast<size_t>(kind) * nodes + node;
}

// Trivial bounds: average computing per stage-0 node and per other node; the shortest tour as often
// as a slot must take one.
double AnyPlanFloor(const SkipPipeProblem& problem, const TourPricer& pricer) {
  const double microbatches = problem.microbatches();
  const double origins = problem.stage_sizes.front();
  const double others = problem.nodes() - origins;
  double busy = kNever;
  double origin_busy = kNever;
  for (int32_t node = 0; node < problem.nodes(); ++node) {
    busy = std::min(busy, BusySeconds(problem, pricer, node, false));
    origin_busy = std::min(origin_busy, BusySeconds(problem, pricer, node, true));
  }
  const double tour = pricer.LeastTourSeconds();
  const double slots = problem.in_flight;
  const double trips =
      (microbatches / origins * (tour + problem.task_gap_s)) / slots - problem.task_gap_s;
  return std::max({tour, trips, origin_busy * microbatches / origins - problem.task_gap_s,
                   busy * microbatches * (problem.path_length - 1) / others - problem.task_gap_s});
}

// The constant parts of the rows over all of stage 0 and over all other nodes.
void AddSums(const SkipPipeProblem& problem, const TourPricer& pricer, MasterProblem& master) {
  const double origins = problem.stage_sizes.front();
  const double others = problem.nodes() - origins;
  const double slots = problem.in_flight;
  double work = kNever;
  double forward = kNever;
  double link = kNever;
  for (int32_t i = 0; i < problem.nodes(); ++i) {
    work = std::min(work, pricer.WorkSeconds(i));
    forward = std::min(forward, problem.forward_s[static_cast<size_t>(i)]);
    for (int32_t j = 0; j < problem.nodes(); ++j) {
      if (i != j) link = std::min(link, problem.TransferSeconds(i, j));
    }
  }
  // An unused slot loses the whole iteration and saves at most one stagger: never better.
  const double stagger = StaggerSeconds(problem, work, true, slots);
  const double other_stagger = StaggerSeconds(problem, work, false, slots);
  const bool long_enough = master.floor_s > 2 * slots * (work + 2 * problem.task_gap_s) + 2 * link;
  const double window = master.floor_s + problem.task_gap_s;
  const double ways = 2 * link + forward * (1 + problem.backward_factor);
  master.rows.push_back({origins * (slots * window - (long_enough ? stagger : 0)), false});
  master.time.push_back(-origins * slots);
  master.rows.push_back(
      {others * (slots * (window - (long_enough ? ways : 0)) - (long_enough ? other_stagger : 0)),
       false});
  master.time.push_back(-others * slots);
}

MasterProblem AnyPlanMaster(const SkipPipeProblem& problem, const TourPricer& pricer) {
  const auto n = static_cast<size_t>(problem.nodes());
  const double slots = problem.in_flight;
  const double gap = problem.task_gap_s;
  MasterProblem master;
  master.floor_s = AnyPlanFloor(problem, pricer);
  master.tours = problem.microbatches();
  master.rows.resize(kPerNode * n);
  master.time.resize(kPerNode * n);
  const auto shares = static_cast<int32_t>(kPerNode * n + 3);
  for (size_t i = 0; i < n; ++i) {
    const auto row = [&](AnyRow kind) { return static_cast<int32_t>(RowOf(kind, i, n)); };
    const auto set = [&](AnyRow kind, double right, double time) {
      master.rows[RowOf(kind, i, n)].right = right;
      master.time[RowOf(kind, i, n)] = time;
    };
    set(kOriginMemory, 0, 0);
    set(kMemory, slots * master.floor_s, -slots);
    set(kShareMax, master.floor_s, -1);
    set(kOriginBusy, gap, 0);
    set(kBusy, master.floor_s + gap, -1);
    master.shares.push_back({{row(kOriginMemory), -slots},
                             {row(kMemory), slots},
                             {row(kShareMax), 1},
                             {row(kOriginBusy), -1},
                             {row(kBusy), 1},
                             {shares, 1}});
  }
  AddSums(problem, pricer, master);
  master.rows.push_back({master.tours, true});
  master.time.push_back(0);
  master.rows.push_back({problem.stage_sizes.front() * master.floor_s, true});
  master.time.push_back(-problem.stage_sizes.front());
  return master;
}

void DescribeTours(const SkipPipeProblem& problem, const TourPricer& pricer,
                   MasterProblem& master) {
  const auto n = static_cast<size_t>(problem.nodes());
  const auto sums = kPerNode * n;
  master.tour_column = [&problem, &pricer, n, sums](const std::vector<int32_t>& tour) {
    const std::vector<double> seconds = pricer.MemorySeconds(tour);
    std::vector<Entry> column;
    double others = 0;
    for (size_t hop = 0; hop < tour.size(); ++hop) {
      const bool origin = hop == 0;
      const auto node = static_cast<size_t>(tour[hop]);
      column.push_back(
          {static_cast<int32_t>(RowOf(origin ? kOriginMemory : kMemory, node, n)), seconds[hop]});
      column.push_back({static_cast<int32_t>(RowOf(origin ? kOriginBusy : kBusy, node, n)),
                        BusySeconds(problem, pricer, tour[hop], origin)});
      if (!origin) others += seconds[hop] + problem.task_gap_s;
    }
    column.push_back({static_cast<int32_t>(sums), seconds[0] + problem.task_gap_s});
    column.push_back({static_cast<int32_t>(sums + 1), others});
    column.push_back({static_cast<int32_t>(sums + 2), 1});
    return column;
  };
  master.prices = [&problem, &pricer, n, sums](const std::vector<double>& duals) {
    VisitPrices prices;
    for (size_t i = 0; i < n; ++i) {
      const auto node = static_cast<int32_t>(i);
      prices.origin_per_second.push_back(-duals[RowOf(kOriginMemory, i, n)] - duals[sums]);
      prices.per_second.push_back(-duals[RowOf(kMemory, i, n)] - duals[sums + 1]);
      prices.origin_per_visit.push_back(-duals[RowOf(kOriginBusy, i, n)] *
                                            BusySeconds(problem, pricer, node, true) -
                                        duals[sums] * problem.task_gap_s - duals[sums + 2]);
      prices.per_visit.push_back(-duals[RowOf(kBusy, i, n)] *
                                     BusySeconds(problem, pricer, node, false) -
                                 duals[sums + 1] * problem.task_gap_s);
    }
    return prices;
  };
}

}  // namespace

double EqualLoadBound(const SkipPipeProblem& problem,
                      const std::vector<std::vector<int32_t>>& partitions) {
  std::vector<int32_t> stage_of(static_cast<size_t>(problem.nodes()));
  const int32_t visits = problem.microbatches() * (problem.path_length - 1);
  for (size_t s = 0; s < partitions.size(); ++s) {
    const int32_t nodes = problem.stage_sizes[s] * (problem.stages() - 1);
    if (s > 0 && visits % nodes != 0) return AnyPlanBound(problem);
    for (const int32_t node : partitions[s]) {
      stage_of[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
  }
  TourPricer pricer(problem, stage_of);
  const MasterProblem master = EqualLoadMaster(problem, pricer, stage_of);
  const bool few = pricer.Count() <= kToursMax;
  const std::vector<double> tours =
      few ? pricer.ShortestToursSeconds() : pricer.LeastToursSeconds();
  double origins = 0;
  for (const int32_t node : partitions.front()) {
    origins = std::max(origins, OriginSeconds(problem, node, tours[static_cast<size_t>(node)],
                                              problem.in_flight * problem.waves));
  }
  if (!few) return std::max(origins, master.floor_s);
  return std::max(origins, ColumnGeneration(master, pricer).Bound());
}

double AnyPlanBound(const SkipPipeProblem& problem) {
  TourPricer pricer(problem, {});
  MasterProblem master = AnyPlanMaster(problem, pricer);
  const bool few = pricer.Count() <= kToursMax;
  const double origins =
      AnyOriginsBound(problem, few ? pricer.ShortestToursSeconds() : pricer.LeastToursSeconds());
  if (!few) return std::max(origins, master.floor_s);
  DescribeTours(problem, pricer, master);
  return std::max(origins, ColumnGeneration(master, pricer).Bound());
}

}  // namespace skerry
