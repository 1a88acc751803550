// One member's end of a group whose members are processes: the ring of kernels/group/group.h, with
// messages in place of memory. Same operations, same order of every sum, so the same bits as any
// other ring of as many members; what each costs on the wire stands there too.
//
// A part of an actor, which passes on to it what comes. The actor's thread decides; values are
// added, copied and made into messages by jobs. All is cut into pieces: a piece goes on to the next
// member as soon as it has been added to, so all lines are busy at once, whatever the round trip.
//
// Flow. To a member there are at most kWindow pieces that it has not used; it says how many it has
// (GroupSign::taken). Nothing is sent to a member that has not been heard of in this group: it may
// not have made it yet.
//
// Errors. The group ends at every member, with the reason and the rank of who it is about, when
//   - a member says so (Abort, or an error of its own),
//   - one is not heard of for `patience`: it crashed, hangs, or cannot be reached. All say a word
//     once a second. Time in which this process itself stood still does not count;
//   - one was replaced by a new process;
//   - what one says that it sent does not arrive, or a job does not end, for `patience`;
//   - what comes is not what is due: members do not call the same operations.
// So whatever befalls a member, at any step, is an error at the others within patience and two
// seconds. A member that is only late to begin an operation is no error: whether it computes or is
// stuck is its owner's to judge. A group that ended is of no more use: whoever is left makes
// another, with another number. What was over for a member before stays right.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/group/group.h"
#include "kernels/group/ring_order.h"
#include "wire/actor.h"

namespace skerry {

struct TransportRingOptions {
  uint64_t group = 0;           // no other formation has this number
  std::vector<NodeId> members;  // by rank, each once; this process is one of them
  Duration patience = Duration::Seconds(7);
  int64_t piece_values = 0;  // the same at all members; 0: by the size of an operation
  // How its messages leave, for an owner that counts them; empty: by the context.
  std::function<void(Context& context, const NodeId& to, Message message)> send = {};
};

class TransportRing {
 public:
  static constexpr int64_t kWindow = 32;
  static constexpr int64_t kPieceMin = 16 * 1024;   // values
  static constexpr int64_t kPieceMax = 256 * 1024;  // 1 MiB
  static constexpr int64_t kPiecesOfPart = 16;      // where both limits allow it

  // Called once for every operation, when this member's part is over, and once if the group ends
  // while none is under way. The ring may be destroyed in it, if that is the last that its owner
  // does there.
  using OnEnd = std::function<void(Context& context, const absl::Status& status)>;
  TransportRing(TransportRingOptions options, OnEnd on_end);
  TransportRing(const TransportRing&) = delete;
  TransportRing& operator=(const TransportRing&) = delete;

  void Start(Context& context);  // once, before anything else

  // As Group's, one at a time. `values` stay where they are until the operation has ended: also
  // with an error it ends only when no job of it reads or writes them any more.
  void AllReduce(Context& context, std::span<float> values);
  void ReduceScatter(Context& context, std::span<float> values);
  void AllGather(Context& context, std::span<float> values);
  void Broadcast(Context& context, std::span<float> values, int32_t root);
  void Send(Context& context, std::span<float> values, int32_t to);
  void Receive(Context& context, std::span<float> values, int32_t from);

  // This member gives up, and says why to all others.
  void Abort(Context& context, const absl::Status& why);

  // From the owner's handlers. Those that are false were not for this group.
  bool OnMessage(Context& context, const NodeId& from, const Message& message);
  bool OnTimer(Context& context, TimerId timer);
  bool OnJobDone(Context& context, JobId job);
  void OnPeerRestarted(Context& context, const NodeId& peer);
  // Of a simulation: each value counts as so many, on the wire and for the size of pieces, from the
  // next operation on.
  void SetStandsFor(double values) { stands_for_ = values; }
  // The device had other things to do than the jobs that wait here.
  void DeviceWasBusy(Instant now) { last_job_end_ = now; }

