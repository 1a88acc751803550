// What the node's heavy jobs leave behind for the actor.
#pragma once

#include <memory>
#include <optional>

#include "node/node_actor.h"

namespace skerry {

struct NodeActor::Results {
  absl::Status status;
  std::unique_ptr<StageWork> work;
  Payload delta;
  Digest digest;
  std::vector<Payload> pieces;  // of the own delta
  struct Part {
    NodeId to;
    Payload packed;
    Digest digest;
  };
  std::vector<Part> parts;      // of it
  std::vector<Digest> digests;  // of the pieces, where sums are checked
  std::vector<Piece> sums;
  std::vector<Participant> summed;  // what they were made of
  std::vector<PieceState> states;
  std::vector<Piece> left_over;               // of pieces that others sum from the next round on
  std::optional<DeltaStatistics> statistics;  // of the own delta
  uint64_t shape = 0;
  // What it cannot measure it need not say; encoding says why.
  void Measure(StageWork& of) {
    auto measured = of.MeasureDelta();
    if (measured.ok()) statistics = *std::move(measured);
  }
  std::vector<NodeId> screened;  // of the round that landed
  Payload base;                  // or the state of the stage
  StageWork::JoinersState state;
  int64_t version = 0;
};

}  // namespace skerry
