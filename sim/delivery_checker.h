// What the courier promises (wire/courier.h), watched from above: between two processes that have
// both lived since the run began, everything sent is delivered once, in order.
//
// A pair is watched until one of the two starts again or is put out of the run: from then on
// sessions end and begin, and what was under way may be lost.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "wire/message/message.h"

namespace skerry {

class DeliveryChecker {
 public:
  void OnSent(const NodeId& from, const NodeId& to, const Message& message);
  // What is wrong with it; empty: nothing.
  std::string OnDelivered(const NodeId& from, const NodeId& to, const Message& message);
  void OnLife(const NodeId& node);  // a process starts
  void OnGone(const NodeId& node);  // the run goes on without it

 private:
  bool IsWatched(const NodeId& from, const NodeId& to) const {
    return !unwatched_.contains(from) && !unwatched_.contains(to);
  }

  std::set<NodeId> started_;
  std::set<NodeId> unwatched_;
  std::map<std::pair<NodeId, NodeId>, std::deque<uint64_t>> under_way_;  // fingerprints
};

}  // namespace skerry
