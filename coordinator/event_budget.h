// Keeps events.jsonl small: a week of it stays under kWeekBytes, whatever the run does.
//
// Each group of events that come often (steps, rounds, links, the rest) has bytes saved up, and
// more of them every second. While it has some, every event is a line of its own: so it is in every
// short run. When they are spent, what comes is told together, when there are bytes again:
//
//   steps    one line for all steps since the last: "first", "step" (the last), "steps", "loss"
//            (the mean), "tokens" (the sum)
//   applied  with its round: one line "round_sum" with who came last and who is missing, bytes, and
//            how many replicas hold which digest; if rounds are too many even so, every so many,
//            with "left_out"
//   link     the newest reading of a pair, with "age_s"
//   screened one line a node, with "count"
//   others   of kOftenKinds: "left_out" says how many there were of which kind
//
// All other kinds (nodes, plans, checkpoints, what went wrong) are rare, and always written. Traces
// have a budget of their own (coordinator/tracing.h). Nothing of the audit depends on this: it
// reads the journal. Pure and not thread-safe; times are seconds of any clock that goes on.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace skerry {

class EventBudget {
 public:
  static constexpr double kWeekBytes = 200e6;
  static constexpr int64_t kLineBytes = 72;  // of what stands around the fields: t, utc, kind
  static constexpr size_t kLinksMax = 20'000;
  static constexpr size_t kRoundsMax = 4096;
  static constexpr double kTellLeftOutEveryS = 600;

  // `already`: bytes that the file holds: they were saved up before.
  explicit EventBudget(int64_t already = 0);

  // (kind, fields): what is to be written, in this order. `fields`: members of a JSON object,
  // without its braces.
  using Lines = std::vector<std::pair<std::string, std::string>>;
  Lines On(double now_s, const std::string& kind, const std::string& fields);
  // What waits to be told; when the process ends.
  Lines Flush(double now_s);

 private:
  using Json = nlohmann::json;
  struct Purse {
    double burst, per_second;
    double left = burst;
    double at_s = 0;
  };
  struct Steps {
    int64_t first = 0, last = 0, count = 0, tokens = 0, microbatches = 0, finite = 0;
    double loss = 0;  // the sum of the finite ones
  };
  struct Round {
    double at_s = 0;  // when it was frozen
    int64_t participants = 0, told = 0, replicas = 0;
    double transfer_s = 0, wait_s = 0, bytes_sent = 0, bytes_received = 0;
    std::string last;
    std::map<std::string, int64_t> digests;
    Json missing = Json::array();
    int64_t missing_count = 0;
  };
  struct Link {
    std::string fields;
    double at_s = 0;
  };

  void Earn(double now_s);
  void Write(Purse& purse, const std::string& kind, std::string fields, Lines& lines);
  void Write(Purse& purse, const std::string& kind, const Json& fields, Lines& lines);
  void OnStep(const std::string& fields, Lines& lines);
  void OnRound(double now_s, const std::string& fields, Lines& lines);
  void OnApplied(double now_s, const std::string& fields, Lines& lines);
  void OnLink(double now_s, const std::string& fields, Lines& lines);
  void OnOften(double now_s, const std::string& kind, const std::string& fields, Lines& lines);
  void TellSteps(Lines& lines);
  void TellRound(double now_s, std::map<std::pair<int64_t, int64_t>, Round>::iterator round,
                 bool always, Lines& lines);
  void TellLinks(double now_s, bool all, Lines& lines);
  void TellLeftOut(double now_s, Lines& lines);

  // 4 MB and 100 bytes/s are the traces': with these 196 MB in a week.
  Purse steps_purse_{8e6, 50};
  Purse rounds_purse_{6e6, 50};
  Purse links_purse_{4e6, 30};
  Purse rest_purse_{4e6, 45};
  Steps steps_;
  std::map<std::pair<int64_t, int64_t>, Round> rounds_;  // by stage and round; those held together
  std::map<int64_t, int64_t> rounds_left_out_;           // by stage
  std::map<std::pair<std::string, std::string>, Link> links_;
  std::deque<std::pair<std::string, std::string>> link_order_;  // in which they are told
  std::map<std::string, std::pair<int64_t, Json>> screened_;    // node → how often, the last one
  std::map<std::string, int64_t> left_out_;                     // by kind
  double left_out_told_s_ = 0;
};

}  // namespace skerry
