#include "coordinator/leader_program.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// A standby announces itself every 3 s.
constexpr double kReadyS = 10;
constexpr auto kLookEvery = std::chrono::seconds(2);

// Of a copied directory the file names a process that never opened it. Where that cannot be seen,
// as of another user's process, it is taken at its word.
bool MayHaveOpen(const std::string& process, const struct stat& file) {
  std::error_code unseen;
  std::filesystem::directory_iterator open("/proc/" + process + "/fd", unseen), end;
  for (; !unseen && open != end; open.increment(unseen)) {
    struct stat there {};
    if (stat(open->path().c_str(), &there) != 0) continue;
    if (there.st_dev == file.st_dev && there.st_ino == file.st_ino) return true;
  }
  return static_cast<bool>(unseen);
}

// Whoever serves the directory wrote there who it is when it began, and locks it. To try the lock
// would keep somebody out who begins at this moment.
Json OfDirectory(const std::string& directory) {
  const std::string path = directory + "/lock";
  Json leader = {{"store", "sqlite"}, {"leads", false}, {"epoch", 0}, {"standbys", Json::array()}};
  std::string process, program;
  std::ifstream lock(path);
  if (!std::getline(lock, process)) return leader;
  std::ifstream named("/proc/" + process + "/comm");
  std::getline(named, program);
  struct stat file {};
  if (!program.starts_with("skerry-coord") || stat(path.c_str(), &file) != 0) return leader;
  if (!MayHaveOpen(process, file)) return leader;
  leader["leads"] = true;
  leader["holder"] = "process " + process;
  leader["since_s"] = std::difftime(std::time(nullptr), file.st_mtim.tv_sec);
  return leader;
}

Json OfDatabase(PostgresJournal& journal) {
  const auto company = journal.WhoIsThere();
  if (!company.ok()) return {{"error", ErrorText(company.status())}};
  const PostgresJournal::Lease& lease = company->lease;
  Json standbys = Json::array();
  for (const PostgresJournal::Coordinator& there : company->coordinators) {
    if (lease.IsHeld() && there.endpoint == lease.endpoint) continue;
    standbys.push_back({{"endpoint", there.endpoint},
                        {"silent_s", there.silent_s},
                        {"ready", there.silent_s < kReadyS}});
  }
  Json leader = {{"leads", lease.IsHeld()},        {"holder", lease.holder},
                 {"endpoint", lease.endpoint},     {"epoch", lease.epoch},
                 {"left_s", lease.left_s},         {"records", company->records},
                 {"standbys", std::move(standbys)}};
  if (company->led_s >= 0) leader["since_s"] = company->led_s;
  return leader;
}

std::string Ago(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

std::string LeaderLine(const Json& leader) {
  const auto epoch = leader.value("epoch", int64_t{0});
  const std::string in_epoch = epoch > 0 ? absl::StrFormat(" in epoch %d", epoch) : "";
  if (!leader.value("leads", false)) {
    return epoch > 0 ? absl::StrFormat("leader: nobody; the lease of epoch %d has ended\n", epoch)
                     : "leader: nobody serves this run\n";
  }
  std::string line = "leader: " + leader.value("holder", "") + in_epoch;
  if (leader.contains("endpoint")) line += " at " + leader.value("endpoint", "");
  if (leader.contains("since_s")) line += ", for " + Ago(leader.value("since_s", 0.0));
  return line + "\n";
}

}  // namespace

Json LeadershipJson(const JournalStore& store) {
  if (!store.postgres) return OfDirectory(store.directory);
  Json leader = {{"error", ""}};
  const auto journal = OpenJournal(store, JournalAccess::kReadOnly);
  if (!journal.ok()) {
    leader["error"] = ErrorText(journal.status());
  } else {
    leader = OfDatabase(dynamic_cast<PostgresJournal&>(**journal));
  }
  leader["store"] = "postgresql";
  return leader;
}

std::string SilenceText(const std::string& directory, const Json& leader) {
  constexpr double kLateS = 5;
  struct stat status {};
  const bool is_here = leader.value("leads", false) && leader.value("store", "") == "sqlite";
  if (!is_here || stat((directory + "/status.json").c_str(), &status) != 0) return "";
  // What is older than its process is of the one before.
  const double silent_s = std::min(std::difftime(std::time(nullptr), status.st_mtim.tv_sec),
                                   leader.value("since_s", 0.0));
  if (silent_s < kLateS) return "";
  return "it has said nothing for " + Ago(silent_s) + "; what follows is as it was then\n";
}

std::string LeadershipText(const Json& leader) {
  if (leader.contains("error")) {
    return "leader: not known: " + leader.value("error", "") + "\n";
  }
  std::string text = LeaderLine(leader);
  for (const Json& standby : leader.value("standbys", Json::array())) {
    const double silent_s = standby.value("silent_s", 0.0);
    text += "standby: " + standby.value("endpoint", "");
    if (standby.value("ready", false)) {
      text += absl::StrFormat(", seen %s ago; reads %d records from the database to take over\n",
                              Ago(silent_s), leader.value("records", int64_t{0}));
    } else {
      text += absl::StrFormat(", silent for %s: it would not take over\n", Ago(silent_s));
    }
  }
  if (leader.value("store", "") == "postgresql" && leader["standbys"].empty()) {
    text += "standby: none\n";
  }
  return text;
}

void LeaderWatch::Look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kLookEvery;
  const auto store = StoreOf(directory_);
  if (!store.ok()) return;
  const Json leader = LeadershipJson(*store);
  std::string who = leader.value("holder", "") + std::to_string(leader.value("epoch", int64_t{0})) +
                    (leader.value("leads", false) ? "+" : "-");
  for (const Json& standby : leader.value("standbys", Json::array())) {
    who += standby.value("endpoint", "") + (standby.value("ready", false) ? "+" : "-");
  }
  if (who == std::exchange(said_, who)) return;
  std::printf("%s", LeadershipText(leader).c_str());
  std::fflush(stdout);
}

}  // namespace skerry
