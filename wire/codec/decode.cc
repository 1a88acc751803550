#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "wire/codec/codec.h"
#include "wire/codec/group_fields.h"
#include "wire/codec/id_words.h"
#include "wire/codec/insight_fields.h"
#include "wire/codec/limits.h"
#include "wire/codec/pass_fields.h"
#include "wire/codec/read_checks.h"
#include "wire/codec/read_joining.h"
#include "wire/codec/read_plan.h"
#include "wire/codec/read_rounds.h"
#include "wire/config.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {
namespace {

void ReadOuterLaw(ReadChecks& checks, schema::RunConfig::Outer::Reader r, OuterConfig& c) {
  c.mode = checks.Enumerator(r.getMode(), OuterMode::kLast, "outer mode");
  c.fragments = r.getFragments();
  c.momentum_clip = r.getMomentumClip();
  c.gap = r.getGap();
  c.robust = checks.Enumerator(r.getRobust(), OuterRobust::kLast, "outer robust");
  c.robust_limit = r.getRobustLimit();
  c.robust_trim = r.getRobustTrim();
  c.budget = checks.Enumerator(r.getBudget(), CodecBudget::kLast, "outer budget");
  c.budget_bits = r.getBudgetBits();
  c.budget_rounds = r.getBudgetRounds();
  c.absences = r.getAbsences();
  c.sum_checks = r.getSumChecks();
}

void ReadTraining(ReadChecks& checks, schema::RunConfig::Reader r, RunConfig& c) {
  const auto inner = r.getInner();
  c.inner.optimizer = checks.Enumerator(inner.getOptimizer(), InnerOptimizer::kLast, "optimizer");
  c.inner.learning_rate = inner.getLearningRate();
  c.inner.min_learning_rate = inner.getMinLearningRate();
  c.inner.warmup_steps = inner.getWarmupSteps();
  c.inner.beta1 = inner.getBeta1();
  c.inner.beta2 = inner.getBeta2();
  c.inner.epsilon = inner.getEpsilon();
  c.inner.weight_decay = inner.getWeightDecay();
  c.inner.clip_norm = inner.getClipNorm();
  c.inner.compute = checks.Enumerator(inner.getCompute(), InnerCompute::kLast, "compute type");
  c.inner.z_loss = inner.getZLoss();
  const auto outer = r.getOuter();
  c.outer.inner_steps = outer.getInnerSteps();
  c.outer.overlap_steps = outer.getOverlapSteps();
  c.outer.learning_rate = outer.getLearningRate();
  c.outer.momentum = outer.getMomentum();
  c.outer.codec = checks.Enumerator(outer.getCodec(), DeltaCodec::kLast, "delta codec");
  c.outer.residual = checks.Enumerator(outer.getResidual(), ResidualPlace::kWeights, "residual");
  c.outer.tier = checks.Enumerator(outer.getTier(), OuterTier::kLast, "outer tier");
  c.outer.reduce = checks.Enumerator(outer.getReduce(), OuterReduce::kLast, "outer reduce");
  c.outer.down_codec = checks.Enumerator(outer.getDownCodec(), DownCodec::kLast, "down codec");
  ReadOuterLaw(checks, outer, c.outer);
  const auto pipeline = r.getPipeline();
  c.pipeline.stages = pipeline.getStages();
  c.pipeline.skip_ratio = pipeline.getSkipRatio();
  c.pipeline.swaps = pipeline.getSwaps();
  c.pipeline.microbatches_per_step = pipeline.getMicrobatchesPerStep();
  c.pipeline.sequences_per_microbatch = pipeline.getSequencesPerMicrobatch();
  c.pipeline.in_flight = pipeline.getInFlight();
  c.pipeline.sequences_per_step = pipeline.getSequencesPerStep();
  c.pipeline.slow_link_codec =
      checks.Enumerator(pipeline.getSlowLinkCodec(), DeltaCodec::kLast, "slow link codec");
  c.pipeline.detours = pipeline.getDetours();
  c.pipeline.work_checks = pipeline.getWorkChecks();
  c.pipeline.recompute = checks.Enumerator(pipeline.getRecompute(), Recompute::kLast, "recompute");
  c.pipeline.offload = checks.Enumerator(pipeline.getOffload(), Offload::kLast, "offload");
  c.pipeline.offload_activations =
      checks.Enumerator(pipeline.getOffloadActivations(), Offload::kLast, "offload of activations");
}

// What models from elsewhere may have.
void ReadImported(ReadChecks& checks, schema::RunConfig::Transformer::Reader r,
                  TransformerConfig& m) {
  m.qkv_bias = r.getQkvBias();
  m.rope_scaling = checks.Enumerator(r.getRopeScaling(), RopeScaling::kLast, "scaling of RoPE");
  m.rope_factor = r.getRopeFactor();
  m.rope_low_frequency = r.getRopeLowFrequency();
  m.rope_high_frequency = r.getRopeHighFrequency();
  m.rope_original_context = r.getRopeOriginalContext();
  m.positions = r.getPositions();
}

ClusterConfig ReadCluster(ReadChecks& checks, schema::RunConfig::Cluster::Reader r) {
  if (r.getGroups().size() == 0) return {};
  return {checks.Text(r.getGroups(), "cluster groups"), r.getRateMin(), r.getRttMax(),
          r.getOverlapSteps()};
}

RunConfig ReadConfig(ReadChecks& checks, schema::RunConfig::Reader r) {
  RunConfig c;
  c.name = checks.Text(r.getName(), "run name");
  c.seed = r.getSeed();
  c.steps = r.getSteps();
  c.nodes_min = r.getNodesMin();
  c.nodes_max = r.getNodesMax();
  c.heartbeat_s = r.getHeartbeatS();
  c.node_silent_s = r.getNodeSilentS();
  c.replan_s = r.getReplanS();
  c.checkpoint = {r.getCheckpointEveryRounds(), r.getCheckpointKeep(),
                  checks.Enumerator(r.getLostStage(), LostStage::kLast, "source of a lost stage"),
                  r.getCheckpointLeastS()};
  c.cluster = ReadCluster(checks, r.getCluster());
  c.data_dir = checks.Text(r.getDataDir(), "data directory");
  const auto model = r.getModel();
  c.model.vocab = model.getVocab();
  c.model.hidden = model.getHidden();
  c.model.ladder = model.getLadder();
  c.model.layers = std::max(model.getLayers(), -std::numeric_limits<int32_t>::max());
  if (c.model.ladder > 0) c.model.layers = -c.model.layers;  // as WriteConfig
  c.model.heads = model.getHeads();
  c.model.kv_heads = model.getKvHeads();
  c.model.ffn = model.getFfn();
  c.model.context = model.getContext();
  c.model.rope_base = model.getRopeBase();
  c.model.norm_epsilon = model.getNormEpsilon();
  c.model.tied_head = model.getTiedHead();
  ReadImported(checks, model, c.model);
  ReadTraining(checks, r, c);
  const absl::Status valid = ValidateRunConfig(c);
  if (!valid.ok()) checks.Fail(valid);
  return c;
}

Welcome ReadWelcome(ReadChecks& checks, schema::Welcome::Reader r) {
  Welcome m;
  m.run = ReadId<RunId>(r.getRun());
  m.config = ReadConfig(checks, r.getConfig());
  const auto shards = r.getShards();
  m.shards.resize(checks.Count(shards, limits::kShardsMax, "shards"));
  for (unsigned i = 0; i < m.shards.size(); ++i) {
    m.shards[i] = {checks.Text(shards[i].getFile(), "shard file"),
                   ReadId<Digest>(shards[i].getDigest()),
                   checks.NotNegative(shards[i].getBytes(), "shard size")};
  }
  const auto there = r.getCoordinators();
  m.coordinators.resize(checks.Count(there, kCoordinatorsMax, "coordinators"));
  for (unsigned i = 0; i < m.coordinators.size(); ++i)
    m.coordinators[i] = checks.Text(there[i], "endpoint");
  return m;
}

Heartbeat ReadHeartbeat(ReadChecks& checks, schema::Heartbeat::Reader r) {
  Heartbeat m;
  m.phase = checks.Enumerator(r.getPhase(), Phase::kLast, "phase");
  m.step = checks.NotNegative(r.getStep(), "step");
  m.base_version = checks.NotNegative(r.getBaseVersion(), "base version");
  m.tokens = checks.NotNegative(r.getTokens(), "tokens");
  m.bytes_sent = checks.NotNegative(r.getBytesSent(), "bytes sent");
  m.bytes_received = checks.NotNegative(r.getBytesReceived(), "bytes received");
  m.busy_s = checks.Finite(r.getBusyS(), "busy_s");
  m.round_wait_s = checks.Finite(r.getRoundWaitS(), "round_wait_s");
  m.round_transfer_s = checks.Finite(r.getRoundTransferS(), "round_transfer_s");
  m.waiting_for = checks.Text(r.getWaitingFor(), "waiting_for");
  m.memory_bytes = checks.NotNegative(r.getMemoryBytes(), "memory");
  m.backward_s = checks.Finite(r.getBackwardS(), "backward_s");
  m.backwards = checks.NotNegative(r.getBackwards(), "backwards");
  return m;
}

Message ReadObjectMessage(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isObjectRequest()) {
    const auto r = e.getObjectRequest();
    return ObjectRequest{checks.Text(r.getObject(), "object"),
                         checks.NotNegative(r.getOffset(), "offset"),
                         checks.NotNegative(r.getLength(), "length")};
  }
  const auto r = e.getObjectChunk();
  if (r.getTotalBytes() < -1) checks.Break("total size", "is negative");
  return ObjectChunk{checks.Text(r.getObject(), "object"),
                     checks.NotNegative(r.getOffset(), "offset"), r.getTotalBytes(), payload};
}

