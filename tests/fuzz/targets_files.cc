// What is read from files and forms: configurations, scenarios, tensors, journals, event logs.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/check.h"
#include "common/status.h"
#include "coordinator/admission.h"
#include "coordinator/dashboard_access.h"
#include "coordinator/event_tail.h"
#include "coordinator/report_events.h"
#include "coordinator/run_state.h"
#include "coordinator/snapshot.h"
#include "coordinator/state_bytes.h"
#include "model/dataset_address.h"
#include "model/safetensors.h"
#include "model/token_dataset.h"
#include "model/tokenizer.h"
#include "sim/scenario.h"
#include "tests/fuzz/targets.h"
#include "wire/config.h"
#include "wire/shape_config.h"

namespace skerry {
namespace {

void RunConfigText(std::span<const uint8_t> input) {
  const auto config = ParseRunConfig(TextIn(input), "fuzz.toml");
  if (!config.ok()) return;
  SKERRY_CHECK(ValidateRunConfig(*config).ok(), "what was read is valid");
  const auto again = ParseRunConfig(FormatRunConfig(*config), "again.toml");
  SKERRY_CHECK(again.ok() && *again == *config, "and says the same when written");
  ConfigDigest(*config);
}
std::vector<Bytes> ConfigSeeds() {
  RunConfig robust;
  robust.outer.codec = DeltaCodec::kTopK;
  return {BytesOf(FormatRunConfig(RunConfig())), BytesOf(FormatRunConfig(robust)),
          BytesOf("[run]\nname = \"a\"\nsteps = 7\n[model]\nlayers = 4\n")};
}

void RunShape(std::span<const uint8_t> input) {
  ParseWanShape(TextIn(input), "wan.toml").IgnoreError();
}
std::vector<Bytes> ShapeSeeds() {
  return {
      BytesOf("[[region]]\nname = \"a\"\n[[region]]\nname = \"b\"\n[[pair]]\na = \"a\"\nb = "
              "\"b\"\nrtt_ms = 50\nrate_mbps = 100\n[line]\nup_mbps = 20\ndown_mbps = 50\n")};
}

// A scenario names data files relative to its own; here there are none.
void RunScenario(std::span<const uint8_t> input) {
  const auto scenario = ParseScenario(TextIn(input), "/nonexistent/scenario.toml");
  constexpr uint64_t kSeed = 1;
  if (scenario.ok() && scenario->nodes.size() < 1000) ChurnOf(*scenario, kSeed).IgnoreError();
}
std::vector<Bytes> ScenarioSeeds() {
  std::vector<Bytes> seeds;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(SKERRY_SCENARIO_DIR, error)) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream in(entry.path());
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

void RunSafetensors(std::span<const uint8_t> input) {
  constexpr int64_t kDataBytes = 64;
  const auto tensors = ParseSafetensorsHeader(input, kDataBytes);
  if (!tensors.ok()) return;
  int64_t covered = 0;
  for (const auto& [name, tensor] : *tensors) covered += tensor.end - tensor.begin;
  SKERRY_CHECK(covered == kDataBytes, "tensors tile the data");
}
std::vector<Bytes> SafetensorsSeeds() {
  return {BytesOf(R"({"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},)"
                  R"("b":{"dtype":"BF16","shape":[16],"data_offsets":[32,64]},)"
                  R"("__metadata__":{"format":"pt"}})")};
}

void RunTokenizer(std::span<const uint8_t> input) {
  const std::string text = TextIn(input);
  SKERRY_CHECK(ByteTokenizer::Decode(ByteTokenizer::Encode(text)) == text, "every text is tokens");
  ParseDatasetIndex(text).IgnoreError();
  BaseAddressOf(text);
}
std::vector<Bytes> TokenizerSeeds() {
  return {BytesOf("plain text"), BytesOf("\xf0\x9f\x8c\x8a ebb"), BytesOf(R"({"shards":[]})")};
}

// A journal's record may say anything that the disk made of it; then an order by which people say.
void RunRecord(std::span<const uint8_t> input) {
  RunState state;
  const std::string text = TextIn(input);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    state.Apply(text.substr(at, end - at)).IgnoreError();
    at = end + 1;
  }
  const auto order = ParseOrder(text.substr(0, text.find('\n')));
  if (order.ok()) SKERRY_CHECK(state.Apply(OrderRecord(*order)).ok(), "a whole order applies");
}
std::vector<Bytes> RecordSeeds() {
  const NodeId node = TestNodeId(3);
  AdmissionOrder order;
  order.id = "0123abcd";
  order.does = AdmissionOrder::Does::kDeny;
  order.node = node;
  order.why = "why";
  NodeRecord record;
  record.endpoint = "tcp://10.0.0.1:1";
  record.region = "east";
  record.ticket = "0a";
  const std::string admitted = AdmittedRecord(node, record);
  const std::string link = LinkRecord(node, {TestNodeId(4), 0.1, 1e6});
  RoundCommit commit;
  commit.participants = {{node, 8, {}}};
  const std::string rounds = CommitRecord(commit) + "\n" +
                             AppliedRecord(node, RoundApplied{0, 0, {}, 1, 1}) + "\n" +
                             LossesRecord(node, {0, {{0, 8, 1.0f}}});
  return {BytesOf(admitted + "\n" + link + "\n" + LifeRecord(node, false, true, "it lied")),
          BytesOf(OrderText(order)), BytesOf(OrderRecord(order)),
          BytesOf(admitted + "\n" + rounds + "\n" + MarkRecord("finished"))};
}

