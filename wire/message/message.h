// Every message of the protocol as a plain struct, decoded once at the border. docs/PROTOCOL.md
// tells the story; wire/schema/skerry.capnp is the specification on the wire.
//
// Delivery: the courier (wire/courier.h) gives each pair of living processes exactly-once delivery,
// in order within a class of traffic (traffic.h); when a peer restarts both actors hear
// OnPeerRestarted, and of what was unacknowledged only OutlivesSession goes to the new process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "wire/message/checkpoint_message.h"
#include "wire/message/device_profile.h"
#include "wire/message/group_message.h"
#include "wire/message/insight_message.h"
#include "wire/message/link_message.h"
#include "wire/message/pipeline_plan.h"
#include "wire/message/reachability.h"
#include "wire/message/state_message.h"
#include "wire/message/sum_message.h"
#include "wire/message/work_message.h"

namespace skerry {

// ---- joining -----------------------------------------------------------------------------------

// node → coordinator, first message of every session (also after either side restarted).
struct Hello {
  std::string ticket;    // as given to the node; admits it the first time
  std::string endpoint;  // where peers reach it: "tcp://127.0.0.1:40123"
  std::string region;    // free text, shown to people; "" when unknown
  std::string software;  // version
  DeviceProfile device;
  // What the node still holds of this run; all zero for a fresh process.
  int64_t plan_version = 0;
  int64_t step = 0;          // completed inner steps
  int64_t base_version = 0;  // completed outer rounds
  // Where else it may be reached; ≤ kListensMax. The coordinator tries them (Reachability).
  std::vector<std::string> listens = {};
  bool relays = false;   // forwards sealed frames of pairs that cannot reach each other
  uint64_t process = 0;  // random; another number: another process; 0: not said
  bool operator==(const Hello&) const = default;
};
inline constexpr size_t kListensMax = 8;

struct Peer {
  NodeId id;
  std::string endpoint;  // "": nobody can dial it
  std::string region;
  bool relays = false;
  bool operator==(const Peer&) const = default;
};

// coordinator → node: admitted. `shards` name the training data; a node fetches by digest what it
// lacks.
struct ShardName {
  std::string file;
  Digest digest;
  int64_t bytes = 0;
  bool operator==(const ShardName&) const = default;
};
struct Welcome {
  RunId run;
  RunConfig config;
  std::vector<ShardName> shards;
  std::vector<std::string> coordinators = {};  // where it and its standbys listen, itself first
  bool operator==(const Welcome&) const = default;
};

// coordinator → node: not admitted, or no longer wanted; the node prints the reason and ends.
struct Refused {
  std::string reason;
  bool waits = false;  // not yet: it is admitted, or refused, when the operator has decided
  bool operator==(const Refused&) const = default;
};

// coordinator → node: who is here. Complete after Welcome, in parts if many; then what changed.
struct Peers {
  bool complete = false;   // who is not named is not here, or (`partial`) may not be
  int32_t parts_left = 0;  // of the complete list, that follow at once
  std::vector<Peer> peers;
  std::vector<NodeId> gone;
  bool partial = false;  // others are here too: who needs one of them asks (Acquaint)
  bool operator==(const Peers&) const = default;
};

// ---- plan and life of the run --------------------

// coordinator → node: the plan. It takes effect where the node stands: a first plan starts training
// at step 0.
struct PlanUpdate {
  SharedPlan plan;
  bool operator==(const PlanUpdate&) const = default;
};

// node → coordinator, every heartbeat_s. coordinator → node: how far it trains (PROTOCOL, 46).
enum class Phase : uint8_t {
  kJoining,
  kMeasuring,
  kWaitingForPlan,
  kFetchingData,
  kTraining,
  kWaitingForRound,
  kWaitingForPeers,
  kFinished,
  kStandby,
  kCatchingUp,  // a joiner that holds its stage's state and applies rounds as they are committed
  kLast = kCatchingUp
};
struct Heartbeat {
  Phase phase = Phase::kJoining;
  int64_t step = 0;  // completed inner steps
  int64_t base_version = 0;
  int64_t tokens = 0;      // tokens whose gradients this node accumulated
  int64_t bytes_sent = 0;  // on the wire, all classes
  int64_t bytes_received = 0;
  double busy_s = 0;            // device time spent in jobs
  double round_wait_s = 0;      // idle time exposed because a round's commit had not arrived
  double round_transfer_s = 0;  // Σ over rounds of (commit complete − boundary)
  int64_t memory_bytes = 0;     // the most its stage has held so far; 0: not measured
  std::string waiting_for;      // "gradient of microbatch 5 from 3fa9", "" when busy
  double backward_s = 0;  // of busy_s, in so many whole backward passes of its stage; of those
  int64_t backwards = 0;  // made again after a death, too
  bool operator==(const Heartbeat&) const = default;
};

// stage-0 node → coordinator: it has finished its microbatches of a step.
struct MicrobatchLoss {
  int32_t microbatch = 0;
  int32_t tokens = 0;
  float loss = 0;  // mean over its tokens, nat
  bool operator==(const MicrobatchLoss&) const = default;
};
struct StepReport {
  int64_t step = 0;
  std::vector<MicrobatchLoss> losses;
  bool operator==(const StepReport&) const = default;
};

// node → coordinator: leaving on purpose.
struct Leave {
  std::string reason;
  bool operator==(const Leave&) const = default;
};

// coordinator → node: the run is over (or paused for good); leave cleanly.
struct Shutdown {
  std::string reason;
  bool operator==(const Shutdown&) const = default;
};

// ---- pipeline: node → node --------------------
//
// plan_version: the newest plan its sender had heard of. A receiver that has not heard of it lets
// the message wait until it has.

// The residual stream going forward, float32 [sequences, context, hidden]. hop is the index of the
// receiver in the path; hop == path length means "back home": the stage-0 node applies the head.
struct Activation {
  int64_t step = 0;
  int32_t microbatch = 0;
  int32_t attempt = 0;
  int32_t hop = 0;
  int64_t plan_version = 0;
  Path path;  // with dead slots already replaced
  Payload values;
  DeltaCodec codec = DeltaCodec::kNone;  // what `values` is encoded as
  bool operator==(const Activation& o) const;
};
// ∂loss/∂(that stream) going back; hop as above, hop == 0 is the stage-0 node again.
struct Gradient {
  int64_t step = 0;
  int32_t microbatch = 0;
  int32_t attempt = 0;
  int32_t hop = 0;
  int64_t plan_version = 0;
  Payload values;
  DeltaCodec codec = DeltaCodec::kNone;
  bool operator==(const Gradient& o) const;
};
// stage-0 node → every node of the old path: this attempt is void (a node of it died, or is late):
// forget its stash.
struct MicrobatchVoid {
  int64_t step = 0;
  int32_t microbatch = 0;
  int32_t attempt = 0;
  int64_t plan_version = 0;
  bool operator==(const MicrobatchVoid&) const = default;
};

// node of a path → its stage-0 node: what I sent to the node after me (hop + 1) has not been
// answered for longer than ever before.
struct HopLate {
  int64_t step = 0;
  int32_t microbatch = 0;
  int32_t attempt = 0;
  int32_t hop = 0;  // of the sender
  bool operator==(const HopLate&) const = default;
};
// stage-0 node → coordinator, for the log: a microbatch was led around a node that was late.
struct Detour {
  int64_t step = 0;
  int32_t microbatch = 0;
  NodeId around;
  double waited_s = 0;
  bool skipped = false;  // no other replica stood in: the stage was left out
  int64_t plan_version = 0;
  bool operator==(const Detour&) const = default;
};

// stage-0 node → node, and to the coordinator, which passes it on, since their link may be late:
// none of these own microbatches will come to `to` any more.
struct VoidList {
  struct Microbatch {
    int64_t step = 0;
    int32_t microbatch = 0;
    bool operator==(const Microbatch&) const = default;
  };
  NodeId to;
  std::vector<Microbatch> microbatches;  // ≤ kVoidListMax
  int64_t plan_version = 0;
  bool operator==(const VoidList&) const = default;
};
inline constexpr size_t kVoidListMax = 1024;

// ---- outer rounds --------------------

// replica → every other replica of its stage: the encoded delta of a round (round v leads from
// version v to v + 1). In a sharded round the pieces of it that the receiver sums
// (localsgd/pieces.h).
struct Delta {
  int32_t stage = 0;
  int64_t round = 0;
  int64_t tokens = 0;  // covered by the message
  Digest digest;       // of payload
  Payload payload;
  int64_t plan_version = 0;
  NodeId sender = {};  // whose it is, where another passes it on; zero: of who sends this
  bool operator==(const Delta& o) const;
};
// replica → coordinator: I hold `sender`'s message of this round. Digest zero: it is no message. In
// a sharded round that is all that is said, and with cohorts what a node has made itself, in its
// speaker's name: the digest is the PartDigest of all pieces.
struct DeltaHeld {
  int32_t stage = 0;
  int64_t round = 0;
  NodeId sender;
  int64_t tokens = 0;
  Digest digest;
  bool operator==(const DeltaHeld&) const = default;
};
// coordinator → replicas, journalled before it is sent: the frozen set of the round, the only one
// there will ever be. In a sharded round the digests are those of the participants' sums.
struct RoundCommit {
  int32_t stage = 0;
  int64_t round = 0;
  std::vector<Participant> participants;  // ordered by node
  uint64_t shape = 0;                     // 0: not sharded
  Bytes table = {};  // a new codec table (compression/codec_table.h, packed); empty: none
  std::vector<int32_t> covered = {};  // rounds in each one's message; empty: one each
  // Sharded, in a stage with cohorts: of each one's message, as DeltaHeld says it. Else empty.
  std::vector<Digest> messages = {};
  bool operator==(const RoundCommit&) const = default;
};
// replica → coordinator: applied; the digest of its base parameters at version round + 1.
struct RoundApplied {
  int32_t stage = 0;
  int64_t round = 0;
  Digest base_digest;
  double transfer_s = 0;              // boundary → everything needed for the update was here
  double wait_s = 0;                  // of that, the device stood idle for it
  std::vector<NodeId> screened = {};  // whose delta was left out or drawn in (OuterRobust), ordered
  int64_t bytes_sent = 0;             // of this round's deltas and sums, as WireSize counts them
  int64_t bytes_received = 0;
  bool operator==(const RoundApplied&) const = default;
};
// replica → coordinator, at heartbeats while it stands idle for a round that is late by far: whose
// deltas (of a sharded round: pieces that it is to sum) it lacks, and if none whose sums. Both
// empty: the commit only.
struct RoundLate {
  int32_t stage = 0;
  int64_t round = 0;
  double waited_s = 0;  // since the boundary
  std::vector<NodeId> deltas_of;
  std::vector<NodeId> sums_of;
  bool operator==(const RoundLate&) const = default;
};

// replica → coordinator, every OuterConfig::budget_rounds: what each codec would take and lose for
// each tensor of its delta, [tensors, codecs].
struct DeltaStatistics {
  int32_t stage = 0;
  int64_t round = 0;
  std::vector<int64_t> bytes;
  std::vector<double> errors;  // as many
  bool operator==(const DeltaStatistics&) const = default;
};
inline constexpr size_t kTablePartsOnWireMax = 4096;
inline constexpr size_t kDeltaStatisticsMax = 8 * kTablePartsOnWireMax;

// ---- bulk state: export, data --------------------

// Asks for bytes [offset, offset + length) of a named object. coordinator → node: "base/STAGE" is
// the float32 base parameters of the stage at the end of the run, in ParameterLayout order. node →
// coordinator: "shard/FILE". joiner → replica: of the state that it keeps at a version,
// "table/STAGE/VERSION" is the digests of the chunks of "state/STAGE/VERSION", base and outer
// momentum; "moments/STAGE/VERSION" are those of its inner optimizer. A node of a plan that begins
// with a checkpoint asks the coordinator for "replica/STAGE", all of that in one; the answer names
// it "replica/STAGE/VERSION", and so do further requests.
struct ObjectRequest {
  std::string object;
  int64_t offset = 0;
  int64_t length = 0;  // ≤ kObjectChunkBytesMax
  bool operator==(const ObjectRequest&) const = default;
};
struct ObjectChunk {
  std::string object;
  int64_t offset = 0;
  int64_t total_bytes = 0;  // −1: the sender does not have it
  Payload values;
  bool operator==(const ObjectChunk& o) const;
};
inline constexpr int64_t kObjectChunkBytesMax = 1 << 20;

using MessageVariant =
    std::variant<Hello, Welcome, Refused, Peers, ProbeRequest, Ping, Pong, LinkReading, PlanUpdate,
                 Heartbeat, StepReport, Leave, Shutdown, Activation, Gradient, MicrobatchVoid,
                 Delta, DeltaHeld, RoundCommit, RoundApplied, ObjectRequest, ObjectChunk, HopLate,
                 Detour, VoidList, DeltaSum, SumsHeld, DeltaStatistics, RoundLate, Reachability,
                 CheckpointRequest, CheckpointState, StateRoot, StateRefuted, StepTrace, Standing,
                 Acquaint, SumCheck, SumShown, SumChecked, LeftOverSent, WorkCheck, WorkCopy,
                 WorkChecked, GroupValues, GroupSign, GroupTrial, GroupTried, BoundarySizes,
                 CohortBroken>;

template <typename T>
concept MessageKind = std::is_constructible_v<MessageVariant, T> &&
    !std::is_base_of_v<MessageVariant, std::remove_cvref_t<T>>;

// A type of its own, so that the code that copies and destroys forty kinds is compiled once and not
// wherever a message passes through: a fifth of what a compiler takes for such a file.
struct Message : MessageVariant {
  template <MessageKind Kind>
  Message(Kind&& kind) : MessageVariant(std::forward<Kind>(kind)) {}
  Message();
  Message(const Message&);
  Message(Message&&) noexcept;
  Message& operator=(const Message&);
  Message& operator=(Message&&) noexcept;
  ~Message();
  bool operator==(const Message&) const;
};

// A message on its way: whoever repeats it, or sends it to many, keeps no copy.
using SharedMessage = std::shared_ptr<const Message>;
inline SharedMessage Share(Message message) {
  return std::make_shared<const Message>(std::move(message));
}

// Payload plus a fair estimate of its fields: what a network model charges for it.
int64_t WireSize(const Message& message);
// "Activation step 3 microbatch 2 hop 1", for logs and traces.
std::string Describe(const Message& message);

// Whether a peer's new process needs it, too: work of the pipeline and of rounds. Everything else
// is said again by who said it.
bool OutlivesSession(const Message& message);

// Bulk travels behind control (Activation, Gradient, WorkCopy, Delta, DeltaSum, SumShown,
// GroupValues, ObjectChunk, padded Ping).
bool IsBulk(const Message& message);

}  // namespace skerry