Message ReadProbing(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload) {
  if (e.isProbeRequest()) {
    return ProbeRequest{ReadId<NodeId>(e.getProbeRequest().getTarget()),
                        checks.NotNegative(e.getProbeRequest().getBytes(), "probe size"),
                        e.getProbeRequest().getIsTransfer()};
  }
  if (e.isPing()) return Ping{e.getPing().getNonce(), SizeOf(payload)};
  if (e.isPong()) return Pong{e.getPong().getNonce()};
  return LinkReading{ReadId<NodeId>(e.getLinkReading().getTarget()),
                     checks.Finite(e.getLinkReading().getRttS(), "rtt_s"),
                     checks.Finite(e.getLinkReading().getBytesPerS(), "bytes_per_s"),
                     e.getLinkReading().getIsTransfer()};
}

Message ReadMembership(ReadChecks& checks, schema::Envelope::Reader e) {
  if (e.isWelcome()) return ReadWelcome(checks, e.getWelcome());
  if (e.isPlanUpdate()) return ReadPlan(checks, e.getPlanUpdate());
  if (e.isLeave()) return Leave{checks.Text(e.getLeave().getReason(), "reason")};
  if (e.isShutdown()) return Shutdown{checks.Text(e.getShutdown().getReason(), "reason")};
  if (e.isHeartbeat()) return ReadHeartbeat(checks, e.getHeartbeat());
  return ReadJoining(checks, e);
}

