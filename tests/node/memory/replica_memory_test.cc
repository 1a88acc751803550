// What docs/OUTER_STEPS.md says the outer rounds of a replica take from the heap.
#include <catch2/catch.hpp>

#include "bench/replica_bytes.h"

namespace skerry {
namespace {

// Base and outer momentum 8, with the buffer residual and weights as sent 8 more; the own message,
// and a copy of it while it leaves.
TEST_CASE("Outer rounds: a replica takes from the heap what is written down", "[memory]") {
  const auto [codec, residual, vectors, message] =
      GENERATE(table<DeltaCodec, ResidualPlace, double, double>({
          {DeltaCodec::kTernary, ResidualPlace::kWeights, 8, 0.26},
          {DeltaCodec::kInt8, ResidualPlace::kWeights, 8, 1.01},
          {DeltaCodec::kTernary, ResidualPlace::kBuffer, 16, 0.26},
          {DeltaCodec::kInt8, ResidualPlace::kBuffer, 16, 1.01},
      }));
  const ReplicaBytes bytes = MeasureReplica(codec, residual);
  const double before_sent = residual == ResidualPlace::kBuffer ? vectors - 4 : vectors;
  CHECK(bytes.fresh == Approx(before_sent).margin(0.02));
  CHECK(bytes.between >= vectors);
  CHECK(bytes.between <= vectors + message);
  CHECK(bytes.pending <= vectors + message);
  CHECK(bytes.most <= vectors + 2 * message);
}

}  // namespace
}  // namespace skerry
