# Skerry's messages on the wire: the specification.
#
# What travels. One protocol frame is one ZeroMQ multi-part message over a CURVE connection:
#
#   part 0        an Envelope, as one Cap'n Proto message of one segment (unpacked, with its
#                 segment table), at most 1 MiB
#   part 1 … n    the payload, cut into parts of 1 MiB (the last may be shorter); no parts if the
#                 message has no payload
#
# (A ROUTER sees its routing id in front; that is ZeroMQ's, not ours.) Bulk bytes never travel
# inside the Cap'n Proto message: the envelope says how many there are and their BLAKE2b-256.
#
# Who speaks. Identities are Ed25519 public keys; a sender's key, converted to X25519, must be the
# CURVE key of the connection the frame came by, and `recipient` must be the receiver: so a frame
# can be neither forged nor carried to somebody else. `run` must be the receiver's run. A frame that
# breaks any rule of this file is dropped and counted, never answered.
#
# Versions. 1: all frames in one order, payloads whole, as above. 2: an order for each class of traffic
# (`lane`), bulk frames in chunks over connections of their own (wire/transport/link_message.h); there the
# digest of the whole frame travels with its last chunk and payloadDigest is zero. To whom it has not
# heard of a process speaks version 1; everybody understands all versions up to the one it `speaks`.
#
# Order. `senderIncarnation`, `receiverIncarnation`, `sequence` and `acknowledged` belong to the
# courier (wire/courier.h): exactly once and in order between two living processes. Sequence 0 is an
# acknowledgement alone: its message is `none`.
#
# Rules for values. Texts are UTF-8 and lists are short: the limits are in wire/codec/limits.h, and
# a receiver checks them before it allocates. Floats are finite. Enumerations beyond the last named
# value are refused. Units are in the names.
#
# Rules for change. Numbers (@n) are never reused, fields are never removed or renumbered, an unknown
# message is refused. What cannot be said that way is a new `version`. Golden frames of every version
# are kept in tests/wire/golden and must decode for ever.

@0xc1e5a7d3f0b28894;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("skerry::schema");

const protocolVersion :UInt16 = 2;  # the newest

# 32 opaque bytes as four little-endian words: a NodeId (Ed25519 public key), a RunId or a digest.
struct Id256 {
  w0 @0 :UInt64;
  w1 @1 :UInt64;
  w2 @2 :UInt64;
  w3 @3 :UInt64;
}

struct Envelope {
  version             @0 :UInt16;  # of this frame: the oldest that can say it
  run                 @1 :Id256;
  sender              @2 :Id256;
  recipient           @3 :Id256;
  senderIncarnation   @4 :UInt64;  # > 0, drawn at process start; with an epoch: wire/courier.h
  receiverIncarnation @5 :UInt64;  # as last seen by the sender; 0 not known yet
  sequence            @6 :UInt64;  # 1, 2, …; 0 an acknowledgement alone; of lanes of bulk one without a message is withdrawn
  acknowledged        @7 :UInt64;  # all sequences up to this one have arrived
  payloadBytes        @8 :UInt64;  # sum of the parts 1 … n
  payloadDigest       @9 :Id256;   # BLAKE2b-256 of the payload; zero if there is none

