// How long the coordinator has said nothing, where a volunteer should know. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/instant.h"
#include "node/node_look.h"

namespace skerry {

class CoordinatorSilence {
 public:
  static constexpr double kAnswerS = 10;  // to a first Hello
  static constexpr double kNewsS = 15;  // heartbeats of who trains are answered, every 5 s at most

  // Of a stay in the run.
  void Begin(Instant now, const std::string& endpoint) {
    endpoint_ = endpoint;
    heard_ = now;
    waits_ = true;
  }
  void Heard(Instant now) {
    heard_ = now;
    waits_ = false;
  }
  // Once a stay, when nobody has answered for long; "" else.
  std::string Complaint(Instant now) {
    if (!waits_ || (now - heard_).seconds() < kAnswerS) return "";
    waits_ = false;
    return absl::StrFormat(
        "no answer from %s yet; this node keeps trying. What is in the way: skerry-node doctor "
        "--ticket TICKET",
        endpoint_);
  }
  // 0 where that is nothing to wonder about: spares hear nothing for long.
  double SilentFor(Instant now, const NodeLook& look) const {
    const bool works = look.phase == Phase::kTraining || look.phase == Phase::kWaitingForRound ||
                       look.phase == Phase::kWaitingForPeers;
    const double seconds = (now - heard_).seconds();
    return works && seconds > std::max(kNewsS, 4 * look.heartbeat_s) ? seconds : 0;
  }

 private:
  std::string endpoint_;
  Instant heard_;
  bool waits_ = false;
};

}  // namespace skerry
