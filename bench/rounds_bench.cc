// What a sharded round sends over the wire (bench/round_traffic.h), codec by codec, for 4 to 32
// replicas, and what checks of sums add to it. The tiers: `./dev bench codecs`.
#include <string>

#include "bench/bench.h"
#include "bench/round_traffic.h"

namespace skerry::bench {
namespace {

constexpr float kChecks = 0.4f;  // of sums: pieces of a part in a round
constexpr int64_t kLargeParameters = 4 * kTrafficParameters;  // headers are the same: less of it

int Run(int argc, char** argv) {
  Bench bench("rounds", argc, argv);
  struct Row {
    const char* name;
    DeltaCodec codec;
    double up_goal, both_goal;  // 0: none
  };
  for (const Row& row :
       {Row{"ternary", DeltaCodec::kTernary, 0, 2.0}, Row{"topk", DeltaCodec::kTopK, 0.155, 0.5},
        Row{"lowrank", DeltaCodec::kLowRank, 0.155, 0.5}, Row{"int8", DeltaCodec::kInt8, 0, 0}}) {
    OuterConfig outer;
    outer.codec = row.codec;
    outer.budget_bits = 0.15f;  // of lowrank
    outer.sum_checks = kChecks;
    for (const size_t replicas : {4, 8, 16, 32}) {
      const RoundTraffic traffic = CountRoundTraffic(outer, replicas, kTrafficParameters);
      const std::string what = std::string(row.name) + ", " + std::to_string(replicas);
      if (row.up_goal > 0) {
        bench.AtMost(what + " replicas: up", traffic.up, "bit", row.up_goal);
      } else {
        bench.Record(what + " replicas: up", traffic.up, "bit");
      }
      bench.Record(what + " replicas: down", traffic.down, "bit");
      if (row.both_goal > 0) {
        bench.AtMost(what + " replicas: both", traffic.up + traffic.down, "bit", row.both_goal);
      } else {
        bench.Record(what + " replicas: both", traffic.up + traffic.down, "bit");
      }
      const double share = 100 * traffic.checks / (traffic.up + traffic.down);
      bench.Record(what + " replicas: checks of sums on top", share, "%");
    }
  }
  OuterConfig sparse;
  sparse.codec = DeltaCodec::kTopK;
  const RoundTraffic large = CountRoundTraffic(sparse, 32, kLargeParameters);
  bench.AtMost("topk, 32 replicas, 4 x the parameters: up", large.up, "bit", 0.155);
  bench.AtMost("topk, 32 replicas, 4 x the parameters: both", large.up + large.down, "bit", 0.5);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
