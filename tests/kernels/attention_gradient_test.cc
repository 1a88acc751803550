// The reference's attention in float64 against central differences.
#include <catch2/catch.hpp>

#include "kernels/reference/attention.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/values.h"

namespace skerry {

TEST_CASE("Gradient: causal attention with grouped heads", "[kernels][gradient][attention]") {
  const AttentionShape shape = GENERATE(
      AttentionShape{2, 5, 2, 2, 4}, AttentionShape{1, 6, 4, 2, 3}, AttentionShape{1, 4, 4, 1, 2});
  const int64_t tokens = shape.sequences * shape.context;
  Doubles q = Normals<double>(tokens * shape.heads * shape.head_size, "q");
  Doubles k = Normals<double>(tokens * shape.kv_heads * shape.head_size, "k");
  Doubles v = Normals<double>(tokens * shape.kv_heads * shape.head_size, "v");
  const Doubles d_out = Normals<double>(static_cast<int64_t>(q.size()), "d_out");
  Doubles out(q.size()), log_sum_exp(static_cast<size_t>(tokens * shape.heads));
  const auto loss = [&] {
    reference::AttentionForward<double>(shape, AsRows(q, tokens), AsRows(k, tokens),
                                        AsRows(v, tokens), AsRows(out, tokens), log_sum_exp.data());
    return Weigh(d_out, out);
  };
  loss();

  Doubles d_q(q.size()), d_k(k.size()), d_v(v.size());
  reference::AttentionBackward<double>(shape, AsRows(q, tokens), AsRows(k, tokens),
                                       AsRows(v, tokens), AsRows(out, tokens), log_sum_exp.data(),
                                       AsRows(d_out, tokens), AsRows(d_q, tokens),
                                       AsRows(d_k, tokens), AsRows(d_v, tokens));

  CHECK(NormwiseError(d_q, Differences(q, loss)) < kDifferenceError);
  CHECK(NormwiseError(d_k, Differences(k, loss)) < kDifferenceError);
  CHECK(NormwiseError(d_v, Differences(v, loss)) < kDifferenceError);
}

}  // namespace skerry
