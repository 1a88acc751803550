// Fetches the whole state of a stage from one who has it: of a plan that begins with a checkpoint,
// from the coordinator (joiners: state_transfer.h). A part of the node's actor.
//
// A donor that has nothing to give yet, falls silent, leaves or loses the thread is followed by the
// next one, from the start: states of two donors, or of two versions, do not mix. Bounded: kWindow
// chunks are asked for and not here yet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wire/actor.h"

namespace skerry {

// "replica/STAGE", and "replica/STAGE/VERSION" once the donor has said which version it gives.
std::string StateObject(int32_t stage, int64_t version = -1);

class StateFetcher {
 public:
  static constexpr int64_t kWindow = 8;
  static constexpr Duration kPatience = Duration::Seconds(15);
  static constexpr int64_t kStateBytesMax = int64_t{1} << 38;

  using SendFn = std::function<void(Context&, const NodeId& to, Message)>;
  StateFetcher(int32_t stage, SendFn send) : stage_(stage), send_(std::move(send)) {}

  // Now and then, with those who may give, in order of preference: begins, or goes on with another.
  void Tend(Context& context, const std::vector<NodeId>& donors);
  void OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk);

  bool Done() const { return total_ > 0 && received_ == total_; }
  // When Done().
  Payload state() const;
  int64_t version() const { return version_; }
  // What came was not the state of this stage: begins again with the next donor.
  void Reject();
  int64_t transfers() const { return transfers_; }  // begun so far
  std::string WaitingFor() const;                   // for people

 private:
  void Ask(Context& context);
  void RequestMore(Context& context);

  int32_t stage_;
  SendFn send_;
  NodeId donor_;
  bool asking_ = false;
  size_t next_donor_ = 0;
  Instant progress_;
  int64_t version_ = -1;
  int64_t total_ = -1;  // −1: not known
  int64_t requested_ = 0;
  int64_t received_ = 0;  // in order: requests are answered in order
  Bytes bytes_;           // fewer than received_ when they are hollow
  int64_t transfers_ = 0;
};

}  // namespace skerry
