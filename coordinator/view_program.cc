#include "coordinator/view_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "common/terminal.h"
#include "coordinator/leader_program.h"
#include "coordinator/listings.h"
#include "coordinator/nodes_table.h"
#include "coordinator/run_directory.h"
#include "coordinator/screen.h"
#include "wire/config.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// As the coordinator wrote it last; null where none has.
absl::StatusOr<Json> WrittenStatus(const std::string& directory) {
  const std::string path = RunDirectory{directory}.File("status.json");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Json();
  std::ifstream in(path);
  Json status = Json::parse(in, nullptr, false);
  const bool is_whole = status.is_object() && status.contains("phase") && status.contains("nodes");
  if (is_whole) return status;
  return DataLoss(
      "%s: want the picture of the run that serving writes each second, got something else; "
      "remove it, and serve writes it anew: skerry-coordinator serve %s [SK-status-damaged]",
      path, directory);
}

// Who is here is known while somebody serves; else what follows is what the journal said last.
std::string UnservedText(const std::string& directory, const Json& leader) {
  if (leader.contains("error") || leader.value("leads", false)) return "";
  struct stat status {};
  const std::string path = RunDirectory{directory}.File("status.json");
  if (stat(path.c_str(), &status) != 0) return "nobody serves this run\n";
  char when[32];
  std::tm parts{};
  gmtime_r(&status.st_mtim.tv_sec, &parts);
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
  return absl::StrFormat("nobody serves this run; as it was at %s UTC:\n", when);
}

}  // namespace

absl::Status PrintStatus(const std::string& directory, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(directory));
  const Json leader = LeadershipJson(store);
  SKERRY_ASSIGN_OR_RETURN(Json status, WrittenStatus(directory));
  // A standby's directory has none, nor one whose first serve has only begun: there is still
  // something to say.
  if (!status.is_object() && !store.postgres && !leader.value("leads", false)) {
    return NotFound("%s was never served; start it: skerry-coordinator serve %s [SK-run-unserved]",
                    directory, directory);
  }
  if (json) {
    if (!status.is_object()) status = Json::object();
    status["leader"] = leader;
    std::cout << status.dump(2) << "\n";
    return absl::OkStatus();
  }
  std::cout << LeadershipText(leader) << SilenceText(directory, leader);
  if (status.is_object()) std::cout << StatusScreen(status);
  return absl::OkStatus();
}

absl::Status PrintNodes(const std::string& directory, bool json) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedRun run, OpenRunDirectory(directory));
  SKERRY_ASSIGN_OR_RETURN(const RunState state, LoadRunState(run.directory));
  const Json leader = LeadershipJson(run.store);
  // Without it only the memory that nodes hold is not known.
  const Json nodes = NodesJson(state, run.config, WrittenStatus(directory).value_or(Json()));
  const auto terminal = TerminalAt(STDOUT_FILENO);
  std::cout << (json ? nodes.dump(2) + "\n"
                     : UnservedText(directory, leader) +
                           NodesTable(nodes, terminal ? terminal->columns : 0));
  return absl::OkStatus();
}

absl::Status CheckConfig(const std::string& file) {
  SKERRY_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(file));
  std::cout << FormatRunConfig(config) << "# digest " << ConfigDigest(config).Hex() << "\n";
  if (const std::string note = NotesOn(config); !note.empty()) std::cerr << note << "\n";
  return absl::OkStatus();
}

std::string NotesOn(const RunConfig& config) {
  if (config.inner.warmup_steps <= config.steps) return "";
  return absl::StrFormat(
      "note: [inner] warmup_steps (%d) is more than [run] steps (%d): the learning rate never "
      "reaches its value",
      config.inner.warmup_steps, config.steps);
}

std::string ConfigNote(const std::string& directory) {
  const auto config = LoadRunConfig(RunDirectory{directory}.File("run.toml"));
  const std::string note = config.ok() ? NotesOn(*config) : "";
  return note.empty() ? "" : note + "\n";
}

}  // namespace skerry