  union {  # the message
    none           @10 :Void;
    hello          @11 :Hello;
    welcome        @12 :Welcome;
    refused        @13 :Refused;
    peers          @14 :Peers;
    probeRequest   @15 :ProbeRequest;
    ping           @16 :Ping;
    pong           @17 :Pong;
    linkReading    @18 :LinkReading;
    planUpdate     @19 :Plan;
    heartbeat      @20 :Heartbeat;
    stepReport     @21 :StepReport;
    leave          @22 :Leave;
    shutdown       @23 :Shutdown;
    activation     @24 :Activation;
    gradient       @25 :Gradient;
    microbatchVoid @26 :MicrobatchVoid;
    delta          @27 :Delta;
    deltaHeld      @28 :DeltaHeld;
    roundCommit    @29 :RoundCommit;
    roundApplied   @30 :RoundApplied;
    objectRequest  @31 :ObjectRequest;
    objectChunk    @32 :ObjectChunk;
    hopLate        @33 :HopLate;
    detour         @34 :Detour;
    voidList       @35 :VoidList;
    deltaSum       @36 :DeltaSum;
    sumsHeld       @37 :SumsHeld;
    deltaStatistics @38 :DeltaStatistics;
    roundLate      @41 :RoundLate;
    reachability   @42 :Reachability;
    checkpointRequest @43 :CheckpointRequest;
    checkpointState @44 :CheckpointState;
    stateRoot       @45 :StateRoot;
    stateRefuted    @46 :StateRefuted;
    stepTrace       @47 :StepTrace;
    standing        @48 :Standing;
    acquaint        @49 :Acquaint;
    sumCheck        @50 :SumCheck;
    sumShown        @51 :SumShown;
    sumChecked      @52 :SumChecked;
    leftOverSent    @53 :LeftOverSent;
    workCheck       @54 :WorkCheck;
    workCopy        @55 :WorkCopy;
    workChecked     @56 :WorkChecked;
    groupValues     @57 :GroupValues;
    groupSign       @58 :GroupSign;
    groupTrial      @59 :GroupTrial;
    groupTried      @60 :GroupTried;
    boundarySizes @61 :BoundarySizes;
    cohortBroken  @62 :CohortBroken;
  }

  speaks              @39 :UInt16;  # newest version that the sender understands; 0 stands for 1
  lane                @40 :UInt8;   # class of traffic (version 2), 0 in version 1
}

# ---- joining -------------------------------------------------------------------------------------

# node → coordinator, the first message of every session (also after either side restarted).
struct Hello {
  ticket      @0 :Text;    # admits the node the first time
  endpoint    @1 :Text;    # where peers reach it: "tcp://127.0.0.1:40123"
  region      @2 :Text;    # shown to people; empty when unknown
  software    @3 :Text;    # version
  device      @4 :DeviceProfile;
  planVersion @5 :Int64;   # what the node still holds of this run; zero for a fresh process
  step        @6 :Int64;   # completed inner steps
  baseVersion @7 :Int64;   # completed outer rounds
  listens     @8 :List(Text);  # where else it may be reached
  relays      @9 :Bool;    # it forwards sealed frames of others
  process     @10 :UInt64; # random; another one: another process; zero: not said
}

struct DeviceProfile {
  name           @0 :Text;
  numericProfile @1 :Text;     # equal profiles compute equal bits
  gflops         @2 :Float64;  # measured, float32 matrix product of the training shapes
  memoryBytes    @3 :Int64;
  bf16Gflops     @4 :Float64;  # the same in bf16; 0: no instructions for it
  network        @5 :Text;     # kind of its fastest card: Ethernet, RoCE, InfiniBand; empty: not known
  hostBytes      @6 :Int64;    # memory besides, where memoryBytes is of devices with their own; 0: none
  spillBytes     @7 :Int64;    # of disk, for activations; 0: none
  spillRate      @8 :Float64;  # bytes/s of what is written there and read back, both ways counted
  spreads        @9 :Bool;     # its program knows plans that do
}

# coordinator → node: admitted.
struct Welcome {
  run    @0 :Id256;
  config @1 :RunConfig;
  shards @2 :List(ShardName);
  coordinators @3 :List(Text);  # where it and those that stand by for it listen
}

struct ShardName {
  file   @0 :Text;
  digest @1 :Id256;
  bytes  @2 :Int64;
}

# The rules between these values are those of run.toml (ValidateRunConfig in wire/config.h).
struct RunConfig {
  name        @0 :Text;
  seed        @1 :UInt64;
  steps       @2 :Int64;
  nodesMin    @3 :Int32;
  heartbeatS  @4 :Float64;
  nodeSilentS @5 :Float64;
  dataDir     @6 :Text;
  model       @7 :Transformer;
  inner       @8 :Inner;
  outer       @9 :Outer;
  pipeline    @10 :Paths;
  nodesMax    @11 :Int32 = 1024;
  replanS     @12 :Float64 = 60;
  checkpointEveryRounds @13 :Int64;  # 0: none
  checkpointKeep        @14 :Int32 = 2;
  checkpointLeastS      @16 :Int32;
  lostStage             @15 :UInt8;  # 0: from a checkpoint, 1: from its neighbours
  cluster     @17 :Cluster;

