// What is to be seen of a run's directory: its files as they are now, and the pieces of the page
// made of them, at most twice a second however many look.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/event_tail.h"

namespace skerry {

// Thread-safe.
class DashboardPicture {
 public:
  explicit DashboardPicture(std::filesystem::path directory);

  struct Piece {
    std::string id, html;
    int64_t changed = 0;  // in which version
  };
  struct View {
    std::vector<Piece> pieces;
    int64_t version = 0;
    std::string seen;  // "<process>-<version>": what a viewer who has the page has seen
    double now_s = 0;
    std::string page;
    std::string admission;  // digest of admission.json: another one, something new
  };

  std::shared_ptr<const View> Now();
  // The version in View::seen; 0: it is of another process, or nothing.
  int64_t VersionIn(const std::string& seen) const;
  std::string Status();   // status.json
  std::string Metrics();  // in Prometheus' text format
  // Some of the nodes, as markup (NodeTable, in its section).
  std::string Nodes(size_t first, const std::string& find);
  // Reads on in a history that was not read yet. False: there is no more of it.
  bool ReadOn();
  std::string Report();  // as JSON
  // The pieces as they were `seconds` into the run, as JSON.
  absl::StatusOr<std::string> At(double seconds);
  // Lines of events.jsonl.
  absl::StatusOr<std::string> Events(int64_t first, int64_t count);
  // admission.json; "" when the coordinator wrote none yet.
  std::string Admission() const;

  static constexpr int64_t kEventsMax = 1000;
  static constexpr int64_t kReadAtOnce = 4 << 20;  // of events, so that nobody waits for long

 private:
  void ReadStatus();
  void Refresh();

  std::mutex mutex_;
  const std::string process_;
  const std::filesystem::path directory_;
  EventTail tail_;
  std::string status_text_ = "{}\n";
  nlohmann::json status_;
  double status_age_s_ = 0;
  std::chrono::steady_clock::time_point made_;
  std::shared_ptr<const View> view_;
};

}  // namespace skerry
