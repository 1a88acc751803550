#include "coordinator/boundary_watch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace skerry;

namespace {

NodeId Node(uint8_t i) {
  NodeId id;
  id.bytes[0] = i;
  return id;
}

using Is = BoundaryWatch::Is;

// Three stages of `replicas` each; every replica passes to every one of the next stage, and the
// last home to the first. What a node sends is as large as what came, and a quarter of a bit.
struct Fleet {
  uint8_t replicas = 4;
  bool has_lanes = false;  // replica i passes to replica i only
  std::set<NodeId> silent, gone;
  BoundaryWatch watch;
  int64_t period = 0;
  int32_t visits = 8;  // of an edge in a period
  // Changes what a node says of itself and another; what is true is given.
  std::function<float(const NodeId& from, const NodeId& to, bool is_gradient, float)> makes =
      [](const NodeId&, const NodeId&, bool, float truth) { return truth; };
  std::function<float(const NodeId& self, const BoundarySide&)> says =
      [](const NodeId&, const BoundarySide& side) { return side.log2_rms; };

  NodeId At(int stage, int replica) const {
    return Node(static_cast<uint8_t>(1 + 10 * stage + replica));
  }
  std::vector<std::vector<NodeId>> stages() const {
    std::vector<std::vector<NodeId>> all(3);
    for (int s = 0; s < 3; ++s) {
      for (int r = 0; r < replicas; ++r) {
        if (!gone.contains(At(s, r))) all[static_cast<size_t>(s)].push_back(At(s, r));
      }
    }
    return all;
  }
  void Add(std::map<NodeId, BoundarySizes>* said, const NodeId& from, const NodeId& to,
           bool is_gradient, float honest) const {
    const float truth = makes(from, to, is_gradient, honest);
    BoundarySide sent{to, is_gradient, true, visits, truth};
    BoundarySide came{from, is_gradient, false, visits, truth};
    sent.log2_rms = says(from, sent);
    came.log2_rms = says(to, came);
    (*said)[from].sides.push_back(sent);
    (*said)[to].sides.push_back(came);
  }
  // One period of everybody; then what changes.
  BoundaryWatch::Changes Next() {
    std::map<NodeId, BoundarySizes> said;
    for (int s = 0; s < 3; ++s) {
      for (int a = 0; a < replicas; ++a) {
        for (int b = 0; b < replicas; ++b) {
          if (has_lanes && a != b) continue;
          Add(&said, At(s, a), At((s + 1) % 3, b), false, 0.25f * static_cast<float>(s));
          Add(&said, At((s + 1) % 3, b), At(s, a), true, -12 - 0.25f * static_cast<float>(s));
        }
      }
    }
    for (auto& [node, sizes] : said) {
      sizes.first_step = period * kBoundaryPeriodSteps;
      if (silent.contains(node)) continue;
      watch.Note(node, sizes);
    }
    ++period;
    return watch.Judge(stages());
  }
  BoundaryWatch::Changes Go(int periods) {
    BoundaryWatch::Changes all;
    for (int i = 0; i < periods; ++i) {
      for (const auto& finding : Next().named) all.named.push_back(finding);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("BoundaryWatch: among the honest nobody is named", "[coordinator]") {
  Fleet fleet;
  CHECK(fleet.Go(20).named.empty());
  CHECK(fleet.watch.named().empty());
}

TEST_CASE("BoundaryWatch: who sends other sizes is named, with by how much and by whose word",
          "[coordinator]") {
  Fleet fleet;
  const bool is_gradient = GENERATE(false, true);
  const NodeId liar = fleet.At(1, 2);
  fleet.makes = [&](const NodeId& from, const NodeId&, bool gradient, float truth) {
    return from == liar && gradient == is_gradient ? truth + 4 : truth;
  };
  const auto changes = fleet.Go(8);
  REQUIRE(changes.named.size() == 1);
  const auto& finding = changes.named.front();
  CHECK(finding.node == liar);
  CHECK(finding.stage == 1);
  CHECK(finding.is == Is::kOdd);
  CHECK(finding.what == (is_gradient ? "gradients" : "activations"));
  CHECK(finding.off == Approx(4));
  CHECK(finding.by.size() == 4);
}

// All that a liar's victim gets is odd, and so is what it makes of it; and what comes back.
TEST_CASE("BoundaryWatch: whose input is odd is not named for its output", "[coordinator]") {
  Fleet fleet;
  fleet.has_lanes = true;
  fleet.visits = 32;
  const NodeId liar = fleet.At(1, 0), victim = fleet.At(2, 0);
  fleet.makes = [&](const NodeId& from, const NodeId& to, bool gradient, float truth) {
    if (gradient) return from == victim || to == fleet.At(0, 0) ? truth + 9 : truth;
    return from == liar ? truth - 20 : from == victim ? truth - 3 : truth;
  };
  fleet.Go(8);
  REQUIRE(fleet.watch.named().size() == 1);
  CHECK(fleet.watch.named().at(liar).is == Is::kOdd);
}

TEST_CASE("BoundaryWatch: one that lies about others makes nobody odd but itself",
          "[coordinator]") {
  Fleet fleet;
  const NodeId liar = fleet.At(2, 1);
  bool of_one = false;
  SECTION("of everybody") {}
  SECTION("of one") {
    of_one = true;
  }
  fleet.says = [&](const NodeId& self, const BoundarySide& side) {
    const bool lies = self == liar && (!of_one || side.other == fleet.At(1, 1));
    return lies ? side.log2_rms + 5 : side.log2_rms;
  };
  fleet.Go(8);
  for (const auto& [node, finding] : fleet.watch.named()) {
    if (finding.is == Is::kOdd) CHECK(node == liar);
    if (!of_one) CHECK(node == liar);
  }
  CHECK(fleet.watch.named().contains(liar));
  // Of one only: nobody can tell which of the two.
  if (of_one) CHECK(fleet.watch.named().at(fleet.At(1, 1)).is == Is::kDisputed);
}

TEST_CASE("BoundaryWatch: who sends other sizes and denies it is contradicted by all",
          "[coordinator]") {
  Fleet fleet;
  const NodeId liar = fleet.At(1, 3);
  fleet.makes = [&](const NodeId& from, const NodeId&, bool, float truth) {
    return from == liar ? truth + 4 : truth;
  };
  fleet.says = [&](const NodeId& self, const BoundarySide& side) {
    return self == liar && side.was_sent ? side.log2_rms - 4 : side.log2_rms;
  };
  fleet.Go(8);
  REQUIRE(fleet.watch.named().size() == 1);
  CHECK(fleet.watch.named().at(liar).what == "words");
}

TEST_CASE("BoundaryWatch: who says nothing is contradicted in the end", "[coordinator]") {
  Fleet fleet;
  fleet.silent = {fleet.At(1, 1)};
  fleet.Go(8);
  REQUIRE(fleet.watch.named().size() == 1);
  CHECK(fleet.watch.named().at(fleet.At(1, 1)).what == "words");
}

TEST_CASE("BoundaryWatch: of two replicas both are named, as nobody can tell", "[coordinator]") {
  Fleet fleet;
  fleet.replicas = 2;
  fleet.visits = 16;
  fleet.makes = [&](const NodeId& from, const NodeId&, bool gradient, float truth) {
    return from == fleet.At(1, 0) && !gradient ? truth + 4 : truth;
  };
  fleet.Go(8);
  CHECK(fleet.watch.named().size() == 2);
  for (int r = 0; r < 2; ++r) {
    CHECK(fleet.watch.named().at(fleet.At(1, r)).is == Is::kDisputed);
  }
}

TEST_CASE("BoundaryWatch: who sends what is usual again is named no more", "[coordinator]") {
  Fleet fleet;
  bool lies = true;
  fleet.makes = [&](const NodeId& from, const NodeId&, bool gradient, float truth) {
    return lies && from == fleet.At(0, 0) && !gradient ? truth + 4 : truth;
  };
  fleet.Go(4);
  REQUIRE(fleet.watch.named().size() == 1);
  lies = false;
  std::vector<NodeId> settled;
  for (int i = 0; i < 12; ++i) {
    for (const NodeId& node : fleet.Next().settled) settled.push_back(node);
  }
  CHECK(settled == std::vector<NodeId>{fleet.At(0, 0)});
  CHECK(fleet.watch.named().empty());
}

// A process that is new counts what came to it from then on; a run that went back begins again.
TEST_CASE("BoundaryWatch: restarts name nobody", "[coordinator]") {
  Fleet fleet;
  fleet.Go(6);
  SECTION("of a node in the middle of a period") {
    fleet.says = [&](const NodeId&, const BoundarySide& side) { return side.log2_rms; };
    BoundarySizes less{fleet.period * kBoundaryPeriodSteps, {{fleet.At(0, 0), false, false, 1, 0}}};
    fleet.watch.Note(fleet.At(1, 0), less);
    ++fleet.period;
  }
  SECTION("of the run, at an earlier step") {
    fleet.period = 2;
  }
  SECTION("and deaths, of one that had said nothing yet") {
    Fleet other;
    other.silent = {other.At(1, 0)};
    other.Next();
    other.gone = other.silent;
    CHECK(other.Go(10).named.empty());
  }
  SECTION("of a node that has another stage now") {
    fleet.watch.Forget(fleet.At(1, 0));
  }
  CHECK(fleet.Go(10).named.empty());
}

TEST_CASE("BoundaryWatch: a step far ahead is the word of who says it only", "[coordinator]") {
  Fleet fleet;
  const NodeId liar = fleet.At(1, 0);
  fleet.silent = {liar};
  for (int i = 0; i < 10; ++i) {
    fleet.Next();
    BoundarySizes ahead{1'000'000 + 8 * i, {}};
    for (int r = 0; r < 4; ++r) ahead.sides.push_back({fleet.At(2, r), true, false, 64, 40});
    fleet.watch.Note(liar, ahead);
    for (const auto& [node, finding] : fleet.watch.named()) {
      if (finding.is == Is::kOdd) CHECK(node == liar);
    }
  }
}