  struct Transformer {
    vocab       @0 :Int32;
    hidden      @1 :Int32;
    layers      @2 :Int32;
    heads       @3 :Int32;
    kvHeads     @4 :Int32;
    ffn         @5 :Int32;
    context     @6 :Int32;
    ropeBase    @7 :Float32;
    normEpsilon @8 :Float32;
    tiedHead    @9 :Bool;
    qkvBias     @10 :Bool;
    ropeScaling @11 :UInt8;     # 0 none, 1 linear, 2 LLaMA 3
    ropeFactor  @12 :Float32 = 1;
    ropeLowFrequency    @13 :Float32 = 1;
    ropeHighFrequency   @14 :Float32 = 4;
    ropeOriginalContext @15 :Int32;
    positions   @16 :Int32;     # that an imported model says it reaches; 0: context
    ladder      @17 :Int32;     # layers between whole streams; 0: none. Else `layers` is negative,
                                # which who does not know this field refuses
  }
  struct Inner {
    optimizer       @0 :UInt8;  # 0 AdamW, 1 SGD, 2 Muon
    learningRate    @1 :Float32;
    minLearningRate @2 :Float32;
    warmupSteps     @3 :Int64;
    beta1           @4 :Float32;
    beta2           @5 :Float32;
    epsilon         @6 :Float32;
    weightDecay     @7 :Float32;
    clipNorm        @8 :Float32;
    compute         @9 :UInt8;    # 0 float32, 1 bf16
    zLoss           @10 :Float32;
  }
  struct Outer {
    innerSteps   @0 :Int64;  # 0 the planner chooses
    overlapSteps @1 :Int64;  # −1 the planner chooses
    learningRate @2 :Float32;
    momentum     @3 :Float32;
    codec        @4 :UInt8;  # 0 none, 1 int8, 2 bf16, 3 int4, 4 sign, 5 ternary, 6 topk, 7 lowrank
    residual     @5 :UInt8;  # 0 buffer, 1 weights
    tier         @6 :UInt8;  # 0 custom: codec as said, 1 auto: the planner chooses it
    reduce       @7 :UInt8;  # 0 auto, 1 all-to-all, 2 sharded
    downCodec    @8 :UInt8;  # 0 auto: as codec, else 1 + one of its values
    mode         @9 :UInt8;  # 0 overlap, 1 synchronous, 2 co2, 3 streaming, 4 data parallel
    fragments    @10 :Int32 = 4;
    momentumClip @11 :Float32;
    gap          @12 :Float32;
    robust       @13 :UInt8;  # 0 none, 1 screen, 2 clip, 3 trim
    robustLimit  @14 :Float32 = 3;
    robustTrim   @15 :Float32 = 0.2;
    budget       @16 :UInt8;  # 0 one codec for all tensors, 1 bits, 2 error
    budgetBits   @17 :Float32 = 1;
    budgetRounds @18 :Int64 = 16;
    absences     @19 :Bool = true;
    sumChecks    @20 :Float32;  # sums of each reducer checked in a round, on average
  }
  struct Paths {
    stages                 @0 :Int32;
    skipRatio              @1 :Float64;
    swaps                  @2 :Int32;
    microbatchesPerStep    @3 :Int32;
    sequencesPerMicrobatch @4 :Int32;  # 0 the planner cuts sequencesPerStep
    inFlight               @5 :Int32;  # 0 the planner chooses
    sequencesPerStep       @6 :Int32;
    slowLinkCodec          @7 :UInt8;  # as Outer's codec: none, int8 or bf16
    detours                @8 :Bool = true;
    recompute              @9 :UInt8;  # auto, never, always
    workChecks             @10 :Float32;  # share of the visits that another replica repeats
    offload                @11 :UInt8;  # auto, never, always
    offloadActivations     @12 :UInt8;  # the same
  }
  struct Cluster {
    groups  @0 :Text;     # off, measured, or who; empty: off
    rateMin @1 :Float32;  # Mbit/s
    rttMax  @2 :Float32;  # ms
    overlapSteps @3 :UInt8;
  }
}

# coordinator → node: not admitted, or no longer wanted.
struct Refused {
  reason @0 :Text;
  waits  @1 :Bool;  # not yet: the operator has to decide
}

