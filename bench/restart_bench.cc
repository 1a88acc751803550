// How long a coordinator takes to be there again after kill -9, at the end of a long run: 64,000
// steps of 16 stage-0 nodes, a million records and more. The journal is made up here, record by
// record as a run writes them; compacting and restarting is done by the real program.
//
// "There" means that it says how the run stands: nodes are answered from then on. Wall time, on
// whatever else the machine does.

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "bench/bench.h"
#include "common/check.h"
#include "coordinator/journal_sqlite.h"
#include "coordinator/run_state.h"
#include "sim/child_process.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int32_t kStages = 2, kReplicas = 16, kMicrobatches = 32, kTokens = 2048;
constexpr int64_t kInnerSteps = 64, kSteps = 64'000;
constexpr int64_t kTailSteps = 1'250;  // 20,000 records: as many as come between snapshots
constexpr size_t kBatch = 4096;

double SecondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

NodeId NodeAt(int32_t stage, int32_t replica) {
  NodeId id = TestNodeId(static_cast<uint32_t>(stage * kReplicas + replica + 1));
  for (size_t i = 4; i < id.bytes.size(); ++i) {  // as keys are: nothing in common
    id.bytes[i] = static_cast<uint8_t>(id.bytes[3] * 37 + i * 101);
  }
  return id;
}

RunConfig Config() {
  RunConfig config;
  config.steps = 65'536;
  config.nodes_min = kStages * kReplicas;
  config.model = {
      .vocab = 256, .hidden = 16, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 24, .context = 64};
  config.outer.inner_steps = kInnerSteps;
  config.outer.overlap_steps = 0;
  config.pipeline.stages = kStages;
  config.pipeline.microbatches_per_step = kMicrobatches;
  config.checkpoint.every_rounds = 0;
  return config;
}

PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = kMicrobatches;
  plan.stages = {{0, 2, {}}, {2, 4, {}}};
  for (int32_t replica = 0; replica < kReplicas; ++replica) {
    for (int32_t stage = 0; stage < kStages; ++stage) {
      plan.stages[static_cast<size_t>(stage)].replicas.push_back(NodeAt(stage, replica));
    }
    plan.paths.push_back({{0, replica}, {1, replica}});
  }
  return plan;
}

// Appends to the run's journal, some thousand records at a time.
class Records {
 public:
  explicit Records(const std::string& directory) {
    auto opened = SqliteJournal::Open(directory + "/journal.sqlite", JournalAccess::kWrite);
    SKERRY_CHECK(opened.ok(), "init made it");
    journal_ = *std::move(opened);
  }
  void Add(std::string record) {
    batch_.push_back(std::move(record));
    if (batch_.size() == kBatch) Flush();
  }
  void Flush() {
    SKERRY_CHECK(journal_->Append(batch_).ok(), "there is room on the disk");
    written_ += static_cast<int64_t>(batch_.size());
    batch_.clear();
  }
  int64_t written() const { return written_; }

 private:
  std::unique_ptr<SqliteJournal> journal_;
  std::vector<std::string> batch_;
  int64_t written_ = 0;
};

void AddBeginning(Records& records) {
  for (int32_t stage = 0; stage < kStages; ++stage) {
    for (int32_t replica = 0; replica < kReplicas; ++replica) {
      NodeRecord node;
      node.endpoint = "tcp://10.0." + std::to_string(stage) + "." + std::to_string(replica) + ":1";
      node.region = "east";
      node.ticket = "0a0b";
      node.device = {"cpu", "profile", 10, int64_t{1} << 32};
      records.Add(AdmittedRecord(NodeAt(stage, replica), node));
    }
  }
  records.Add(PlanRecord(Plan(), 1, 1));
}

Digest DigestAt(int64_t round, int32_t stage, int32_t of) {
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<uint8_t>(round * 31 + (round >> 8) * 7 + stage + of * 13 +
                                           static_cast<int64_t>(i) * 57);
  }
  return digest;
}

void AddRound(Records& records, int64_t round) {
  for (int32_t stage = 0; stage < kStages; ++stage) {
    RoundCommit commit{stage, round, {}};
    for (int32_t replica = 0; replica < kReplicas; ++replica) {
      commit.participants.push_back({NodeAt(stage, replica),
                                     kInnerSteps * kMicrobatches / kReplicas * kTokens,
                                     DigestAt(round, stage, 1 + replica)});
    }
    records.Add(CommitRecord(commit));
    for (int32_t replica = 0; replica < kReplicas; ++replica) {
      records.Add(AppliedRecord(NodeAt(stage, replica),
                                {stage, round, DigestAt(round, stage, 0), 1.5, 0.25}));
    }
  }
}

