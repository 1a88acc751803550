// Who leads a run, since when, in which epoch, and who would take over: what `status` and `watch`
// show first.
//
// With SQLite that is whether a process holds the directory's lock; with PostgreSQL the lease and
// what coordinators announced, by the database's clock. A standby keeps no copy of anything: it is
// as far as the database, and what it has to do when it takes over is to read the journal. So the
// measure of it is how long ago it gave a sign, and how many records there are to read.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "coordinator/journal_store.h"

namespace skerry {

// "store", "leads" and "holder", "endpoint", "since_s", "epoch", "left_s", "records", "standbys"
// [{"endpoint", "silent_s", "ready"}] as far as they are known; "error": why they are not.
nlohmann::json LeadershipJson(const JournalStore& store);

// A line for the leader, and one for each standby.
std::string LeadershipText(const nlohmann::json& leader);
// A line where the process that leads here no longer writes DIR/status.json each second; else "".
std::string SilenceText(const std::string& directory, const nlohmann::json& leader);

// For `watch`: prints them again when who leads, or who stands by, has changed.
class LeaderWatch {
 public:
  explicit LeaderWatch(std::string directory) : directory_(std::move(directory)) {}
  void Look();  // asks at most every two seconds

 private:
  std::string directory_, said_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace skerry
