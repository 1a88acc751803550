#include "routing/column_program.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

TEST_CASE("A small program by hand, and its duals", "[routing][program]") {
  // max 3a + 2b with a + b ≤ 4, a + 3b ≤ 6: a = 4, b = 0.
  ColumnProgram program({4, 6}, 1000);
  program.AddColumn(0, {{0, 1}});
  program.AddColumn(0, {{1, 1}});
  program.AddColumn(-3, {{0, 1}, {1, 1}});
  program.AddColumn(-2, {{0, 1}, {1, 3}});

  program.Solve(100);

  CHECK(program.objective() == Approx(-12).epsilon(1e-5));
  CHECK(program.duals()[0] == Approx(-3));
  CHECK(program.duals()[1] == Approx(0).margin(1e-9));
}

TEST_CASE("Columns that come later are taken up from the last basis", "[routing][program]") {
  ColumnProgram program({2}, 1000);
  program.AddColumn(5, {{0, 1}});
  program.Solve(100);
  CHECK(program.objective() == Approx(10).epsilon(1e-5));

  program.AddColumn(3, {{0, 2}});
  program.Solve(100);

  CHECK(program.objective() == Approx(3).epsilon(1e-5));
}

}  // namespace
}  // namespace skerry