# coordinator → node: who is here; first all whom the node is to know, then changes.
struct Peers {
  peers    @0 :List(Peer);
  complete  @1 :Bool;   # who is not named is not here, or (`partial`) not known to be
  partsLeft @3 :Int32;  # of the complete list
  gone      @2 :List(Id256);
  partial   @4 :Bool;   # others are here too; who is needed can be asked for (Acquaint)
}
struct Peer {
  id       @0 :Id256;
  endpoint @1 :Text;  # empty: reachable only by its own dialling
  region   @2 :Text;
  relays   @3 :Bool;  # forwards sealed frames of pairs that cannot reach each other
}

# node → coordinator: it has something for these, and was not told of them. Answered by Peers.
struct Acquaint {
  nodes @0 :List(Id256);
}

# coordinator → node: what dialling it showed.
struct Reachability {
  node  @0 :Id256;
  seen  @1 :Text;  # the address that its connection comes from
  tried @2 :List(ReachTry);  # best first
}
struct ReachTry {
  endpoint @0 :Text;
  answered @1 :Bool;
}

# ---- measuring links -----------------------------------------------------------------------------

# coordinator → node: measure the way to `target` now.
struct ProbeRequest {
  target @0 :Id256;
  bytes  @1 :Int64;  # size of the bulk reading
  isTransfer @2 :Bool;  # so many bytes at once, and the rate that they pass at
}
# node → node and back. The payload is padding.
struct Ping {
  nonce @0 :UInt64;
}
struct Pong {
  nonce @0 :UInt64;
}
# node → coordinator: one directed reading.
struct LinkReading {
  target    @0 :Id256;
  rttS      @1 :Float64;
  bytesPerS @2 :Float64;
  isTransfer @3 :Bool;  # of one that was asked for; nodes of before do not say it
}

# ---- plan and life of the run --------------------------------------------------------------------

struct Plan {
  version             @0 :Int64;
  microbatchesPerStep @1 :Int32;
  stages              @2 :List(StageAssignment);
  paths               @3 :List(Path);
  dead                @4 :List(Id256);
  joining             @5 :List(Joiner);
  settings            @6 :Settings;
  slowLinks           @7 :List(SlowLink);  # sorted
  absent              @8 :List(Absence);   # sorted
  start               @9 :PlanStart;
}
# The round is frozen without the delta of a live replica.
struct Absence {
  stage @0 :Int32;
  round @1 :Int64;
  node  @2 :Id256;
}
# With a checkpoint, in place of step 0. What was sent under a plan older than `since` is void.
struct PlanStart {
  since @0 :Int64;  # version of the plan that set it; 0: none
  round @1 :Int64;
  step  @2 :Int64;
}
# What the configuration left to the planner; at the default, it did not.
struct Settings {
  innerSteps             @0 :Int64;
  overlapSteps           @1 :Int64 = -1;
  hasCodec               @2 :Bool;
  codec                  @3 :UInt8;
  sequencesPerMicrobatch @4 :Int32;
  inFlight               @5 :Int32;
  spreads                @6 :Bool;  # visits of the dead go to all others of a stage in turn, not to the next
  # What the planner expects, in whole seconds: before nodes have seen any they know what is late. 0: unknown.
  roundS                 @7 :Int32;  # a round, from its boundary until all is here
  stepS                  @8 :UInt16;
}
# Activations and gradients travel over it as the run's slowLinkCodec.
struct SlowLink {
  from @0 :Id256;
  to   @1 :Id256;
}
# A node that fills a slot and is given the state of its stage first.
struct Joiner {
  node        @0 :Id256;
  since       @1 :Int64;  # version of the plan that named it
  baseVersion @2 :Int64;  # rounds of its stage committed then
  fromStep    @3 :Int64;  # its first step; −1 not fixed yet
  fromRound   @4 :Int64;
}
struct StageAssignment {
  firstLayer @0 :Int32;
  lastLayer  @1 :Int32;  # not included
  replicas   @2 :List(Id256);
  shares     @3 :List(Int32);  # of sharded rounds, by slot; empty: equal
  remade     @4 :List(Int32);  # layers made from their neighbours, one entry each time
  cohorts    @5 :List(Int32);  # by slot; those of one number sum gradients every step; empty: each alone
}
struct Path {
  slots @0 :List(Slot);
}
struct Slot {
  stage   @0 :Int32;
  replica @1 :Int32;
}

