// What the courier promises (wire/courier.h), watched from above: between two processes that have
// both lived since the run began, everything sent is delivered once, in order within a class of
// traffic, but for what was withdrawn before it left.
//
// A pair is watched until one of the two starts again or is put out of the run: from then on
// sessions end and begin, and what was under way may be lost.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "common/id_hash.h"
#include "wire/message/message.h"

namespace skerry {

class DeliveryChecker {
 public:
  void OnSent(const NodeId& from, const NodeId& to, const Message& message);
  void OnWithdrawn(const NodeId& from, const NodeId& to, const Message& message);
  // What is wrong with it; empty: nothing.
  std::string OnDelivered(const NodeId& from, const NodeId& to, const Message& message);
  void OnLife(const NodeId& node);  // a process starts
  void OnGone(const NodeId& node);  // the run goes on without it

 private:
  struct Process {
    int32_t number = 0;
    bool started = false;
    bool unwatched = false;
  };
  // Oldest first; most pairs have few. The class is in the lowest bits.
  using Fingerprints = absl::InlinedVector<uint64_t, 4>;

  Process& ProcessOf(const NodeId& id);
  // What is under way between the two; nullptr if they are not watched.
  Fingerprints* UnderWay(const NodeId& from, const NodeId& to);

  // Both looked up, never iterated.
  absl::flat_hash_map<NodeId, Process, IdHash> processes_;
  absl::flat_hash_map<uint64_t, Fingerprints> under_way_;
};

}  // namespace skerry
