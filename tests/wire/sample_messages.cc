#include "sample_messages.h"

namespace skerry {
namespace {

Digest SampleDigest(uint8_t first) {
  Digest digest;
  digest.bytes.fill(first);
  return digest;
}

RunConfig SampleConfig() {
  RunConfig c;
  c.name = "north sea";
  c.seed = 0x123456789abcdef0;
  c.steps = 64;
  c.nodes_min = 3;
  c.heartbeat_s = 0.5;
  c.node_silent_s = 7.5;
  c.model = {512, 128, 4, 8, 2, 384, 64, 500.0f, 1e-6f, true};
  c.inner = {InnerOptimizer::kSgd, 0.01f, 0.001f, 5, 0.8f, 0.99f, 1e-7f, 0.2f, 2.0f};
  c.outer = {8, 2, 0.5f, 0.25f, OuterTier::kCustom, DeltaCodec::kNone, ResidualPlace::kWeights};
  // Whatever the defaults are: what the golden bytes do not say is this.
  c.outer.robust = OuterRobust::kNone;
  c.outer.sum_checks = 0;
  c.pipeline = {3, 0.125, 1, 6, 2, 0, 5};
  c.data_dir = "english";
  return c;
}

PipelinePlan SamplePlan() {
  PipelinePlan plan;
  plan.version = 3;
  plan.microbatches_per_step = 6;
  plan.stages = {{0, 2, {SampleNode(1), SampleNode(2)}}, {2, 4, {SampleNode(3)}}};
  plan.paths = {{{0, 0}, {1, 0}}, {{0, 1}}};
  plan.dead = {SampleNode(2)};
  return plan;
}

PipelinePlan SampleHandover() {
  PipelinePlan plan = SamplePlan();
  plan.dead = {};
  plan.joining = {{SampleNode(1), 2, 3, -1, -1}, {SampleNode(2), 3, 4, 56, 5}};
  return plan;
}

PipelinePlan SampleSettled(bool spreads = false, int32_t round_s = 0, uint16_t step_s = 0) {
  PipelinePlan plan = SamplePlan();
  plan.settings = {8, 2, true, DeltaCodec::kTernary, 4, 3, spreads, round_s, step_s};
  plan.slow_links = {{SampleNode(1), SampleNode(3)}, {SampleNode(3), SampleNode(1)}};
  return plan;
}

PipelinePlan SampleShares() {
  PipelinePlan plan = SamplePlan();
  plan.stages.front().shares = {1, 3};
  return plan;
}

PipelinePlan SampleCohorts() {
  PipelinePlan plan = SamplePlan();
  plan.stages.front().cohorts = {0, 0};
  return plan;
}

RunConfig SampleCluster(int32_t overlap_steps) {
  RunConfig config = SampleConfig();
  config.cluster = {"lab1; 3fa9 12ab", 2500, 0.5f, overlap_steps};
  return config;
}

RunConfig SampleSharded() {
  RunConfig config = SampleConfig();
  config.outer.reduce = OuterReduce::kSharded;
  config.outer.down_codec = DownCodec{1 + static_cast<uint8_t>(DeltaCodec::kTernary)};
  return config;
}

PipelinePlan SampleStart() {
  PipelinePlan plan = SamplePlan();
  plan.start = {3, 5, 40};
  return plan;
}

RunConfig SampleCheckpoint() {
  RunConfig config = SampleConfig();
  config.checkpoint = {8, 3};
  return config;
}

RunConfig SampleNeighbours() {
  RunConfig config = SampleCheckpoint();
  config.checkpoint.lost_stage = LostStage::kNeighbours;
  return config;
}

PipelinePlan SampleRemade() {
  PipelinePlan plan = SampleStart();
  const int32_t first = plan.stages.back().first_layer;
  plan.stages.back().remade = {first, first};
  return plan;
}

RunConfig SampleLaw() {
  RunConfig config = SampleConfig();
  OuterConfig& outer = config.outer;
  outer.residual = ResidualPlace::kBuffer;
  outer.mode = OuterMode::kCo2;
  outer.fragments = 2;
  outer.momentum_clip = 0.5f;
  outer.gap = 1.5f;
  outer.robust = OuterRobust::kTrim;
  outer.robust_limit = 4;
  outer.robust_trim = 0.25f;
  outer.budget = CodecBudget::kBits;
  outer.budget_bits = 0.75f;
  outer.budget_rounds = 8;
  return config;
}

RunConfig SampleChecked() {
  RunConfig config = SampleLaw();
  config.outer.sum_checks = 2.5f;
  return config;
}

RunConfig SampleWaiting() {
  RunConfig config = SampleLaw();
  config.outer.absences = false;
  return config;
}

RunConfig SampleRecompute() {
  RunConfig config = SampleWaiting();
  config.pipeline.recompute = Recompute::kAlways;
  return config;
}

RunConfig SampleWorkChecks() {
  RunConfig config = SampleRecompute();
  config.pipeline.work_checks = 0.125f;
  return config;
}

Hello SampleHello() {
  Hello hello;
  hello.ticket = "ticket";
  hello.endpoint = "tcp://[::1]:7701";
  hello.device = {"a device", "a profile", 210.5, int64_t{1} << 33, 430.25};
  return hello;
}

Hello SampleOnInfiniBand() {
  Hello hello = SampleHello();
  hello.device.network = "InfiniBand";
  return hello;
}

Hello SampleOnGpu() {
  Hello hello = SampleHello();
  hello.device.host_bytes = int64_t{1} << 36;
  return hello;
}

RunConfig SampleOffload() {
  RunConfig config = SampleWorkChecks();
  config.pipeline.offload = Offload::kNever;
  return config;
}

Hello SampleOnDisk(bool spreads = false) {
  Hello hello = SampleHello();
  hello.device.spill_bytes = int64_t{1} << 37;
  hello.device.spill_bytes_per_s = 1.5e9;
  hello.device.spreads = spreads;
  return hello;
}

RunConfig SampleParking() {
  RunConfig config = SampleOffload();
  config.pipeline.offload_activations = Offload::kAlways;
  return config;
}

PipelinePlan SampleAbsent() {
  PipelinePlan plan = SampleShares();
  plan.absent = {{0, 7, SampleNode(2)}, {1, 3, SampleNode(1)}};
  return plan;
}

SumsHeld SignedSums() {
  SumsHeld held{1, 2, 0xfeedf00d, {{SampleNode(1), 10, SampleDigest(1)}}};
  held.statement.sent = {{SampleNode(1), 10, SampleDigest(2)}};
  for (size_t i = 0; i < held.signature.size(); ++i)
    held.signature[i] = static_cast<uint8_t>(200 - i);
  return held;
}

Payload SamplePayload(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 3);
  return MakePayload(std::move(bytes));
}

std::vector<std::pair<std::string, Message>> ShardedSamples() {
  const std::vector<Participant> two = {{SampleNode(1), 10, SampleDigest(1)},
                                        {SampleNode(2), 20, SampleDigest(2)}};
  return {
      {"delta_sum", DeltaSum{1, 2, 0xfeedf00d, 4096, SampleDigest(6), SamplePayload(48), 7}},
      {"delta_sum_passed",
       DeltaSum{1, 2, 3, 4, SampleDigest(6), SamplePayload(8), 7, SampleNode(3)}},
      {"round_commit_made",
       RoundCommit{1, 2, {{SampleNode(1), 1, {}}}, 3, {}, {}, {SampleDigest(7)}}},
      {"sums_held", SumsHeld{1, 2, 0xfeedf00d, two}},
      {"sums_stated", SumsHeld{1,
                               2,
                               0xfeedf00d,
                               {{SampleNode(1), 10, SampleDigest(1)}},
                               {{{SampleNode(1), 10, SampleDigest(2)}},
                                {{SampleNode(2), 20, SampleDigest(3)}},
                                {{7, SampleDigest(4), SampleDigest(5)}}}}},
      {"sums_signed", SignedSums()},
      {"sum_check",
       SumCheck{1,
                2,
                0xfeedf00d,
                SampleNode(1),
                SampleNode(2),
                {7},
                SampleDigest(6),
                {{SampleNode(1), 10, SampleDigest(1)}, {SampleNode(2), 20, SampleDigest(2)}},
                {1, 3},
                {{7, SampleDigest(4), SampleDigest(5)}}}},
      {"sum_shown", SumShown{1, 2, SamplePayload(48)}},
      {"sum_checked", SumChecked{1, 2, SampleNode(1), SumVerdict::kFalse}},
      {"welcome_sum_checks", Welcome{RunId{SampleDigest(9).bytes}, SampleChecked(), {}}},
      {"left_over_sent", LeftOverSent{1, 2, SampleNode(1), {3, 4}}},
      {"round_commit_sharded",
       RoundCommit{1, 2, {{SampleNode(1), 10, SampleDigest(1)}}, 0xfeedf00d}},
      {"plan_update_shares", PlanUpdate{SampleShares()}},
      {"welcome_law", Welcome{RunId{SampleDigest(9).bytes}, SampleLaw(), {}}},
      {"round_commit_table",
       RoundCommit{1, 2, {{SampleNode(1), 10, SampleDigest(1)}}, 0, {1, 2, 3, 4, 5}}},
      {"round_commit_covered", RoundCommit{1, 2, two, 0, {}, {1, 3}}},
      {"checkpoint_request_at_once", CheckpointRequest{1, 0, true}},
      {"welcome_neighbours", Welcome{RunId{SampleDigest(9).bytes}, SampleNeighbours(), {}}},
      {"plan_update_remade", PlanUpdate{SampleRemade()}},
      {"round_applied_screened",
       RoundApplied{1, 2, SampleDigest(3), 0.5, 0.125, {SampleNode(2)}, 4096, 8192}},
      {"round_late", RoundLate{1, 2, 12.5, {SampleNode(2)}, {SampleNode(1), SampleNode(3)}}},
      {"welcome_absences", Welcome{RunId{SampleDigest(9).bytes}, SampleWaiting(), {}}},
      {"plan_update_absent", PlanUpdate{SampleAbsent()}},
      {"hello_bf16", SampleHello()},
      {"welcome_recompute", Welcome{RunId{SampleDigest(9).bytes}, SampleRecompute(), {}}},
      {"delta_statistics", DeltaStatistics{1, 2, {100, 50, 20, 10}, {0, 0.5, 0.25, 4}}},
      {"welcome_sharded", Welcome{RunId{SampleDigest(9).bytes}, SampleSharded(), {}}},
  };
}

std::vector<std::pair<std::string, Message>> WorkSamples() {
  return {
      {"probe_request_transfer", ProbeRequest{SampleNode(7), 6 << 20, true}},
      {"link_reading_transfer", LinkReading{SampleNode(5), 0.08, 12.5e6, true}},
      {"work_check", WorkCheck{3, 2, SampleNode(1), SampleNode(2), SampleNode(3), SampleNode(4)}},
      {"work_copy",
       WorkCopy{3, 2, 1, SampleNode(1), WorkPart::kGradient, DeltaCodec::kBf16, SamplePayload(48)}},
      {"work_checked", WorkChecked{3, 2, SampleNode(1), 0.25f, 1.5f}},
      {"boundary_sizes",
       BoundarySizes{16,
                     {{SampleNode(1), false, true, 3, -0.5f}, {SampleNode(2), true, false, 4, 9}}}},
      {"welcome_work_checks", Welcome{RunId{SampleDigest(9).bytes}, SampleWorkChecks(), {}}},
  };
}

std::vector<std::pair<std::string, Message>> CheckpointSamples() {
  return {
      {"checkpoint_request", CheckpointRequest{1, 8}},
      {"checkpoint_state", CheckpointState{1, 8, 5 << 20, {SampleDigest(1), SampleDigest(2)}}},
      {"state_root", StateRoot{1, 8, SampleDigest(5), 32}},
      {"peers_partial", Peers{true, 0, {{SampleNode(4), "", "eu"}}, {}, true}},
      {"acquaint", Acquaint{{SampleNode(4), SampleNode(5)}}},
      {"state_refuted", StateRefuted{1, 8, SampleNode(2), -1, SampleDigest(6)}},
      {"step_trace", StepTrace{9,
                               3,
                               1'000'000,
                               {{TracedTask::Kind::kForward, 2, 1, 1, -50, 10, 400},
                                {TracedTask::Kind::kOptimizer, -1, 0, 0, 500, 510, 600}}}},
      {"standing", Standing{1000, 9000, 3, 8, 12, 96, 0.75}},
      {"plan_update_start", PlanUpdate{SampleStart()}},
      {"welcome_coordinators", Welcome{RunId{SampleDigest(9).bytes},
                                       SampleConfig(),
                                       {},
                                       {"tcp://10.0.0.1:7700", "tcp://[2001:db8::2]:7700"}}},
      {"welcome_checkpoint", Welcome{RunId{SampleDigest(9).bytes}, SampleCheckpoint(), {}}},
  };
}

std::vector<std::pair<std::string, Message>> GroupSamples() {
  return {
      {"group_values", GroupValues{77, 3, 1, 2, SamplePayload(40)}},
      {"group_sign", GroupSign{77, 12, 9}},
      {"group_sign_ended", GroupSign{77, 12, 9, true, "member 1 of 3: it has left"}},
      {"group_trial",
       GroupTrial{77, {SampleNode(1), SampleNode(2)}, GroupOperation::kAllGather, 1 << 20, 5}},
      {"group_tried", GroupTried{77, SampleDigest(4)}},
      {"group_tried_failed", GroupTried{77, {}, "member 1 of 3: it has left"}},
      {"cohort_broken", CohortBroken{1, 77, SampleNode(2), "member 1 of 3: it has left"}},
      {"plan_update_cohorts", PlanUpdate{SampleCohorts()}},
      {"welcome_cluster", Welcome{RunId{SampleDigest(9).bytes}, SampleCluster(0), {}}},
      {"welcome_cluster_overlap", Welcome{RunId{SampleDigest(9).bytes}, SampleCluster(1), {}}},
      {"hello_network", SampleOnInfiniBand()},
      {"hello_host_memory", SampleOnGpu()},
      {"welcome_offload", Welcome{RunId{SampleDigest(9).bytes}, SampleOffload(), {}}},
      {"hello_spill", SampleOnDisk()},
      {"hello_spreads", SampleOnDisk(true)},
      {"plan_update_spreads", PlanUpdate{SampleSettled(true)}},
      {"plan_update_expects", PlanUpdate{SampleSettled(false, 90, 7)}},
      {"welcome_parking", Welcome{RunId{SampleDigest(9).bytes}, SampleParking(), {}}},
      {"heartbeat_backwards", Heartbeat{.waiting_for = "", .backward_s = 1.25, .backwards = 40}},
      {"delta_passed_on", Delta{1, 2, 4096, SampleDigest(6), SamplePayload(48), 7, SampleNode(3)}},
  };
}

std::vector<std::pair<std::string, Message>> PlainSamples() {
  return {
      {"hello", Hello{"skerry1-abc",
                      "tcp://127.0.0.1:4711",
                      "eu-west",
                      "0.1.0",
                      {"one core", "avx2 1 thread", 55.5, 1 << 30},
                      2,
                      33,
                      4}},
      {"welcome", Welcome{RunId{SampleDigest(9).bytes},
                          SampleConfig(),
                          {{"a.bin", SampleDigest(1), 100}, {"b.bin", SampleDigest(2), 200}}}},
      {"refused", Refused{"the ticket has no uses left"}},
      {"refused_waits", Refused{"waiting for the operator's approval", true}},
      {"peers",
       Peers{false, 0, {{SampleNode(1), "tcp://10.0.0.1:1", "us"}, {SampleNode(2), "", "eu"}}, {}}},
      {"peers_complete",
       Peers{true, 2, {{SampleNode(3), "", "eu"}}, {SampleNode(1), SampleNode(2)}}},
      {"peers_relay", Peers{false, 0, {{SampleNode(4), "tcp://10.0.0.4:1", "eu", true}}, {}}},
      {"reachability",
       Reachability{SampleNode(1),
                    "203.0.113.9",
                    {{"tcp://203.0.113.9:7701", false}, {"tcp://[2001:db8::5]:7701", true}}}},
      {"probe_request", ProbeRequest{SampleNode(7), 1 << 20}},
      {"ping", Ping{77, 40}},
      {"pong", Pong{78}},
      {"link_reading", LinkReading{SampleNode(5), 0.08, 12.5e6}},
      {"plan_update", PlanUpdate{SamplePlan()}},
      {"plan_update_joining", PlanUpdate{SampleHandover()}},
      {"heartbeat",
       Heartbeat{Phase::kStandby, 5, 1, 1000, 2000, 3000, 1.5, 0.25, 0.75, 0, "gradient of 5"}},
      {"heartbeat_catching_up", Heartbeat{Phase::kCatchingUp, 5, 1, 0, 0, 0, 0, 0, 0, 0, ""}},
      {"step_report", StepReport{6, {{0, 256, 5.5f}, {3, 128, 4.25f}}}},
      {"leave", Leave{"interrupted"}},
      {"shutdown", Shutdown{"finished"}},
      {"activation", Activation{3, 2, 1, 1, 4, {{0, 1}, {1, 0}}, SamplePayload(64)}},
      {"gradient", Gradient{3, 2, 1, 1, 4, SamplePayload(32)}},
      {"microbatch_void", MicrobatchVoid{3, 2, 1}},
      {"delta", Delta{1, 2, 4096, SampleDigest(6), SamplePayload(48)}},
      {"microbatch_void_planned", MicrobatchVoid{3, 2, 1, 7}},
      {"delta_planned", Delta{1, 2, 4096, SampleDigest(6), SamplePayload(48), 7}},
      {"delta_held", DeltaHeld{1, 2, SampleNode(8), 4096, SampleDigest(6)}},
      {"round_commit",
       RoundCommit{
           1, 2, {{SampleNode(1), 10, SampleDigest(1)}, {SampleNode(2), 20, SampleDigest(2)}}}},
      {"plan_update_settled", PlanUpdate{SampleSettled()}},
      {"heartbeat_memory",
       Heartbeat{Phase::kTraining, 5, 1, 1000, 2000, 3000, 1.5, 0.25, 0.75, 1 << 20, ""}},
      {"activation_int8",
       Activation{3, 2, 1, 1, 4, {{0, 1}, {1, 0}}, SamplePayload(64), DeltaCodec::kInt8}},
      {"gradient_bf16", Gradient{3, 2, 1, 1, 4, SamplePayload(32), DeltaCodec::kBf16}},
      {"hop_late", HopLate{3, 2, 1, 2}},
      {"detour", Detour{3, 2, SampleNode(4), 1.5, true, 7}},
      {"void_list", VoidList{SampleNode(4), {{3, 2}, {4, 0}}, 7}},
      {"round_applied", RoundApplied{1, 2, SampleDigest(3), 0.5, 0.125}},
      {"object_request", ObjectRequest{"base/1", 1024, 4096}},
      {"object_chunk", ObjectChunk{"base/1", 1024, 9999, SamplePayload(24)}},
  };
}

}  // namespace

std::vector<std::pair<std::string, Message>> SampleMessages() {
  auto samples = PlainSamples();
  for (const auto more : {ShardedSamples, WorkSamples, GroupSamples, CheckpointSamples}) {
    for (auto& sample : more()) samples.push_back(std::move(sample));
  }
  return samples;
}

FrameHeader SampleHeader() {
  return {RunId{SampleDigest(9).bytes}, 1111, 2222, 33, 44};
}

}  // namespace skerry
