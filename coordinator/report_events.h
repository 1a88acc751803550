// The event log as a fold: lines in, one RunReport out. Internal to the report.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/report.h"
#include "coordinator/report_series.h"

namespace skerry {

// Feed every line in the order of the file, then take the report once.
class EventFold {
 public:
  // kRecent: what is long past is kept as sums (steps in entries of several, rounds a stage, what
  // happened as a count), so that a fold of any log stays small and is copied in a millisecond.
  enum class Keeps { kAll, kRecent };
  static constexpr size_t kRoundsRecent = 2048;  // of all stages
  static constexpr size_t kEventsRecent = 1024;

  explicit EventFold(Keeps keeps = Keeps::kAll) : keeps_(keeps), steps_(keeps == Keeps::kRecent) {}

  void OnLine(std::string_view line);

  // Lines understood so far; zero after a whole file means that it is no event log.
  int64_t understood() const { return understood_; }
  // Of the last line, in seconds since the first.
  double now_s() const { return now_s_; }

  RunReport Finish() &&;

 private:
  void OnEvent(const std::string& kind, const nlohmann::json& event);
  void OnStep(const nlohmann::json& event, bool several);
  void OnPlan(const nlohmann::json& event);
  void OnRound(const nlohmann::json& event);
  void OnRoundSum(const nlohmann::json& event);
  void OnApplied(const nlohmann::json& event);
  void OnLink(const nlohmann::json& event);
  void OnHouse(const nlohmann::json& event);
  void OnTrace(const nlohmann::json& event);
  void OnScreened(const std::string& node, const nlohmann::json& event);
  bool OnCheckpoint(const std::string& kind, const nlohmann::json& event);
  void OnHeldOut(const nlohmann::json& event);
  void OnFinished(const nlohmann::json& event);
  void OnMembership(const std::string& kind, const nlohmann::json& event);
  void OnComingAndGoing(const std::string& kind, const std::string& node,
                        const nlohmann::json& event);
  void NameWho(const nlohmann::json& event, ReportRound* round);
  void FindMissing(const std::vector<std::string>& took_part, ReportRound* round);
  void AddMissing(const std::string& node, const std::string& why, ReportRound* round);
  void Tell(const std::string& kind, std::string text, bool bad = false);
  void AdvanceClock(const nlohmann::json& event);
  void SumOldRounds();
  void CountOldEvents();

  Keeps keeps_;
  RunReport report_;
  std::map<std::string, ReportNode> nodes_;
  StepSeries steps_;
  std::map<std::pair<int64_t, int64_t>, ReportRound> rounds_;
  std::map<std::pair<std::string, int64_t>, int64_t> screened_;  // node, stage → the last round
  std::map<std::string, std::string> away_;                      // node → why, until it is back
  std::map<std::pair<int64_t, int64_t>, std::set<std::string>> late_;  // by stage and round, not
                                                                       // yet committed
  int64_t events_left_out_ = 0;
  int64_t understood_ = 0;

  // Time since the first line: `process_began_s_` is when the current coordinator process began.
  double now_s_ = 0;
  double process_t_s_ = 0;
  double process_began_s_ = 0;
  std::optional<double> first_utc_s_;
};

// What a fold comes to, complete but for what only an evaluation knows.
RunReport ReportOf(EventFold fold);

// Seconds since 1970 of "2026-08-16T09:30:00Z", with or without a fraction; nothing for other text.
std::optional<double> ParseUtc(const std::string& utc);

// What a JSON object holds under `key`, or `otherwise` when it is missing or of another type.
double NumberAt(const nlohmann::json& object, const char* key, double otherwise = 0);
int64_t IntegerAt(const nlohmann::json& object, const char* key, int64_t otherwise = 0);
std::string TextAt(const nlohmann::json& object, const char* key);
std::vector<std::string> TextsAt(const nlohmann::json& object, const char* key);

}  // namespace skerry
