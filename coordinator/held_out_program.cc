#include "coordinator/held_out_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/log_program.h"
#include "model/export.h"
#include "model/file_io.h"
#include "model/parameter_layout.h"
#include "model/token_dataset.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kAnswerBytesMax = 1 << 16;

// Beside this program, else wherever programs are; "": there is none.
std::string NodeProgram() {
  std::error_code error;
  std::vector<fs::path> places = {fs::read_symlink("/proc/self/exe", error).parent_path()};
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    places.emplace_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  for (const fs::path& place : places) {
    const std::string program = (place / "skerry-node").string();
    if (!place.empty() && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

Json ReadAnswer(const std::string& path) {
  const auto text = ReadSmallFile(path, kAnswerBytesMax);
  Json json = text.ok() ? Json::parse(*text, nullptr, false) : Json();
  return json.is_object() ? json : Json::object();
}

// Becomes `command`, which writes into the file `out`; returns only where that fails.
int Become(const std::vector<std::string>& command, const std::string& out) {
  const int file = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) return 1;
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv.front(), argv.data());
  return 1;
}

// oneDNN makes its matrix kernels at run time. A service may be forbidden to.
bool MayMakeCode() {
  constexpr size_t kBytes = 4096;
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool may = mprotect(page, kBytes, PROT_READ | PROT_EXEC) == 0;
  munmap(page, kBytes);
  return may;
}

}  // namespace

std::string WhyNoHeldOut(const OpenedRun& run, bool asked_for, const std::string& node) {
  const TransformerConfig& model = run.config.model;
  if (run.config.checkpoint.every_rounds == 0) return "[checkpoint] every_rounds is 0";
  if (node.empty()) return "skerry-node, which computes it, is not installed here";
  const int64_t parameters = ParameterLayout::ForModel(model).size();
  if (!asked_for && parameters > kHeldOutParametersMax) {
    return absl::StrFormat(
        "the model has %.1f billion parameters; 'serve --held-out %d' asks for it",
        1e-9 * static_cast<double>(parameters), kHeldOutWindows);
  }
  if (!MayMakeCode()) {
    return "this service may not make memory executable, which oneDNN wants; its unit says how to "
           "let it";
  }
  const auto data = TokenDataset::Open(run.directory.File("data"), Verify::kSizes);
  if (!data.ok()) return ErrorText(data.status());
  if ((*data)->windows(Split::kValidation, model.context) > 0) return "";
  return absl::StrFormat("fewer than %d tokens of the data are held out", model.context + 1);
}

absl::Status EvaluateNewest(const std::string& directory, const std::string& node,
                            int64_t windows) {
  SKERRY_ASSIGN_OR_RETURN(auto disk, DiskCheckpointFiles::Open(directory + "/checkpoints"));
  CheckpointArchive archive(std::move(disk));
  SKERRY_ASSIGN_OR_RETURN(const auto generations, archive.Generations());
  const std::string place = directory + "/held-out", result = place + ".json";
  if (generations.empty() ||
      ReadAnswer(result).value("generation", int64_t{0}) == generations.back()) {
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(const Checkpoint checkpoint, archive.Load(generations.back()));
  std::error_code error;
  fs::create_directories(place, error);
  if (error) return Unavailable("%s: %s", place, error.message());
  const std::string answer = place + "/answer";
  const bool answered = RunInChild([&] {
    const absl::Status written = WriteHuggingFace(
        place + "/model", checkpoint.model,
        [&](const auto& take) { return archive.StreamBase(checkpoint, take); }, ExportOptions{});
    if (!written.ok()) {
      WriteFileAtomically(answer, ErrorText(written)).IgnoreError();
      return 1;
    }
    return Become(
        {node, "evaluate", "--model", place + "/model", "--data", directory + "/data", "--windows",
         std::to_string(windows), "--context", std::to_string(checkpoint.model.context), "--json"},
        answer);
  });
  const Json said = ReadAnswer(answer);
  const std::string text = ReadSmallFile(answer, kAnswerBytesMax).value_or("it said nothing");
  fs::remove_all(place, error);
  if (!answered || !said.contains("loss") || !said["loss"].is_number()) {
    return FailedPrecondition("step %d: %s", checkpoint.step, text.substr(0, text.find('\n')));
  }
  const Json told = {{"generation", checkpoint.generation},
                     {"step", checkpoint.step},
                     {"loss", said["loss"]},
                     {"tokens", said.value("tokens", int64_t{0})}};
  return WriteFileAtomically(result, told.dump() + "\n");
}

HeldOutWatcher::HeldOutWatcher(const OpenedRun& run, std::optional<int64_t> windows) {
  const bool asked_for = windows.has_value();
  if (windows == 0 || (!asked_for && run.config.checkpoint.every_rounds == 0)) return;
  const std::string node = NodeProgram();
  if (const std::string why = WhyNoHeldOut(run, asked_for, node); !why.empty()) {
    LogLine("no loss on held-out text while it trains: " + why);
    return;
  }
  child_.emplace([directory = run.directory.path, node, count = windows.value_or(kHeldOutWindows)] {
    const absl::Status done = EvaluateNewest(directory, node, count);
    if (!done.ok()) LogLine("no loss on held-out text: " + ErrorText(done));
    return done.ok();
  });
}

HeldOutReader::HeldOutReader(const std::string& directory)
    : path_(directory + "/held-out.json"), newest_(ReadAnswer(path_)) {}

bool HeldOutReader::Look() {
  Json now = ReadAnswer(path_);
  if (now.empty() || now == newest_) return false;
  newest_ = std::move(now);
  return true;
}

}  // namespace skerry