# node → coordinator, every RunConfig.heartbeatS.
struct Heartbeat {
  phase          @0 :UInt8;  # in the order of enum Phase in wire/message/message.h
  step           @1 :Int64;
  baseVersion    @2 :Int64;
  tokens         @3 :Int64;
  bytesSent      @4 :Int64;
  bytesReceived  @5 :Int64;
  busyS          @6 :Float64;
  roundWaitS     @7 :Float64;
  roundTransferS @8 :Float64;
  waitingFor     @9 :Text;
  memoryBytes    @10 :Int64;  # the most its stage has held; 0 not measured
  backwardS      @11 :Float64;  # device time in `backwards` whole passes
  backwards      @12 :Int64;
}

# stage-0 node → coordinator: its microbatches of a step are done.
struct StepReport {
  step   @0 :Int64;
  losses @1 :List(MicrobatchLoss);
}
struct MicrobatchLoss {
  microbatch @0 :Int32;
  tokens     @1 :Int32;
  loss       @2 :Float32;  # mean over its tokens, nat
}

struct Leave {
  reason @0 :Text;
}
struct Shutdown {
  reason @0 :Text;
}

# ---- pipeline: node → node -----------------------------------------------------------------------

# Payload: float32 [sequences, context, hidden], little-endian; encoded if codec says so.
struct Activation {
  step        @0 :Int64;
  microbatch  @1 :Int32;
  attempt     @2 :Int32;
  hop         @3 :Int32;
  planVersion @4 :Int64;
  path        @5 :Path;
  codec       @6 :UInt8;  # as RunConfig.Outer's
}
# Payload: as Activation's.
struct Gradient {
  step        @0 :Int64;
  microbatch  @1 :Int32;
  attempt     @2 :Int32;
  hop         @3 :Int32;
  planVersion @4 :Int64;
  codec       @5 :UInt8;
}
struct MicrobatchVoid {
  step        @0 :Int64;
  microbatch  @1 :Int32;
  attempt     @2 :Int32;
  planVersion @3 :Int64;
}

# node of a path → its stage-0 node: the node after it is later than ever before.
struct HopLate {
  step       @0 :Int64;
  microbatch @1 :Int32;
  attempt    @2 :Int32;
  hop        @3 :Int32;  # of the sender
}
# stage-0 node → coordinator: a microbatch was led around a late node.
struct Detour {
  step       @0 :Int64;
  microbatch @1 :Int32;
  around     @2 :Id256;
  waitedS    @3 :Float64;
  skipped    @4 :Bool;  # no replica stood in: the stage was left out
  planVersion @5 :Int64;
}

# stage-0 node → node, and the same → coordinator, which passes it on: none of these will come.
struct VoidList {
  struct Microbatch {
    step       @0 :Int64;
    microbatch @1 :Int32;
  }
  to           @0 :Id256;
  microbatches @1 :List(Microbatch);
  planVersion  @2 :Int64;
}

# coordinator → checker and the nodes before and after `suspect` on the path of a microbatch.
struct WorkCheck {
  step       @0 :Int64;
  microbatch @1 :Int32;
  suspect    @2 :Id256;
  checker    @3 :Id256;
  before     @4 :Id256;
  after      @5 :Id256;
}
# node before or after → checker. Payload: as Activation's.
struct WorkCopy {
  step       @0 :Int64;
  microbatch @1 :Int32;
  attempt    @2 :Int32;
  suspect    @3 :Id256;
  part       @4 :UInt8;  # 0 input, 1 output, 2 gradient of the output, 3 of the input
  codec      @5 :UInt8;
}
# checker → coordinator: distance, as a share of what its own layers add.
struct WorkChecked {
  step       @0 :Int64;
  microbatch @1 :Int32;
  suspect    @2 :Id256;
  forward    @3 :Float32;
  backward   @4 :Float32;
}
# node → coordinator: how large activations and gradients of eight steps were.
struct BoundarySizes {
  struct Side {
    other      @0 :Id256;
    isGradient @1 :Bool;
    wasSent    @2 :Bool;   # to `other`; or it came from there
    count      @3 :Int32;
    log2Rms    @4 :Float32;  # mean of log2 of the root mean square
  }
  firstStep @0 :Int64;  # a multiple of 8
  sides     @1 :List(Side);
}

