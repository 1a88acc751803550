// A joiner's side of being given the state of its stage by several replicas at once
// (docs/PROTOCOL.md, 17; docs/decisions/0031-joining.md). A part of the node's actor.
//
//   waits for   the root that the coordinator says the replicas agree on, and donors of that root
//   table       the digests of the chunks, from one donor at a time; their digest must be the root
//   chunks      from all donors (chunk_scheduler.h). Of what replicas have in common each is held
//               to its digest, of moments to what an optimizer can make
//
// Who gives something else is asked no more, and the coordinator hears of it. Nothing is allocated
// before it has come, nor for more than the stage takes, which its own sizes say; what is verified
// stays while donors come and go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/chunk_scheduler.h"
#include "pipeline/exec/stage_work.h"
#include "wire/actor.h"

namespace skerry {

// What is asked for: "table/STAGE/VERSION", likewise "state" and "moments".
std::string StateObject(const char* kind, int32_t stage, int64_t version);

inline int64_t StateChunks(int64_t bytes) {
  return (bytes + kStateChunkBytes - 1) / kStateChunkBytes;
}
// The bytes of `object` from `offset` on, `length` at most, that are there (Payload).
std::span<const uint8_t> PartOf(const Payload& object, int64_t offset, int64_t length);

class StateTransfer {
 public:
  using SendFn = std::function<void(Context&, const NodeId& to, Message)>;
  StateTransfer(int32_t stage, int64_t version, NodeId coordinator, SendFn send);

  // The stage is built; `work` outlives this.
  void Begin(Context& context, const StageWork* work);
  // The live replicas of the stage.
  void SetDonors(Context& context, const std::vector<NodeId>& live);
  void OnRoot(Context& context, const NodeId& from, const StateRoot& message);
  void OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk);
  // False: it is somebody else's timer.
  bool OnTimer(Context& context, TimerId timer);

  bool Done() const { return scheduler_ && scheduler_->Done(); }
  // When Done(), once.
  StageWork::JoinersChunks Take();
  int64_t version() const { return version_; }
  std::string WaitingFor() const;  // for people

 private:
  static constexpr Duration kTablePatience = Duration::Seconds(3);
  static constexpr Duration kSayEvery = Duration::Seconds(2);

  void Pump(Context& context);
  void Arm(Context& context);
  std::vector<NodeId> Donors() const;
  void UpdateDonors();
  void AskForTable(Context& context);
  void OnTable(Context& context, const NodeId& from, const ObjectChunk& chunk);
  void OnPart(Context& context, const NodeId& from, const ObjectChunk& chunk, bool is_moments);
  void Refute(Context& context, const NodeId& donor, int64_t chunk, const Digest& digest);
  void Say(Context& context, bool always);
  int64_t BytesHeld() const;

  int32_t stage_;
  int64_t version_;
  NodeId coordinator_;
  SendFn send_;
  const StageWork* work_ = nullptr;
  StageWork::JoinersSizes sizes_;
  std::vector<NodeId> live_;
  std::map<NodeId, StateRoot> said_;  // by donors
  std::optional<Digest> root_;        // the agreed one
  std::vector<NodeId> refuted_;
  NodeId table_donor_;
  Instant table_asked_;
  bool asks_table_ = false;
  Bytes table_bytes_;
  std::vector<Digest> table_;
  std::optional<ChunkScheduler> scheduler_;
  std::vector<Payload> chunks_;  // common, then moments
  TimerId timer_ = 0;
  std::optional<Instant> began_;
  Instant told_;
};

}  // namespace skerry
