// What docs/OUTER_STEPS.md says the outer rounds of a replica take from the heap.
#include <catch2/catch.hpp>

#include "bench/replica_bytes.h"

namespace skerry {
namespace {

// The base 4, with momentum 4 more, with the buffer 2 more; while it is pending, the own message.
TEST_CASE("Outer rounds: a replica takes from the heap what is written down", "[memory]") {
  const auto [codec, residual, momentum, vectors, message] =
      GENERATE(table<DeltaCodec, ResidualPlace, float, double, double>({
          {DeltaCodec::kTernary, ResidualPlace::kWeights, 0.0f, 4, 0.26},
          {DeltaCodec::kInt8, ResidualPlace::kWeights, 0.6f, 8, 1.01},
          {DeltaCodec::kTernary, ResidualPlace::kBuffer, 0.6f, 10, 0.26},
          {DeltaCodec::kInt8, ResidualPlace::kBuffer, 0.0f, 6, 1.01},
      }));
  const ReplicaBytes bytes = MeasureReplica(codec, residual, momentum);
  CHECK(bytes.fresh == Approx(vectors).margin(0.02));
  CHECK(bytes.between == Approx(vectors).margin(0.02));
  CHECK(bytes.pending <= vectors + message);
  CHECK(bytes.most <= vectors + message);
}

}  // namespace
}  // namespace skerry
