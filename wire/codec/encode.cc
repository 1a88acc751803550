#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <exception>
#include <type_traits>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "wire/codec/codec.h"
#include "wire/codec/group_fields.h"
#include "wire/codec/id_words.h"
#include "wire/codec/insight_fields.h"
#include "wire/codec/limits.h"
#include "wire/codec/pass_fields.h"
#include "wire/codec/sum_fields.h"
#include "wire/codec/write_checks.h"
#include "wire/codec/write_config.h"
#include "wire/codec/write_fields.h"
#include "wire/codec/write_plan.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {
namespace {

// Writes one message into its builder and remembers the first thing that no receiver would take.
class Writer : public WriteChecks {
 public:
  explicit Writer(schema::Envelope::Builder envelope) : envelope_(envelope) {}
  const Payload& payload() const { return payload_; }

  void operator()(const Hello& m) {
    auto b = envelope_.initHello();
    b.setTicket(Text(m.ticket, "ticket"));
    b.setEndpoint(Text(m.endpoint, "endpoint"));
    b.setRegion(Text(m.region, "region"));
    b.setSoftware(Text(m.software, "software"));
    WriteDevice(*this, m.device, b.initDevice());
    b.setPlanVersion(m.plan_version);
    b.setStep(m.step);
    b.setBaseVersion(m.base_version);
    auto listens = b.initListens(Count(m.listens, kListensMax, "listens"));
    for (unsigned i = 0; i < listens.size(); ++i) listens.set(i, Text(m.listens[i], "endpoint"));
    b.setRelays(m.relays);
    b.setProcess(m.process);
  }
  void operator()(const Reachability& m) {
    auto b = envelope_.initReachability();
    WriteId(m.node, b.initNode());
    b.setSeen(Text(m.seen, "address"));
    auto tried = b.initTried(Count(m.tried, kReachTriesMax, "tries"));
    for (unsigned i = 0; i < tried.size(); ++i) {
      tried[i].setEndpoint(Text(m.tried[i].endpoint, "endpoint"));
      tried[i].setAnswered(m.tried[i].answered);
    }
  }
  void operator()(const Welcome& m) {
    auto b = envelope_.initWelcome();
    WriteId(m.run, b.initRun());
    WriteConfig(*this, m.config, b.initConfig());
    auto shards = b.initShards(Count(m.shards, limits::kShardsMax, "shards"));
    for (unsigned i = 0; i < shards.size(); ++i) {
      shards[i].setFile(Text(m.shards[i].file, "shard file"));
      WriteId(m.shards[i].digest, shards[i].initDigest());
      shards[i].setBytes(m.shards[i].bytes);
    }
    if (m.coordinators.empty()) return;
    auto there = b.initCoordinators(Count(m.coordinators, kCoordinatorsMax, "coordinators"));
    for (unsigned i = 0; i < there.size(); ++i) there.set(i, Text(m.coordinators[i], "endpoint"));
  }
  void operator()(const Refused& m) { WriteRefused(m, envelope_.initRefused(), *this); }
  void operator()(const Peers& m) {
    auto b = envelope_.initPeers();
    b.setComplete(m.complete);
    b.setPartsLeft(m.parts_left);
    b.setPartial(m.partial);
    auto gone = b.initGone(Count(m.gone, limits::kPeersMax, "peers gone"));
    for (unsigned i = 0; i < gone.size(); ++i) WriteId(m.gone[i], gone[i]);
    auto peers = b.initPeers(Count(m.peers, limits::kPeersMax, "peers"));
    for (unsigned i = 0; i < peers.size(); ++i) {
      WriteId(m.peers[i].id, peers[i].initId());
      peers[i].setEndpoint(Text(m.peers[i].endpoint, "endpoint"));
      peers[i].setRegion(Text(m.peers[i].region, "region"));
      peers[i].setRelays(m.peers[i].relays);
    }
  }
  void operator()(const Acquaint& m) {
    auto nodes = envelope_.initAcquaint().initNodes(Count(m.nodes, kAcquaintMax, "nodes sought"));
    for (unsigned i = 0; i < nodes.size(); ++i) WriteId(m.nodes[i], nodes[i]);
  }
  void operator()(const ProbeRequest& m) {
    auto b = envelope_.initProbeRequest();
    WriteId(m.target, b.initTarget());
    b.setBytes(m.bytes);
    b.setIsTransfer(m.is_transfer);
  }
  void operator()(const Ping& m) {
    envelope_.initPing().setNonce(m.nonce);
    constexpr uint8_t kPadding = 0x5a;
    const auto bytes = static_cast<size_t>(std::max<int64_t>(m.padding_bytes, 0));
    Require(bytes <= limits::kPayloadBytesMax, "padding");
    if (bytes > 0 && status().ok()) payload_ = MakePayload(Bytes(bytes, kPadding));
  }
  void operator()(const Pong& m) { envelope_.initPong().setNonce(m.nonce); }
  void operator()(const LinkReading& m) {
    auto b = envelope_.initLinkReading();
    WriteId(m.target, b.initTarget());
    b.setRttS(Finite(m.rtt_s, "rtt_s"));
    b.setBytesPerS(Finite(m.bytes_per_s, "bytes_per_s"));
    b.setIsTransfer(m.is_transfer);
  }
  void operator()(const PlanUpdate& m) {
    const PipelinePlan& plan = m.plan;
    auto b = envelope_.initPlanUpdate();
    b.setVersion(plan.version);
    b.setMicrobatchesPerStep(plan.microbatches_per_step);
    auto stages = b.initStages(Count(plan.stages, limits::kStagesMax, "stages"));
    size_t slots_in_plan = 0;
    for (unsigned i = 0; i < stages.size(); ++i) {
      WriteStage(*this, plan.stages[i], stages[i]);
      slots_in_plan += plan.stages[i].replicas.size();
    }
    auto paths = b.initPaths(Count(plan.paths, limits::kPathsMax, "paths"));
    for (unsigned i = 0; i < paths.size(); ++i) {
      WritePath(plan.paths[i], paths[i]);
      slots_in_plan += plan.paths[i].size();
    }
    Require(slots_in_plan <= limits::kPlanSlotsMax, "slots of the plan");
    WriteIds(plan.dead, b.initDead(Count(plan.dead, limits::kDeadMax, "dead nodes")));
    auto joining = b.initJoining(Count(plan.joining, limits::kJoiningMax, "joiners"));
    for (unsigned i = 0; i < joining.size(); ++i) {
      const Joiner& joiner = plan.joining[i];
      WriteId(joiner.node, joining[i].initNode());
      joining[i].setSince(joiner.since);
      joining[i].setBaseVersion(joiner.base_version);
      joining[i].setFromStep(joiner.from_step);
      joining[i].setFromRound(joiner.from_round);
    }
    WriteSettings(plan.settings, b.initSettings());
    auto links = b.initSlowLinks(Count(plan.slow_links, limits::kSlowLinksMax, "slow links"));
    for (unsigned i = 0; i < links.size(); ++i) {
      WriteId(plan.slow_links[i].from, links[i].initFrom());
      WriteId(plan.slow_links[i].to, links[i].initTo());
    }
    if (plan.start.since > 0) {
      auto start = b.initStart();
      start.setSince(plan.start.since);
      start.setRound(plan.start.round);
      start.setStep(plan.start.step);
    }
    if (plan.absent.empty()) return;
    auto absent = b.initAbsent(Count(plan.absent, limits::kAbsentMax, "absences"));
    for (unsigned i = 0; i < absent.size(); ++i) {
      absent[i].setStage(plan.absent[i].stage);
      absent[i].setRound(plan.absent[i].round);
      WriteId(plan.absent[i].node, absent[i].initNode());
    }
  }
  void operator()(const Heartbeat& m) {
    auto b = envelope_.initHeartbeat();
    b.setPhase(static_cast<uint8_t>(m.phase));
    b.setStep(m.step);
    b.setBaseVersion(m.base_version);
    b.setTokens(m.tokens);
    b.setBytesSent(m.bytes_sent);
    b.setBytesReceived(m.bytes_received);
    b.setBusyS(Finite(m.busy_s, "busy_s"));
    b.setRoundWaitS(Finite(m.round_wait_s, "round_wait_s"));
    b.setRoundTransferS(Finite(m.round_transfer_s, "round_transfer_s"));
    b.setWaitingFor(Text(m.waiting_for, "waiting_for"));
    b.setMemoryBytes(m.memory_bytes);
    b.setBackwardS(Finite(m.backward_s, "backward_s"));
    b.setBackwards(m.backwards);
  }
  void operator()(const StepReport& m) {
    auto b = envelope_.initStepReport();
    b.setStep(m.step);
    auto losses = b.initLosses(Count(m.losses, limits::kLossesMax, "losses"));
    for (unsigned i = 0; i < losses.size(); ++i) {
      losses[i].setMicrobatch(m.losses[i].microbatch);
      losses[i].setTokens(m.losses[i].tokens);
      losses[i].setLoss(Finite(m.losses[i].loss, "loss"));
    }
  }
  void operator()(const Leave& m) { envelope_.initLeave().setReason(Text(m.reason, "reason")); }
  void operator()(const Shutdown& m) {
    envelope_.initShutdown().setReason(Text(m.reason, "reason"));
  }
  void operator()(const Activation& m) {
    auto b = envelope_.initActivation();
    WriteMicrobatch(m, b);
    b.setHop(m.hop);
    b.setPlanVersion(m.plan_version);
    WritePath(m.path, b.initPath());
    b.setCodec(static_cast<uint8_t>(m.codec));
    payload_ = m.values;
  }
  void operator()(const Gradient& m) {
    auto b = envelope_.initGradient();
    WriteMicrobatch(m, b);
    b.setHop(m.hop);
    b.setPlanVersion(m.plan_version);
    b.setCodec(static_cast<uint8_t>(m.codec));
    payload_ = m.values;
  }
  void operator()(const HopLate& m) {
    auto b = envelope_.initHopLate();
    WriteMicrobatch(m, b);
    b.setHop(m.hop);
  }
  void operator()(const Detour& m) { WritePass(*this, m, envelope_.initDetour()); }
  void operator()(const VoidList& m) { WritePass(*this, m, envelope_.initVoidList()); }
  void operator()(const MicrobatchVoid& m) {
    auto b = envelope_.initMicrobatchVoid();
    WriteMicrobatch(m, b);
    b.setPlanVersion(m.plan_version);
  }
  void operator()(const Delta& m) {
    auto b = envelope_.initDelta();
    WriteRound(m, b);
    b.setTokens(m.tokens);
    WriteId(m.digest, b.initDigest());
    b.setPlanVersion(m.plan_version);
    if (!m.sender.IsZero()) WriteId(m.sender, b.initSender());
    payload_ = m.payload;
  }
  void operator()(const DeltaHeld& m) {
    auto b = envelope_.initDeltaHeld();
    WriteRound(m, b);
    WriteId(m.sender, b.initSender());
    b.setTokens(m.tokens);
    WriteId(m.digest, b.initDigest());
  }
  void operator()(const RoundCommit& m) { WriteSum(*this, m, envelope_.initRoundCommit()); }
  void operator()(const DeltaSum& m) {
    auto b = envelope_.initDeltaSum();
    WriteRound(m, b);
    b.setShape(m.shape);
    b.setTokens(m.tokens);
    WriteId(m.digest, b.initDigest());
    b.setPlanVersion(m.plan_version);
    if (!m.sender.IsZero()) WriteId(m.sender, b.initSender());
    payload_ = m.payload;
  }
  void operator()(const RoundLate& m) {
    auto b = envelope_.initRoundLate();
    WriteRound(m, b);
    b.setWaitedS(Finite(m.waited_s, "waited_s"));
    const size_t most = limits::kParticipantsMax;
    WriteIds(m.deltas_of, b.initDeltasOf(Count(m.deltas_of, most, "late deltas")));
    WriteIds(m.sums_of, b.initSumsOf(Count(m.sums_of, most, "late sums")));
  }
  void operator()(const WorkCheck& m) { WritePass(*this, m, envelope_.initWorkCheck()); }
  void operator()(const WorkChecked& m) { WritePass(*this, m, envelope_.initWorkChecked()); }
  void operator()(const BoundarySizes& m) { WritePass(*this, m, envelope_.initBoundarySizes()); }
  void operator()(const WorkCopy& m) {
    WritePass(*this, m, envelope_.initWorkCopy());
    payload_ = m.values;
  }
  void operator()(const SumsHeld& m) { WriteSum(*this, m, envelope_.initSumsHeld()); }
  void operator()(const SumCheck& m) { WriteSum(*this, m, envelope_.initSumCheck()); }
  void operator()(const SumChecked& m) { WriteSum(*this, m, envelope_.initSumChecked()); }
  void operator()(const LeftOverSent& m) { WriteSum(*this, m, envelope_.initLeftOverSent()); }
  void operator()(const SumShown& m) {
    auto b = envelope_.initSumShown();
    WriteRound(m, b);
    payload_ = m.payload;
  }
  void operator()(const RoundApplied& m) {
    auto b = envelope_.initRoundApplied();
    WriteRound(m, b);
    WriteId(m.base_digest, b.initBaseDigest());
    b.setTransferS(Finite(m.transfer_s, "transfer_s"));
    b.setWaitS(Finite(m.wait_s, "wait_s"));
    b.setBytesSent(m.bytes_sent);
    b.setBytesReceived(m.bytes_received);
    WriteIds(m.screened, b.initScreened(Count(m.screened, limits::kParticipantsMax, "screened")));
  }
  void operator()(const DeltaStatistics& m) {
    auto b = envelope_.initDeltaStatistics();
    WriteRound(m, b);
    Require(m.bytes.size() == m.errors.size(), "statistics");
    const unsigned count = Count(m.bytes, kDeltaStatisticsMax, "statistics");
    auto bytes = b.initBytes(count);
    auto errors = b.initErrors(count);
    for (unsigned i = 0; i < count; ++i) {
      bytes.set(i, m.bytes[i]);
      errors.set(i, Finite(m.errors[i], "error"));
    }
  }
  void operator()(const CheckpointRequest& m) {
    auto b = envelope_.initCheckpointRequest();
    WriteRound(m, b);
    b.setAtOnce(m.at_once);
  }
  void operator()(const CheckpointState& m) {
    auto b = envelope_.initCheckpointState();
    WriteRound(m, b);
    b.setBytes(m.bytes);
    auto chunks = b.initChunks(Count(m.chunks, kCheckpointChunksMax, "chunks"));
    for (unsigned i = 0; i < chunks.size(); ++i) WriteId(m.chunks[i], chunks[i]);
  }
  void operator()(const StateRoot& m) {
    auto b = envelope_.initStateRoot();
    WriteRound(m, b);
    WriteId(m.root, b.initRoot());
    b.setInnerSteps(m.inner_steps);
  }
  void operator()(const StateRefuted& m) {
    auto b = envelope_.initStateRefuted();
    WriteRound(m, b);
    WriteId(m.donor, b.initDonor());
    b.setChunk(m.chunk);
    WriteId(m.digest, b.initDigest());
  }
  void operator()(const ObjectRequest& m) {
    auto b = envelope_.initObjectRequest();
    b.setObject(Text(m.object, "object"));
    b.setOffset(m.offset);
    b.setLength(m.length);
  }
  void operator()(const ObjectChunk& m) {
    auto b = envelope_.initObjectChunk();
    b.setObject(Text(m.object, "object"));
    b.setOffset(m.offset);
    b.setTotalBytes(m.total_bytes);
    payload_ = m.values;
  }
  void operator()(const GroupValues& m) {
    WriteGroup(*this, m, envelope_.initGroupValues());
    payload_ = m.values;
  }
  void operator()(const GroupSign& m) { WriteGroup(*this, m, envelope_.initGroupSign()); }
  void operator()(const GroupTrial& m) { WriteGroup(*this, m, envelope_.initGroupTrial()); }
  void operator()(const GroupTried& m) { WriteGroup(*this, m, envelope_.initGroupTried()); }
  void operator()(const CohortBroken& m) { WriteGroup(*this, m, envelope_.initCohortBroken()); }
  void operator()(const StepTrace& m) { WriteInsight(*this, m, envelope_.initStepTrace()); }
  void operator()(const Standing& m) { WriteInsight(*this, m, envelope_.initStanding()); }