// A snapshot behind its digests, and whole.
void RunSnapshot(std::span<const uint8_t> input) {
  UnpackSnapshot(input, {}).IgnoreError();
  StateReader reader(input);
  RunState state;
  reader.Get(state);
  if (!reader.ok() || !reader.AtEnd()) return;
  StateWriter writer;
  writer.Put(state);
  const Bytes again = writer.Take();
  SKERRY_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()),
               "a state has one form");
}
std::vector<Bytes> SnapshotSeeds() {
  RunState state;
  const std::string text = TextIn(RecordSeeds().front());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    state.Apply(text.substr(at, end - at)).IgnoreError();
    at = end + 1;
  }
  state.losses[3].by_microbatch[1] = {1, 8, 2.5f};
  state.plan = PipelinePlan();
  StateWriter writer;
  writer.Put(state);
  return {writer.Take(), PackSnapshot({{4, {}}, state}, {})};
}

// The event log, and what people ask of it over HTTP: a number of seconds, a line, a count.
void RunEvents(std::span<const uint8_t> input) {
  const std::string text = TextIn(input);
  EventFold fold;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    fold.OnLine(text.substr(at, end - at));
    at = end + 1;
  }
  ReportOf(std::move(fold));
}
std::vector<Bytes> EventSeeds() {
  return {BytesOf(
      "{\"t\":0.0,\"utc\":\"2026-08-16T09:30:00Z\",\"kind\":\"run\",\"run\":\"ab\",\"name\":\"x\","
      "\"steps\":4,\"parameters\":10}\n"
      "{\"t\":1.5,\"utc\":\"2026-08-16T09:30:01Z\",\"kind\":\"admitted\",\"node\":\"0badcafe\"}\n"
      "{\"t\":2.5,\"utc\":\"2026-08-16T09:30:02Z\",\"kind\":\"step\",\"step\":0,\"loss\":5.5,"
      "\"tokens\":100}\n"
      "{\"t\":2.5,\"utc\":\"2026-08-16T09:30:02Z\",\"kind\":\"round\",\"stage\":0,\"round\":0}\n")};
}

void RunQuery(std::span<const uint8_t> input) {
  static const std::filesystem::path file = [] {
    auto path = std::filesystem::temp_directory_path() /
                ("skerry-fuzz-" + std::to_string(getpid()) + ".jsonl");
    const Bytes events = EventSeeds().front();
    std::ofstream(path).write(reinterpret_cast<const char*>(events.data()),
                              static_cast<std::streamsize>(events.size()));
    return path;
  }();
  static EventTail* tail = [] {
    auto* made = new EventTail(file);
    SKERRY_CHECK(made->Read().ok(), "it is there");
    std::atexit([] { std::filesystem::remove(file); });
    return made;
  }();
  const std::string text = TextIn(input);
  ParseWebAddress(text).IgnoreError();
  SameToken(text, "skerry");
  char* next = nullptr;
  tail->ReportUntil(std::strtod(text.c_str(), &next)).IgnoreError();
  const long long first = std::strtoll(text.c_str(), &next, 10);
  tail->Lines(first, std::strtoll(next, nullptr, 10)).IgnoreError();
}
std::vector<Bytes> QuerySeeds() {
  return {BytesOf("127.0.0.1:7780"), BytesOf("[::1]:80"), BytesOf("1.5"), BytesOf("nan"),
          BytesOf("-1 9223372036854775807")};
}

}  // namespace

std::vector<FuzzTarget> FileTargets() {
  return {{"run_toml", RunConfigText, ConfigSeeds},
          {"wan_toml", RunShape, ShapeSeeds},
          {"scenario", RunScenario, ScenarioSeeds},
          {"safetensors", RunSafetensors, SafetensorsSeeds},
          {"tokenizer", RunTokenizer, TokenizerSeeds},
          {"journal", RunRecord, RecordSeeds},
          {"snapshot", RunSnapshot, SnapshotSeeds},
          {"events", RunEvents, EventSeeds},
          {"http_query", RunQuery, QuerySeeds}};
}

}  // namespace skerry
