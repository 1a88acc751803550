// What a node holds of its stage, and what it does when its memory runs out.

#include "pipeline/plan/node_memory.h"

#include <algorithm>

#include "common/error_pages.h"
#include "common/status.h"
#include "node/node_actor.h"

namespace skerry {

StageHolds NodeActor::Holds() const {
  return HoldsOf(*config_, plan_, stage_, OfferOf(options_.device));
}

StageOrder NodeActor::OrderFor() const {
  const StageHolds holds = Holds();
  const StageAssignment& stage = plan_->stages[static_cast<size_t>(stage_)];
  const int32_t layers = stage.last_layer - stage.first_layer;
  const MemoryOffer offer = OfferOf(options_.device);
  // GPUs leave this to their host also where the node, with its processor among the devices, could
  // not tell it apart.
  MemoryOffer apart = offer;
  apart.host_bytes = std::max<int64_t>(1, offer.host_bytes);
  const StageMemory host = MemoryIn(*config_, layers, stage_ == 0, holds, apart).host;
  return {stage,
          stage_ == 0,
          SplitOf(holds, offer),
          holds.recomputed,
          holds.offloads,
          holds.parked,
          StashesOf(*config_, stage_ == 0, holds) - holds.parked,
          holds.on_disk,
          ParkingWait(*config_, layers, stage_ == 0, holds, offer),
          MemoryIn(*config_, layers, stage_ == 0, holds, offer).each.total(),
          host.total() + host.now_and_then()};
}

void NodeActor::FailAtWork(Context& context, const absl::Status& status) {
  if (state_ == State::kStopped) return;
  if (absl::IsResourceExhausted(status)) {
    const MemoryOffer offered = OfferOf(options_.device);
    const bool of_disk = CodeIn(ErrorText(status)) == "SK-spill";
    const MemoryOffer next =
        OfferAfterShortage(offered, MemoryIn(*config_, plan_, stage_, offered), of_disk);
    std::string fields = absl::StrFormat(R"("stage":%d,"offered_bytes":%d,"offers_next_bytes":%d)",
                                         stage_, offered.device_bytes, next.device_bytes);
    if (offered.HasHost()) {
      fields += absl::StrFormat(R"(,"offered_host_bytes":%d,"offers_next_host_bytes":%d)",
                                offered.host_bytes, next.host_bytes);
    }
    if (offered.spill_bytes > 0) {
      fields += absl::StrFormat(R"(,"offered_spill_bytes":%d,"offers_next_spill_bytes":%d)",
                                offered.spill_bytes, next.spill_bytes);
    }
    context.Event("out_of_memory", fields);
    offer_after_shortage_ = next;
  }
  Fail(context, status);
}

}  // namespace skerry