std::optional<Message> ReadOther(ReadChecks& checks, schema::Envelope::Reader e,
                                 const Payload& payload) {
  if (e.isBoundarySizes()) return ReadPass(checks, e, payload);
  if (e.isGroupValues() || e.isGroupSign() || e.isGroupTrial() || e.isGroupTried() ||
      e.isCohortBroken())
    return ReadGroup(checks, e, payload);
  checks.Break("message", "is unknown");
  return std::nullopt;
}

std::optional<Message> ReadMessage(ReadChecks& checks, schema::Envelope::Reader e,
                                   const Payload& payload) {
  using E = schema::Envelope;
  switch (e.which()) {
    case E::NONE:
      return std::nullopt;
    case E::HELLO:
    case E::PEERS:
    case E::REACHABILITY:
    case E::ACQUAINT:
    case E::REFUSED:
    case E::WELCOME:
    case E::PLAN_UPDATE:
    case E::HEARTBEAT:
    case E::LEAVE:
    case E::SHUTDOWN:
      return ReadMembership(checks, e);
    case E::PROBE_REQUEST:
    case E::PING:
    case E::PONG:
    case E::LINK_READING:
      return ReadProbing(checks, e, payload);
    case E::ACTIVATION:
    case E::GRADIENT:
    case E::MICROBATCH_VOID:
    case E::VOID_LIST:
    case E::HOP_LATE:
    case E::DETOUR:
    case E::WORK_CHECK:
    case E::WORK_COPY:
    case E::WORK_CHECKED:
      return ReadPass(checks, e, payload);
    case E::DELTA:
    case E::DELTA_HELD:
    case E::ROUND_COMMIT:
    case E::ROUND_APPLIED:
    case E::DELTA_SUM:
    case E::SUMS_HELD:
    case E::DELTA_STATISTICS:
    case E::ROUND_LATE:
    case E::CHECKPOINT_REQUEST:
    case E::CHECKPOINT_STATE:
    case E::STATE_ROOT:
    case E::STATE_REFUTED:
    case E::SUM_CHECK:
    case E::SUM_SHOWN:
    case E::SUM_CHECKED:
    case E::LEFT_OVER_SENT:
      return ReadRoundMessage(checks, e, payload);
    case E::STEP_REPORT:
    case E::STEP_TRACE:
    case E::STANDING:
      return ReadInsight(checks, e);
    case E::OBJECT_REQUEST:
    case E::OBJECT_CHUNK:
      return ReadObjectMessage(checks, e, payload);
    default:
      return ReadOther(checks, e, payload);
  }
}