# ---- outer rounds --------------------------------------------------------------------------------

# Payload: the encoded delta.
struct Delta {
  stage  @0 :Int32;
  round  @1 :Int64;
  tokens @2 :Int64;
  digest @3 :Id256;  # of the payload, as the training code saw it
  planVersion @4 :Int64;
  sender @5 :Id256;  # whose it is, passed on to a member of a cohort; zero: of who sends this
}
struct DeltaHeld {
  stage  @0 :Int32;
  round  @1 :Int64;
  sender @2 :Id256;
  tokens @3 :Int64;
  digest @4 :Id256;
}
struct RoundCommit {
  stage        @0 :Int32;
  round        @1 :Int64;
  participants @2 :List(Participant);  # ordered by node
  shape        @3 :UInt64;             # of a sharded round; 0: not sharded
  table        @4 :Data;               # a new codec table for later rounds; empty: the same
  covered      @5 :List(Int32);        # rounds in each participant's message; empty: one each
  messages     @6 :List(Id256);        # sharded, with cohorts: of each participant's pieces
}
# Payload: the encoded sum of the sender's pieces.
struct DeltaSum {
  stage  @0 :Int32;
  round  @1 :Int64;
  shape  @2 :UInt64;
  tokens @3 :Int64;
  digest @4 :Id256;
  planVersion @5 :Int64;
  sender @6 :Id256;  # whose it is, passed on to a member of a cohort; zero: of who sends this
}
struct SumsHeld {
  stage @0 :Int32;
  round @1 :Int64;
  shape @2 :UInt64;
  sums  @3 :List(Participant);  # ordered by node
  # Of a participant, where sums are checked: what it sent each reducer, what it summed, what it has
  # left over.
  sent   @4 :List(Participant);
  summed @5 :List(Participant);
  states @6 :List(PieceState);
  signature @7 :Data;  # Ed25519 of what it states (wire/message/sum_message.h); empty: unsigned
}
struct PieceState {
  piece  @0 :Int32;
  before @1 :Id256;  # zero: nothing yet
  after  @2 :Id256;
}
# coordinator → reducer and checker: the one shows the other how it came to these sums.
struct SumCheck {
  stage   @0 :Int32;
  round   @1 :Int64;
  shape   @2 :UInt64;
  reducer @3 :Id256;
  checker @4 :Id256;
  drawn   @5 :List(Int32);
  sum     @6 :Id256;
  summed  @7 :List(Participant);
  covered @8 :List(Int32);
  states  @9 :List(PieceState);
}
# Payload: the proof; none: it cannot be shown.
struct SumShown {
  stage @0 :Int32;
  round @1 :Int64;
}
struct SumChecked {
  stage   @0 :Int32;
  round   @1 :Int64;
  reducer @2 :Id256;
  verdict @3 :UInt8;  # 0 true, 1 false, 2 not shown
}
# replica → coordinator: it hands on what it has left over of these pieces.
struct LeftOverSent {
  stage  @0 :Int32;
  round  @1 :Int64;
  to     @2 :Id256;
  pieces @3 :List(Int32);
}
struct Participant {
  node   @0 :Id256;
  tokens @1 :Int64;
  digest @2 :Id256;
}
struct RoundApplied {
  stage      @0 :Int32;
  round      @1 :Int64;
  baseDigest @2 :Id256;
  transferS  @3 :Float64;
  waitS      @4 :Float64;
  screened   @5 :List(Id256);  # whose delta was left out or drawn in
  bytesSent     @6 :Int64;  # of this round's deltas and sums
  bytesReceived @7 :Int64;
}
# replica → coordinator: it stands idle for a round that is late by far.
struct RoundLate {
  stage    @0 :Int32;
  round    @1 :Int64;
  waitedS  @2 :Float64;
  deltasOf @3 :List(Id256);  # what it lacks: their deltas or pieces,
  sumsOf   @4 :List(Id256);  # or their sums
}
# replica → coordinator: what each codec would take and lose for each tensor of its delta.
struct DeltaStatistics {
  stage  @0 :Int32;
  round  @1 :Int64;
  bytes  @2 :List(Int64);    # [tensors, codecs]
  errors @3 :List(Float64);
}

