#include "coordinator/sum_following.h"

#include <memory>
#include <utility>

#include "common/round_clock.h"
#include "localsgd/outer_law.h"
#include "localsgd/sum_proof.h"
#include "localsgd/table_choice.h"
#include "model/parameter_layout.h"
#include "pipeline/exec/shown_sum.h"

namespace skerry {
namespace {

std::vector<int64_t> BlockSizes(const ParameterLayout& layout) {
  std::vector<int64_t> sizes;
  for (const ParameterBlock& block : layout.blocks()) sizes.push_back(block.size);
  return sizes;
}

}  // namespace

RoundPart::RoundPart(const RunConfig& config, const TransformerConfig& model,
                     const StageAssignment& stage, bool holds_ends, int64_t round) {
  const auto layout =
      ParameterLayout::ForStage(model, stage.first_layer, stage.last_layer, holds_ends);
  const RoundClock clock(config);
  const auto fragments = static_cast<int32_t>(clock.fragments());
  const FragmentRange range =
      CutFragments(BlockSizes(layout), fragments)[static_cast<size_t>(clock.FragmentOf(round))];
  shape = ShapeOf(layout);
  if (fragments > 1) shape = SliceShape(shape, range.first, range.size);
  size = range.size;
  cut = PieceCut::Of(size, static_cast<int64_t>(stage.replicas.size()));
}

std::optional<SumFollower> FollowerOf(const RunConfig& config, const TransformerConfig& model,
                                      const RunState& state, const SumCheck& check,
                                      const std::vector<int32_t>& own) {
  const int32_t stage = check.stage;
  if (!state.plan || static_cast<size_t>(stage) >= state.plan->stages.size()) return std::nullopt;
  const RoundPart part(config, model, state.plan->stages[static_cast<size_t>(stage)], stage == 0,
                       check.round);
  auto book = std::make_shared<CodecBook>(config.outer, part.size, part.cut, part.shape);
  for (auto it = state.commits.lower_bound({stage, 0});
       it != state.commits.end() && it->first.first == stage && it->first.second < check.round;
       ++it) {
    const RoundCommit& commit = it->second;
    if (commit.table.empty()) continue;
    book->SetTable(commit.round + TableLag(config.outer), commit.table).IgnoreError();
  }
  return SumFollower{check, own, PieceReducer(config.outer, part.cut, 0, std::move(book))};
}

SumVerdict SumFollower::Follow(const Payload& packed) const {
  const auto shown = UnpackShown(packed, check.summed.size(), check.drawn.size());
  if (!shown.ok()) return SumVerdict::kNotShown;
  return CheckShownSum(check, own, *shown, SumsOf(*shown), fresh);
}

}  // namespace skerry
