// Robust means: what keeps one wild delta from moving a stage (OuterRobust, common/run_config.h).
//
//   screen  weight 0 for messages whose norm, for each round they cover, is beyond `limit` medians
//           of the round's; the others weigh by their tokens as in round_mean.h, within bounds
//   clip    CenteredClip (Karimireddy, He, Jaggi 2021, section 4): the fixed point of
//             v ← v + 1/R Σ_c (D_c − v) · min(1, ρ/‖D_c − v‖)
//           from v = the medoid, with the one radius ρ = `limit` × the medoid's median distance. A
//           radius that followed v would run away with it once liars · limit reach the honest.
//   trim    of the R values of every parameter the k largest and the k smallest are left out
//
// Screen and clip are one integer weight for each message (v is always Σ a_c D_c, so the R × R
// scalar products are all that clip looks at), and trim is an order statistic: what is left is
// summed in fixed point (compression/fixed_point.h), so every mode gives the same bits for any
// order of the messages. Where screen leaves nobody out the result is the plain mean, to the bit;
// where clip draws nobody in, that of equal tokens.
//
//   d = Σ_c w_c D_c / Σ_c w_c          trim: the mean of the R − 2k values left, each parameter
//
// Token counts are what a sender says of itself, and a wild one divides the step of all. Clip and
// trim do not look at them; under screen none pulls (tokens · norm) more than `limit` times as hard
// as the median does. Norms are not compared per token: after AdamW a displacement grows with inner
// steps, hardly with tokens.
//
// A message that decodes to zeros, or under screen covers no token (its replica had nothing to do),
// is no measure of the others: it counts in the mean as it would without, but for no median. With
// fewer than 3 messages, or fewer than 3 that are not zeros, nobody can tell who is wild: nothing
// is left out or drawn in. Trim needs 3 messages, whatever they hold.
//
// What is left out counts as accepted all the same: for its sender the law of replica.h holds with
// D(msg) moved out of its weights or residual, as if the base had taken it. It is dropped on
// purpose; kept, it would be back in the next round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/run_config.h"

namespace skerry {

struct RobustOptions {
  OuterRobust mode = OuterRobust::kNone;
  double limit = 3;   // ≥ 1, in medians
  double trim = 0.2;  // in [0, 0.5), share left out at each end

  static RobustOptions Of(const OuterConfig& outer) {
    return {outer.robust, double{outer.robust_limit}, double{outer.robust_trim}};
  }
};

// What a mode makes of the messages of a round.
struct RobustWeights {
  std::vector<int64_t> weights;  // ≥ 0, the largest ≥ 1, total at most kWeightTotalMax
  std::vector<bool> screened;    // weight 0, or under half of the largest
};

// `norms` [R] of the decoded messages, each over the rounds it covers. Weights 0 or 1.
RobustWeights ScreenWeights(std::span<const double> norms, double limit);

// What is believed of `tokens` [R], those with norm 0 or tokens 0 as they are. Of fewer than three
// others all.
std::vector<int64_t> BelievedTokens(std::span<const double> norms, std::vector<int64_t> tokens,
                                    double limit);

// `products` [R · R], row by row: D_i · D_j, the messages in an order that depends on them alone:
// the coefficients are computed in double, in that order.
RobustWeights ClipWeights(std::span<const double> products, double limit);

// k: ⌊trim · messages⌋, and at least 1 where trim > 0 and there are three: who asks for it is not
// left without it in a small stage.
int64_t TrimmedAtEachEnd(int64_t messages, double trim);

}  // namespace skerry
