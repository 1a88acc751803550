#include "sim/swarm_faults.h"

#include <array>

namespace skerry {
namespace {

// As often as they stand here.
constexpr std::array kKinds = {FaultKind::kCrash,
                               FaultKind::kCrash,
                               FaultKind::kCrash,
                               FaultKind::kRestart,
                               FaultKind::kRestart,
                               FaultKind::kHang,
                               FaultKind::kHang,
                               FaultKind::kSlowDevice,
                               FaultKind::kSlowLink,
                               FaultKind::kCut,
                               FaultKind::kCut,
                               FaultKind::kCut,
                               FaultKind::kLossBurst,
                               FaultKind::kClockJump,
                               FaultKind::kClockDrift,
                               FaultKind::kWrongResult,
                               FaultKind::kPoisonedDelta,
                               FaultKind::kPoisonedDelta,
                               FaultKind::kDiskFull,
                               FaultKind::kDiskFull,
                               FaultKind::kCoordinatorCrash,
                               FaultKind::kCoordinatorCrash,
                               FaultKind::kCoordinatorCrash};
constexpr int32_t kRecordMax = 300;  // of the coordinator's journal; not every run has so many

class FaultDraw {
 public:
  FaultDraw(Dice& dice, const NetworkSpec& map, bool over_flows)
      : dice_(dice),
        map_(map),
        over_flows_(over_flows),
        nodes_(static_cast<int32_t>(map.site_of_node.size()) - 1) {}

  Fault Draw() {
    Fault fault;
    fault.kind = dice_.OneOf(kKinds);
    const bool early = dice_.Chance(0.3);
    fault.at = Instant() + Duration::Seconds(early ? dice_.Real(0.1, 6.0) : dice_.Real(3.0, 60.0));
    fault.lasts = Duration::Seconds(dice_.Scale(0.02, 25));
    fault.where = Node();
    switch (fault.kind) {
      case FaultKind::kCrash:
        if (dice_.Chance(0.4)) fault.lasts.reset();
        break;
      case FaultKind::kRestart:
        fault.keeps_disk = dice_.Chance(0.3);
        break;
      case FaultKind::kCoordinatorCrash:
        fault.where = Coordinator();
        if (dice_.Chance(0.6)) fault.at_record = dice_.Count(1, kRecordMax);
        break;
      case FaultKind::kCut:
      case FaultKind::kLossBurst:
      case FaultKind::kSlowLink:
        DrawWay(fault);
        break;
      default:
        DrawOther(fault);
    }
    return fault;
  }

 private:
  FaultEnd Node() { return {FaultEnd::Kind::kNode, dice_.Count(1, nodes_)}; }
  static FaultEnd Coordinator() { return {FaultEnd::Kind::kNode, 0}; }

  void DrawWay(Fault& fault) {
    const auto regions = static_cast<int32_t>(map_.regions.size());
    fault.both_directions = dice_.Chance(0.6);
    fault.factor = dice_.Real(2, 20);
    fault.probability = over_flows_ ? dice_.Scale(0.01, 0.2) : dice_.Real(0.1, 0.6);
    const bool whole_regions = over_flows_ && fault.kind != FaultKind::kCut;
    if (whole_regions || dice_.Chance(0.3)) {
      const auto region = dice_.Count(0, regions - 1);
      fault.where = {FaultEnd::Kind::kRegion, region};
      fault.other = {FaultEnd::Kind::kRegion, (region + dice_.Count(1, regions - 1)) % regions};
      return;
    }
    const auto end = dice_.Count(0, 2);
    if (end == 0) fault.other = Coordinator();
    // One node further, so that it is another one.
    if (end == 1) fault.other = {FaultEnd::Kind::kNode, fault.where.index % nodes_ + 1};
  }

  void DrawOther(Fault& fault) {
    switch (fault.kind) {
      case FaultKind::kHang:
      case FaultKind::kDiskFull:
        if (dice_.Chance(0.4)) fault.where = Coordinator();
        break;
      case FaultKind::kClockJump:
        if (dice_.Chance(0.5)) fault.where = Coordinator();
        DrawJump(fault);
        break;
      case FaultKind::kClockDrift:
        if (dice_.Chance(0.5)) fault.where = Coordinator();
        fault.drift_ppm = dice_.Real(-200'000, 200'000);
        break;
      case FaultKind::kSlowDevice:
        fault.factor = dice_.Real(2, 10);
        if (dice_.Chance(0.5)) fault.lasts.reset();
        break;
      case FaultKind::kWrongResult:
        fault.probability = dice_.Real(0.1, 1);
        break;
      case FaultKind::kPoisonedDelta:
        fault.is_void = dice_.Chance(0.5);
        fault.lasts.reset();
        break;
      default:
        break;
    }
  }

  void DrawJump(Fault& fault) {
    const double by_s = dice_.Scale(0.1, 60);
    fault.by = Duration::Seconds(dice_.Chance(0.6) ? by_s : -0.3 * by_s);
    fault.lasts.reset();
  }

  Dice& dice_;
  const NetworkSpec& map_;
  bool over_flows_;
  int32_t nodes_;
};

}  // namespace

std::vector<Fault> DrawFaults(Dice& dice, const NetworkSpec& map, bool over_flows) {
  FaultDraw draw(dice, map, over_flows);
  std::vector<Fault> faults;
  const auto count = dice.Count(0, 6);
  for (int32_t i = 0; i < count; ++i) faults.push_back(draw.Draw());
  return faults;
}

void DrawLateness(Dice& dice, int32_t nodes, bool over_flows, std::vector<Fault>& faults) {
  const auto count = dice.Count(1, 3);
  for (int32_t i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = dice.OneOf(std::array{FaultKind::kCut, FaultKind::kCut, FaultKind::kSlowLink,
                                       FaultKind::kSlowDevice, FaultKind::kHang});
    if (fault.kind == FaultKind::kSlowLink && over_flows) fault.kind = FaultKind::kCut;
    fault.at = Instant() + Duration::Seconds(dice.Real(5, 60));
    fault.where = {FaultEnd::Kind::kNode, dice.Count(1, nodes)};
    fault.other = {FaultEnd::Kind::kNode,
                   (fault.where.index - 1 + dice.Count(1, nodes - 1)) % nodes + 1};
    fault.both_directions = dice.Chance(0.7);
    fault.factor = fault.kind == FaultKind::kSlowLink ? dice.Scale(50, 1000) : dice.Scale(10, 40);
    // A device that is slow for good would only make the run long.
    const bool for_good = dice.Chance(0.5) && fault.kind != FaultKind::kSlowDevice;
    if (!for_good) fault.lasts = Duration::Seconds(dice.Scale(20, 400));
    if (fault.kind != FaultKind::kHang) {
      faults.push_back(fault);
      continue;
    }
    const auto times = dice.Count(1, 3);
    for (int32_t again = 0; again < times; ++again) {
      fault.lasts = Duration::Seconds(dice.Real(3, 7.5));
      faults.push_back(fault);
      fault.at = fault.at + Duration::Seconds(dice.Real(15, 60));
    }
  }
}

}  // namespace skerry