// Who, to whom, which run and version: cheap, and before anything of the payload is touched.
DecodedFrame ReadHeader(ReadChecks& checks, schema::Envelope::Reader e,
                        const FrameExpectation& expectation) {
  if (e.getVersion() < 1 || e.getVersion() > kProtocolVersion) {
    checks.Fail(
        InvalidArgument("protocol version %d, this program speaks 1 to %d: update the older",
                        e.getVersion(), kProtocolVersion));
  }
  DecodedFrame out;
  FrameHeader& header = out.frame.header;
  header.run = ReadId<RunId>(e.getRun());
  header.sender_incarnation = e.getSenderIncarnation();
  header.receiver_incarnation = e.getReceiverIncarnation();
  header.sequence = e.getSequence();
  header.acknowledged = e.getAcknowledged();
  header.speaks = std::max<uint16_t>(1, e.getSpeaks());
  header.lane = e.getLane();
  if (header.lane >= (e.getVersion() < kFormatWithLanes ? 1 : kTrafficClasses))
    checks.Break("lane", "does not exist");
  out.sender = ReadId<NodeId>(e.getSender());
  if (header.run != expectation.run) checks.Fail(FailedPrecondition("frame of another run"));
  if (ReadId<NodeId>(e.getRecipient()) != expectation.recipient)
    checks.Fail(FailedPrecondition("frame for another recipient"));
  if (header.sender_incarnation == 0) checks.Break("incarnation", "is zero");
  if (expectation.is_sender && !expectation.is_sender(out.sender)) {
    checks.Fail(
        absl::PermissionDeniedError("the sender named is not the holder of the connection's key"));
  }
  return out;
}

void CheckPayload(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload,
                  DigestPlace digest) {
  const auto bytes = View(payload);
  if (e.getPayloadBytes() != bytes.size())
    checks.Break("payload", "has another size than announced");
  const bool may_carry = e.isPing() || e.isActivation() || e.isGradient() || e.isWorkCopy() ||
                         e.isDelta() || e.isDeltaSum() || e.isSumShown() || e.isGroupValues() ||
                         e.isObjectChunk();
  if (bytes.empty()) return;
  if (!may_carry) checks.Break("payload", "does not belong to this message");
  if (digest == DigestPlace::kTransfer) return;
  if (DigestOf(bytes) != ReadId<Digest>(e.getPayloadDigest()))
    checks.Fail(absl::DataLossError("payload does not match its digest"));
}

absl::StatusOr<DecodedFrame> DecodeWords(kj::ArrayPtr<const capnp::word> words,
                                         const Payload& payload,
                                         const FrameExpectation& expectation) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 4 * words.size() + 64;
  options.nestingLimit = 8;
  capnp::FlatArrayMessageReader reader(words, options);
  const auto envelope = reader.getRoot<schema::Envelope>();
  ReadChecks checks;
  DecodedFrame out = ReadHeader(checks, envelope, expectation);
  SKERRY_RETURN_IF_ERROR(checks.status());
  CheckPayload(checks, envelope, payload, expectation.digest);
  SKERRY_RETURN_IF_ERROR(checks.status());
  if (auto m = ReadMessage(checks, envelope, payload)) out.frame.message = Share(*std::move(m));
  // A sequence without a message: withdrawn, which only lanes of bulk know.
  const FrameHeader& header = out.frame.header;
  const bool may_be_withdrawn = header.lane > 0;
  if (out.frame.message != nullptr ? header.sequence == 0
                                   : header.sequence != 0 && !may_be_withdrawn)
    checks.Break("sequence", "does not fit the message");
  SKERRY_RETURN_IF_ERROR(checks.status());
  return out;
}

}  // namespace

absl::StatusOr<DecodedFrame> Decode(std::span<const uint8_t> envelope, Payload payload,
                                    const FrameExpectation& expectation) {
  if (envelope.size() > limits::kEnvelopeBytesMax) return InvalidArgument("envelope is too large");
  if (envelope.empty() || envelope.size() % sizeof(capnp::word) != 0)
    return InvalidArgument("envelope is not a whole number of words");
  if (View(payload).size() > limits::kPayloadBytesMax)
    return InvalidArgument("payload is too large");
  if (payload && payload->empty()) payload = nullptr;
  auto words = kj::heapArray<capnp::word>(envelope.size() / sizeof(capnp::word));
  std::memcpy(words.asBytes().begin(), envelope.data(), envelope.size());
  try {
    return DecodeWords(words, payload, expectation);
  } catch (const kj::Exception& e) {
    return InvalidArgument("malformed envelope: %s", e.getDescription().cStr());
  } catch (const std::exception& e) {
    return InvalidArgument("malformed envelope: %s", e.what());
  }
}

}  // namespace skerry
