#include "coordinator/held_out_program.h"

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
#include "wire/interrupt.h"

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

BecomesProgram Evaluating(const FinalEvaluation& what, const std::string& model,
                          const std::string& answer) {
  return BecomesProgram(
      {what.node, "evaluate", "--model", model, "--data", what.directory + "/data", "--windows",
       std::to_string(what.windows), "--context", std::to_string(what.context), "--json"},
      answer);
}

// Takes the answer away. `told`: what is known beside loss and tokens.
absl::Status KeepAnswer(const std::string& directory, bool answered, Json told) {
  const std::string place = directory + "/held-out", answer = place + "/answer";
  const Json said = ReadAnswer(answer);
  const std::string text = ReadSmallFile(answer, kAnswerBytesMax).value_or("it said nothing");
  std::error_code error;
  fs::remove_all(place, error);
  if (!answered || !said.contains("loss") || !said["loss"].is_number()) {
    return FailedPrecondition("step %d: %s", told.value("step", int64_t{0}),
                              text.substr(0, text.find('\n')));
  }
  told["loss"] = said["loss"];
  told["tokens"] = said.value("tokens", int64_t{0});
  return WriteFileAtomically(place + ".json", told.dump() + "\n");
}

absl::Status MakePlace(const std::string& place) {
  std::error_code error;
  fs::create_directories(place, error);
  return error ? Unavailable("%s: %s", place, error.message()) : absl::OkStatus();
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

int64_t HeldOutWindows(int64_t context) {
  return std::max(kHeldOutWindowsMin, kHeldOutTokens / std::max<int64_t>(context, 1));
}

std::string WhyNoHeldOut(const OpenedRun& run, bool asked_for, const std::string& node) {
  const TransformerConfig& model = run.config.model;
  if (node.empty()) return "skerry-node, which computes it, is not installed here";
  const int64_t parameters = ParameterLayout::ForModel(model).size();
  if (!asked_for && parameters > kHeldOutParametersMax) {
    return absl::StrFormat(
        "the model has %.1f billion parameters; 'serve --held-out %d' asks for it",
        1e-9 * static_cast<double>(parameters), HeldOutWindows(model.context));
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
  SKERRY_RETURN_IF_ERROR(MakePlace(place));
  const std::string answer = place + "/answer";
  const bool answered = RunInChild([&] {
    const absl::Status written = WriteHuggingFace(
        place + "/model", checkpoint.model,
        [&](const auto& take) { return archive.StreamBase(checkpoint, take); }, ExportOptions{});
    if (!written.ok()) {
      WriteFileAtomically(answer, ErrorText(written)).IgnoreError();
      return 1;
    }
    const FinalEvaluation what = {directory, node, windows, checkpoint.step,
                                  checkpoint.model.context};
    return Evaluating(what, place + "/model", answer).Become();
  });
  return KeepAnswer(directory, answered,
                    {{"generation", checkpoint.generation}, {"step", checkpoint.step}});
}

absl::Status EvaluateFinal(const FinalEvaluation& final, const std::function<bool()>& goes_on) {
  const std::string place = final.directory + "/held-out";
  SKERRY_RETURN_IF_ERROR(MakePlace(place));
  bool was_stopped = false;
  const bool answered = RunProgram(Evaluating(final, final.directory + "/model", place + "/answer"),
                                   [&] { return !(was_stopped = !goes_on()); });
  if (!was_stopped) {
    return KeepAnswer(final.directory, answered, {{"final", true}, {"step", final.step}});
  }
  std::error_code error;
  fs::remove_all(place, error);
  return absl::CancelledError("it was not waited for");
}

HeldOutWatcher::HeldOutWatcher(const OpenedRun& run, std::optional<int64_t> windows) {
  const bool is_read = ReadAnswer(run.directory.File("held-out.json")).value("final", false);
  if (windows == 0 || is_read) return;
  const bool asked_for = windows.has_value(), keeps = run.config.checkpoint.every_rounds > 0;
  const std::string node = NodeProgram();
  if (const std::string why = WhyNoHeldOut(run, asked_for, node); !why.empty()) {
    LogLine("no loss on held-out text: " + why);
    return;
  }
  const int64_t count = windows.value_or(HeldOutWindows(run.config.model.context));
  final_ = {run.directory.path, node, count, run.config.steps, run.config.model.context};
  patience_ = asked_for ? kFinalPatienceAskedFor : kFinalPatience;
  if (!keeps) {
    if (asked_for) {
      LogLine("loss on held-out text: at the end only; [checkpoint] every_rounds is 0");
    }
    return;
  }
  child_.emplace([directory = run.directory.path, node, count] {
    const absl::Status done = EvaluateNewest(directory, node, count);
    if (!done.ok()) LogLine("no loss on held-out text: " + ErrorText(done));
    return done.ok();
  });
}

void HeldOutWatcher::ReadFinal(const std::function<void(std::chrono::seconds)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + patience_;
  auto left = patience_;
  LogLine(absl::StrFormat(
      "reading the loss of the finished model on held-out text, for %d s at most; Ctrl-C ends "
      "without it",
      patience_.count()));
  const absl::Status done = EvaluateFinal(final_, [&] {
    const auto now = std::chrono::ceil<std::chrono::seconds>(until - Clock::now());
    if (now < left) tell(left = now);
    return left.count() > 0 && !WasInterrupted();
  });
  if (done.ok()) return;
  LogLine("no loss of the finished model on held-out text: " +
          (WasInterrupted() ? "interrupted"
           : absl::IsCancelled(done)
               ? absl::StrFormat("it took longer than %d s", patience_.count())
               : ErrorText(done)));
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