void AddSteps(Records& records, int64_t first, int64_t last) {
  constexpr int32_t kOfEach = kMicrobatches / kReplicas;
  for (int64_t step = first; step < last; ++step) {
    for (int32_t replica = 0; replica < kReplicas; ++replica) {
      StepReport report{step, {}};
      for (int32_t m = replica * kOfEach; m < (replica + 1) * kOfEach; ++m) {
        report.losses.push_back({m, kTokens, 2 + 100 / static_cast<float>(step + m + 20)});
      }
      records.Add(LossesRecord(NodeAt(0, replica), report));
    }
    if ((step + 1) % kInnerSteps == 0) AddRound(records, step / kInnerSteps);
  }
  records.Flush();
}

struct Restarted {
  double seconds = 0;
  double peak_mib = 0;
};

double PeakMib(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

class LongRun {
 public:
  LongRun() {
    std::string name = (fs::temp_directory_path() / "skerry-restart-XXXXXX").string();
    SKERRY_CHECK(mkdtemp(name.data()) != nullptr, "a temporary directory");
    root_ = name;
    std::ofstream(root_ + "/run.toml") << FormatRunConfig(Config());
    std::ofstream text(root_ + "/text");
    for (int i = 0; i < 5000; ++i) text << "the tide comes in and goes out, " << i << "\n";
    text.close();
    Command({"init", run(), "--config", root_ + "/run.toml", "--data", root_ + "/text"});
  }
  ~LongRun() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  std::string run() const { return root_ + "/run"; }
  std::string snapshot() const { return run() + "/snapshot"; }

  double Command(const std::vector<std::string>& arguments) const {
    const auto began = Clock::now();
    CommandLine line = Program();
    line.insert(line.end(), arguments.begin(), arguments.end());
    const auto said = RunAndCapture(line);
    if (!said.ok()) std::fprintf(stderr, "%s\n", std::string(said.status().message()).c_str());
    SKERRY_CHECK(said.ok(), "the command must succeed");
    return SecondsSince(began);
  }

  // Until it says how the run stands; then it is killed.
  Restarted Restart() const {
    fs::remove(run() + "/status.json");
    CommandLine line = Program();
    for (const char* argument :
         {"serve", "--bind", "tcp://127.0.0.1:0", "--dashboard", "none", "--snapshot-every", "0"}) {
      line.emplace_back(argument);
    }
    line.push_back(run());
    const auto began = Clock::now();
    auto serve = ChildProcess::Start(line, root_ + "/serve.log");
    SKERRY_CHECK(serve.ok(), "it starts");
    while (!fs::exists(run() + "/status.json")) {
      SKERRY_CHECK(serve->Ended().empty(), "it serves");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const Restarted restarted{SecondsSince(began), PeakMib(serve->pid())};
    kill(serve->pid(), SIGKILL);
    serve->Wait();
    return restarted;
  }

 private:
  static CommandLine Program() {
    return {(fs::read_symlink("/proc/self/exe").parent_path() / "skerry-coordinator").string()};
  }
  std::string root_;
};

double MibOf(const std::string& file) {
  return static_cast<double>(fs::file_size(file)) / (1 << 20);
}

double ChildrenPeakMib() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

int Run(int argc, char** argv) {
  bench::Bench report("restart", argc, argv);
  const LongRun run;
  {
    Records records(run.run());
    AddBeginning(records);
    AddSteps(records, 0, kSteps);
    report.AtLeast("records", static_cast<double>(records.written()), "", 1e6);
  }
  report.Record("journal", MibOf(run.run() + "/journal.sqlite"), "MiB");
  report.Record("compact, of all records", run.Command({"compact", run.run()}), "s");
  report.Record("  its memory", ChildrenPeakMib(), "MiB");
  report.Record("snapshot", MibOf(run.snapshot()), "MiB");

  fs::rename(run.snapshot(), run.run() + "/aside");
  const Restarted folded = run.Restart();
  report.Record("restart without snapshot", folded.seconds, "s");
  report.Record("  memory", folded.peak_mib, "MiB");
  fs::rename(run.run() + "/aside", run.snapshot());

  constexpr double kGoal = 5;
  const Restarted fresh = run.Restart();
  report.AtMost("restart from the snapshot", fresh.seconds, "s", kGoal);
  report.Record("  memory", fresh.peak_mib, "MiB");
  {
    Records records(run.run());
    AddSteps(records, kSteps, kSteps + kTailSteps);
    report.Record("records after it", static_cast<double>(records.written()), "");
  }
  report.AtMost("restart from it and these", run.Restart().seconds, "s", kGoal);
  report.Record("compact, of these", run.Command({"compact", run.run()}), "s");
  return report.Finish();
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  return skerry::Run(argc, argv);
}
