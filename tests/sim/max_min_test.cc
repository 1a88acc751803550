#include "sim/max_min.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "common/rng.h"

using namespace skerry;

namespace {

struct PlainFlow {
  std::vector<int32_t> links;
  double cap;
  double weight = 1;
};

// The textbook: raise all flows together, each by its weight; who meets a cap or a full link stops.
std::vector<double> FillByTheBook(const std::vector<double>& capacity,
                                  const std::vector<PlainFlow>& flows) {
  std::vector<double> left = capacity, rate(flows.size(), 0);
  std::vector<bool> stopped(flows.size(), false);
  for (size_t stops = 0; stops < flows.size();) {
    double raise = 1e300;
    std::vector<double> active(capacity.size(), 0);
    for (size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      raise = std::min(raise, (flows[f].cap - rate[f]) / flows[f].weight);
      for (const int32_t link : flows[f].links)
        active[static_cast<size_t>(link)] += flows[f].weight;
    }
    for (size_t l = 0; l < capacity.size(); ++l)
      if (active[l] > 0) raise = std::min(raise, left[l] / active[l]);
    for (size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      rate[f] += raise * flows[f].weight;
      for (const int32_t link : flows[f].links)
        left[static_cast<size_t>(link)] -= raise * flows[f].weight;
    }
    for (size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      bool stop = rate[f] >= flows[f].cap - 1e-5;
      for (const int32_t link : flows[f].links) stop |= left[static_cast<size_t>(link)] < 1e-5;
      stopped[f] = stop;
      stops += stop;
    }
  }
  return rate;
}

}  // namespace

TEST_CASE("MaxMin: a full link is divided equally, and what one leaves the others take") {
  MaxMin rates;
  const int32_t line[] = {rates.AddLink(900)};
  const int32_t a = rates.AddFlow(line, MaxMin::kUnlimited);
  const int32_t b = rates.AddFlow(line, MaxMin::kUnlimited);
  const int32_t c = rates.AddFlow(line, 100);

  rates.Update();
  CHECK(rates.rate(a) == 400);
  CHECK(rates.rate(b) == 400);
  CHECK(rates.rate(c) == 100);

  rates.RemoveFlow(b);
  rates.Update();
  CHECK(rates.rate(a) == 800);
  CHECK(rates.load(line[0]) == 900);
}

TEST_CASE("MaxMin: the parking lot: the long flow gets the share of its narrowest link") {
  MaxMin rates;
  const int32_t wide = rates.AddLink(1000), narrow = rates.AddLink(300);
  const int32_t both[] = {wide, narrow};
  const int32_t across = rates.AddFlow(both, MaxMin::kUnlimited);
  const int32_t on_wide = rates.AddFlow({both, 1}, MaxMin::kUnlimited);
  const int32_t on_narrow = rates.AddFlow({both + 1, 1}, MaxMin::kUnlimited);

  rates.Update();

  CHECK(rates.rate(across) == 150);
  CHECK(rates.rate(on_narrow) == 150);
  CHECK(rates.rate(on_wide) == 850);
}

TEST_CASE("MaxMin: a change is computed only where it can be felt") {
  MaxMin rates;
  const int32_t backbone = rates.AddLink(1'000'000);  // wide enough for all: joins nothing
  int32_t lines[10];
  for (int32_t& line : lines) {
    line = rates.AddLink(100);
    const int32_t links[] = {line, backbone};
    for (int i = 0; i < 4; ++i) rates.AddFlow(links, MaxMin::kUnlimited);
  }
  rates.Update();
  const int64_t before = rates.flows_computed();

  rates.SetCapacity(lines[3], 200);
  const auto changed = rates.Update();

  CHECK(changed.size() == 4);
  CHECK(rates.flows_computed() - before == 4);
}

TEST_CASE("MaxMin: one of many flows of a full hub ends, and only those are computed that gain") {
  MaxMin rates;
  const int32_t hub = rates.AddLink(100'000);
  std::vector<int32_t> flows;
  for (int i = 0; i < 1000; ++i) {
    // All but ten are bound by lines of their own; what those leave, the ten share.
    const int32_t links[] = {hub, rates.AddLink(i < 990 ? 50 : 100'000)};
    flows.push_back(rates.AddFlow(links, MaxMin::kUnlimited));
  }
  rates.Update();
  CHECK(rates.rate(flows[999]) == (100'000 - 990 * 50) / 10);
  const int64_t before = rates.flows_computed();

  rates.RemoveFlow(flows[0]);
  rates.Update();

  CHECK(rates.rate(flows[999]) == (100'000 - 989 * 50) / 10);
  CHECK(rates.rate(flows[1]) == 50);
  CHECK(rates.flows_computed() - before <= 2 * 10);
}

TEST_CASE("MaxMin: after any changes the rates are those of the textbook, whatever the history") {
  Rng rng(static_cast<uint64_t>(GENERATE(range(1, 9))));
  const bool weighted = GENERATE(false, true);
  MaxMin rates;
  std::vector<double> capacity;
  std::vector<PlainFlow> flows;
  std::vector<int32_t> numbers;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(rng.Below(static_cast<uint64_t>(n)));
  };
  const auto random_rate = [&] { return 1'000'000 + below(50'000'000); };
  for (int l = 0; l < 12; ++l) {
    capacity.push_back(static_cast<double>(random_rate()));
    rates.AddLink(static_cast<int64_t>(capacity.back()));
  }
  for (int change = 0; change < 300; ++change) {
    const int64_t kind = below(5);
    if (kind == 0 && !flows.empty()) {
      const auto which = static_cast<size_t>(below(static_cast<int64_t>(flows.size())));
      rates.RemoveFlow(numbers[which]);
      flows.erase(flows.begin() + static_cast<ptrdiff_t>(which));
      numbers.erase(numbers.begin() + static_cast<ptrdiff_t>(which));
    } else if (kind == 1) {
      const int64_t link = below(12);
      capacity[static_cast<size_t>(link)] = static_cast<double>(random_rate());
      rates.SetCapacity(static_cast<int32_t>(link),
                        static_cast<int64_t>(capacity[static_cast<size_t>(link)]));
    } else if (kind == 2 && !flows.empty()) {
      const auto which = static_cast<size_t>(below(static_cast<int64_t>(flows.size())));
      const int64_t cap = random_rate();
      flows[which].cap = static_cast<double>(cap);
      rates.SetCap(numbers[which], cap);
    } else {
      const auto first = static_cast<int32_t>(below(4)),
                 second = static_cast<int32_t>(4 + below(4));
      const int64_t cap = rng.Below(2) ? random_rate() : MaxMin::kUnlimited;
      const int64_t weight = weighted ? 1 + below(30) : 1;
      flows.push_back({{first, second, static_cast<int32_t>(8 + below(4))},
                       static_cast<double>(cap),
                       static_cast<double>(weight)});
      numbers.push_back(rates.AddFlow(flows.back().links, cap, weight));
    }
    if (below(3) != 0) continue;
    rates.Update();
    const std::vector<double> expected = FillByTheBook(capacity, flows);
    for (size_t f = 0; f < flows.size(); ++f)
      REQUIRE(static_cast<double>(rates.rate(numbers[f])) ==
              Approx(expected[f]).margin(weighted ? 500 : 4));
  }
}