  int32_t rank() const { return rank_; }
  int32_t size() const { return static_cast<int32_t>(options_.members.size()); }
  uint64_t group() const { return options_.group; }
  bool busy() const { return operation_.has_value(); }
  const absl::Status& status() const { return status_; }  // ok, or why the group has ended
  // Of whom nothing was heard for so long, where it has not ended.
  std::vector<NodeId> SilentFor(Instant now, Duration time) const;
  // Whom that is about; CHECK: it has ended.
  const NodeId& blamed() const;

 private:
  // What comes in one step, and whether it is added and handed on.
  struct Take {
    GroupPart part;
    bool adds = false;
    int32_t passes_on_as = -1;  // a step of the next member's; −1: it ends here
  };
  struct Operation {
    std::span<float> values;
    int64_t piece = 1;                       // values
    int32_t to = -1, from = -1;              // −1: none
    int64_t to_number = 0, from_number = 0;  // of the operations between the two
    std::vector<Take> takes;
    size_t step = 0;         // of takes
    int64_t next_piece = 0;  // of that step, to begin using
  };
  // Pieces [piece, end) of a step, as the receiver counts.
  struct Give {
    int32_t step = 0;
    GroupPart part;
    int64_t piece = 0, end = 0;
  };
  struct Member {
    bool met = false;  // in this group
    Instant heard;
    int64_t sent = 0, used = 0;       // pieces to it, and how many of them it has used
    int64_t left = 0;                 // of `sent`: on their way, made
    int64_t came = 0, taken = 0;      // pieces from it, and how many of them are used
    int64_t said_sent = 0;            // by it
    int64_t told = 0;                 // of `taken`
    int64_t sends = 0, receives = 0;  // operations
    Instant lacks_since;              // nothing has come, where came < said_sent
    std::deque<GroupValues> waiting;  // ≤ kWindow
  };
  struct Work;  // of a job

  // Of what others are told why it ended.
  static constexpr size_t kWhyMax = 500;
  static constexpr int64_t kSignsInPatience = 7;

  // transport_ring.cc
  Operation Ring(std::span<float> values) const;
  void AddPass(Operation& operation, std::vector<Give>& gives, RingPass pass) const;
  void Begin(Context& context, Operation operation, std::vector<Give> gives);
  void GoOn(Context& context);
  bool HasAll();
  absl::Status UseWhatCame(Context& context);
  void GiveWhatMay(Context& context);
  void Submit(Context& context, std::shared_ptr<Work> work);
  void OnWorkDone(Context& context, Work& work);
  void Fail(Context& context, const absl::Status& why);
  void End(Context& context, const absl::Status& status);

  // transport_ring_members.cc
  void Hear(Context& context, int32_t from);
  void OnValues(Context& context, int32_t from, const GroupValues& message);
  void OnSign(Context& context, int32_t from, const GroupSign& sign);
  void SendSign(Context& context, int32_t to);
  void Tell(Context& context, int32_t to, Message message) const;
  absl::Status Overdue(Instant now) const;
  // Names the member that an error is about, unless it says so itself.
  absl::Status Of(int32_t rank, const absl::Status& status) const;
  int32_t RankOf(const NodeId& id) const;   // −1: no member
  int64_t PieceValues(int64_t part) const;  // of an operation with parts of so many values
  static int64_t PiecesOf(const GroupPart& part, int64_t piece);
  static GroupPart PieceOf(const GroupPart& part, int64_t index, int64_t piece);
  Member& At(int32_t rank) { return members_[static_cast<size_t>(rank)]; }
  const Member& At(int32_t rank) const { return members_[static_cast<size_t>(rank)]; }

  TransportRingOptions options_;
  OnEnd on_end_;
  int32_t rank_ = 0;
  std::vector<Member> members_;  // by rank
  absl::Status status_;
  std::optional<Operation> operation_;
  std::deque<Give> gives_;
  std::map<JobId, std::shared_ptr<Work>> jobs_;
  Instant last_job_end_;  // or when the oldest job was submitted, if that is later
  TimerId timer_ = 0;
  Instant timer_due_;
  double stands_for_ = 1;
};

}  // namespace skerry