# ---- bulk state ----------------------------------------------------------------------------------

struct ObjectRequest {
  object @0 :Text;
  offset @1 :Int64;
  length @2 :Int64;
}
# Payload: the bytes.
struct ObjectChunk {
  object     @0 :Text;
  offset     @1 :Int64;
  totalBytes @2 :Int64;  # −1: the sender does not have it
}

# ---- checkpoints ---------------------------------------------------------------------------------

# coordinator → replica: keep the stage's state of base version `round`, or at once.
struct CheckpointRequest {
  stage  @0 :Int32;
  round  @1 :Int64;
  atOnce @2 :Bool;  # of whatever version the base is now; `round` is 0
}
# replica → coordinator: it is kept; its chunks of 4 MiB.
struct CheckpointState {
  stage  @0 :Int32;
  round  @1 :Int64;
  bytes  @2 :Int64;  # −1: that version is past
  chunks @3 :List(Id256);
}

# ---- joining a stage in training -----------------------------------------------------------------

# replica → coordinator and joiner: it keeps the state of base version `round`; coordinator →
# joiner: the root that the replicas agree on.
struct StateRoot {
  stage      @0 :Int32;
  round      @1 :Int64;
  root       @2 :Id256;  # digest of the chunks' digests; zero: it does not have that version
  innerSteps @3 :Int64;
}
# joiner → coordinator: what `donor` gave is not of that root.
struct StateRefuted {
  stage  @0 :Int32;
  round  @1 :Int64;
  donor  @2 :Id256;
  chunk  @3 :Int64;  # −1: the list of chunks
  digest @4 :Id256;
}

# ---- seeing --------------------------------------------------------------------------------------

# node → coordinator: when its device did what in a step. Nothing is decided by it.
struct StepTrace {
  step        @0 :Int64;
  planVersion @1 :Int64;
  beganUs     @2 :Int64;       # by the node's clock; the rest in microseconds since
  tasks       @3 :List(Task);  # at most 512

  struct Task {
    kind       @0 :UInt8;      # start, forward, loss, backward, optimizer
    microbatch @1 :Int32;
    attempt    @2 :Int32;
    hop        @3 :Int32;
    readyUs    @4 :Int64;      # its input was here
    startUs    @5 :Int64;
    endUs      @6 :Int64;
  }
}
# coordinator → node: how it stands among the others.
struct Standing {
  tokens      @0 :Int64;
  tokensOfAll @1 :Int64;
  rank        @2 :Int32;
  nodes       @3 :Int32;
  rounds      @4 :Int64;
  step        @5 :Int64;
  stepS       @6 :Float64;
}

# ---- groups --------------------------------------------------------------------------------------

# member → member: a piece of what an operation brings to the receiver. Payload: float32.
struct GroupValues {
  group     @0 :UInt64;  # one formation of it
  operation @1 :Int64;   # counted in that group
  step      @2 :Int32;   # of the operation, as the receiver counts what comes
  piece     @3 :Int64;   # of that step
}
# member → every other member, once a second and when there is news.
struct GroupSign {
  group @0 :UInt64;
  sent  @1 :Int64;  # pieces, to the receiver of this
  taken @2 :Int64;  # pieces of the receiver's that are used
  ended @3 :Bool;
  why   @4 :Text;   # it ended
}
# whoever measures a ring → every member: be one, and do the operation so many times in a row.
struct GroupTrial {
  group     @0 :UInt64;
  members   @1 :List(Id256);  # by rank, at most 256
  operation @2 :UInt8;        # 0 all-reduce, 1 reduce-scatter, 2 all-gather, 3 broadcast
  values    @3 :Int64;
  times     @4 :Int32;
}
# member → whoever measures.
struct GroupTried {
  group  @0 :UInt64;
  digest @1 :Id256;  # of what it holds then; zero: it failed
  failed @2 :Text;   # why
}
# member of a cohort → coordinator, at every heartbeat until a plan changes the cohort: its group has
# ended, and who that is about.
struct CohortBroken {
  stage @0 :Int32;
  group @1 :UInt64;
  about @2 :Id256;
  why   @3 :Text;
}