 private:
  void WritePath(const Path& path, schema::Path::Builder b) {
    auto slots = b.initSlots(Count(path, limits::kPathSlotsMax, "slots of a path"));
    for (unsigned i = 0; i < slots.size(); ++i) {
      slots[i].setStage(path[i].stage);
      slots[i].setReplica(path[i].replica);
    }
  }

  schema::Envelope::Builder envelope_;
  Payload payload_;
};

}  // namespace

absl::StatusOr<EncodedFrame> Encode(const Frame& frame, const NodeId& sender,
                                    const NodeId& recipient, DigestPlace digest) {
  SKERRY_CHECK(frame.message == nullptr || frame.header.sequence != 0,
               "sequence 0 is an acknowledgement alone");
  try {
    capnp::MallocMessageBuilder builder;
    auto envelope = builder.initRoot<schema::Envelope>();
    const bool is_old = frame.header.lane == 0 && digest == DigestPlace::kEnvelope;
    envelope.setVersion(is_old ? 1 : kFormatWithLanes);
    WriteHeader(frame.header, envelope);
    WriteId(sender, envelope.initSender());
    WriteId(recipient, envelope.initRecipient());
    Writer writer(envelope);
    if (frame.message) std::visit([&](const auto& m) { writer(m); }, *frame.message);
    const size_t payload_bytes = View(writer.payload()).size();
    writer.Require(payload_bytes <= limits::kPayloadBytesMax, "payload");
    envelope.setPayloadBytes(payload_bytes);
    if (payload_bytes > 0 && digest == DigestPlace::kEnvelope)
      WriteId(DigestOf(View(writer.payload())), envelope.initPayloadDigest());
    const size_t envelope_bytes = capnp::computeSerializedSizeInWords(builder) * 8;
    writer.Require(envelope_bytes <= limits::kEnvelopeBytesMax, "envelope");
    if (!writer.status().ok()) {
      return Annotate(writer.status(),
                      "cannot send " + (frame.message ? Describe(*frame.message) : "ack"));
    }
    const auto words = capnp::messageToFlatArray(builder);
    const auto b = words.asBytes();
    return EncodedFrame{{b.begin(), b.end()}, payload_bytes > 0 ? writer.payload() : nullptr};
  } catch (const kj::Exception& e) {
    return Internal("encoding failed: %s", e.getDescription().cStr());
  }
}

}  // namespace skerry
