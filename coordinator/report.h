// The report of a run: what happened, from the event log alone, as numbers (report.json) and as one
// page (report.html) that needs nothing but a browser.
//
// The event log is the coordinator's events.jsonl: one JSON object a line with `t` (seconds since
// that process began to serve), `utc` and `kind`. A coordinator that was killed and started again
// appends to the same file with `t` at zero: times here are seconds since the first line, put
// together from both. A line that cannot be read (a crash in mid-write) is counted and left out.
// What a later line says about the same step or round replaces what an earlier one said.
//
// Not thread-safe, no state. Errors: NotFound for a file that is not there, InvalidArgument for one
// that is no event log or no JSON, with its name; Unavailable when a report cannot be written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/step_paths.h"

namespace skerry {

// (step, loss in nat), in order of steps.
using LossCurve = std::vector<std::pair<int64_t, double>>;

struct ReportNode {
  std::string id;  // NodeId::Short()
  std::string region;
  std::string device;
  double gflops = 0;
  int64_t held_bytes = 0;       // the most its stage held; 0: not known
  int64_t model_bytes = 0;      // what the memory model said
  int64_t rounds_screened = 0;  // in which its delta counted for little or nothing
  bool is_screened = false;     // and it was told
};

struct ReportLink {
  double rtt_ms = 0;
  double mbps = 0;
  bool relayed = false;  // measured so
  double at_s = 0;       // when, the last time
};

// From one region to another, as the scenario of an emulated run has it.
struct ConfiguredLink {
  double rtt_ms = 0;
  double mbps = 0;  // of one pair of nodes; 0: no limit
};

// Nodes that were tested for a line that they share (routing/access_lines.h).
struct ReportHouse {
  std::vector<std::string> nodes;
  std::vector<std::string> sharing;
  double mbps = 0;  // that the sharing carry together; of one node to several at once
  std::string Text() const;
};

struct ReportStage {
  int64_t first_layer = 0;
  int64_t last_layer = 0;  // layers [first_layer, last_layer)
  std::vector<std::string> replicas;
  int64_t parameters = 0;  // 0: the log does not say
};

// One outer round of one stage, as the replica saw it that came to its boundary last: the others
// waited for that first.
struct ReportRound {
  int64_t stage = 0;
  int64_t round = 0;
  double committed_s = 0;  // when its set of messages was frozen
  double transfer_s = 0;   // boundary → everything needed was here
  double wait_s = 0;       // of that, the device stood idle
  double landed_s = 0;     // when the last replica said it had applied it; 0: none did
  int64_t participants = 0;
  // Of the newest rounds, where the log says it: whose deltas are in it, and which replicas of its
  // stage are not, with why. The first kNamedMax of each.
  static constexpr size_t kNamedMax = 8;
  std::vector<std::string> took_part;  // empty: not known
  bool is_missing_known = false;
  std::vector<std::pair<std::string, std::string>> missing;  // (node, "left")
  int64_t missing_count = 0;
  std::string last;  // the replica that came to its boundary last
  // Of the replicas that had its boundary, in all: deltas and sums, headers included.
  double bytes_sent = 0;
  double bytes_received = 0;
  int64_t replicas = 0;
  std::map<std::string, int64_t> digests;  // of the base after it: how many hold it

  // Of its transfer; 1 where that is not known.
  double HiddenShare() const { return transfer_s > 0 ? std::max(0.0, 1 - wait_s / transfer_s) : 1; }
};

// Sums over rounds of one stage that are not kept one by one any more.
struct OlderRounds {
  int64_t rounds = 0;
  int64_t replicas = 0;
  double transfer_s = 0, wait_s = 0;
  double bytes_sent = 0, bytes_received = 0;
};

struct ReportEvent {
  double at_s = 0;
  std::string kind;
  std::string text;  // one sentence
  bool bad = false;  // a death or a disagreement
};

// Of the outer rounds, as the last plan has them; 0: the log does not say.
struct ReportOuter {
  int64_t inner_steps = 0;
  int64_t overlap_steps = 0;
  std::string codec;
  int64_t fragments = 0;
};

// Everything a report shows. Optional values are unknown, not zero.
struct RunReport {
  std::string run;
  std::string name;
  std::string software;
  std::string started_utc;
  bool finished = false;
  int64_t unreadable_lines = 0;

  std::optional<double> loss_initial;
  std::optional<double> loss_final;
  std::optional<double> loss_reference;
  std::optional<double> hidden_fraction;  // share of the rounds' transfer time nobody waited for
  std::optional<int64_t> bytes_up;        // sent by the nodes, all classes
  std::optional<int64_t> bytes_down;
  int64_t tokens = 0;
  int64_t parameters = 0;
  int64_t steps = 0;
  int64_t outer_rounds = 0;
  double skip_ratio = 0;
  double wall_s = 0;
  uint64_t seed = 0;

  // (step, when), in order of steps; beside each, the tokens trained on until then. Of a log of
  // many steps an entry may stand for several: the step is their last.
  std::vector<std::pair<int64_t, double>> step_ended_s;
  std::vector<int64_t> step_tokens;
  std::optional<double> planned_s;  // when the first plan was made

  LossCurve training;
  LossCurve validation;
  LossCurve reference;
  std::vector<ReportNode> nodes;  // ordered by region, then id
  std::vector<ReportStage> stages;
  ReportOuter outer;
  std::map<std::pair<std::string, std::string>, ReportLink> links;  // (from, to)
  std::vector<ReportHouse> houses;
  std::map<std::pair<std::string, std::string>, ConfiguredLink> configured;  // by region
  std::vector<ReportRound> rounds;              // ordered by stage, then round
  std::map<int64_t, OlderRounds> older_rounds;  // by stage
  std::vector<ReportEvent> events;              // in order of time
  std::shared_ptr<const TracedStep> trace;      // the newest; may be null
  // Of traced steps: when, and the share of it that the devices of who worked in it were busy.
  std::vector<std::pair<double, double>> busy;
  std::string plan_reason;  // the planner's own account of the last plan
  std::string sample;
  std::string command;

  // Short enough to stand in one line among the events; a longer account has a section of its own.
  bool IsPlanReasonPhrase() const;
  int64_t RegionCount() const;
  int64_t ReplicaCountMin() const;  // of the stage with the fewest; 0 without a plan
  // Between the regions of two nodes; nullptr: nothing was said of them.
  const ConfiguredLink* ConfiguredBetween(const std::string& from, const std::string& to) const;
};

// How far measured links are from configured ones, as shares of the latter.
inline constexpr double kLinkTolerance = 0.10;
struct Offsets {
  double median = 0;
  double worst = 0;
};
struct LinkAccuracy {
  int64_t links = 0;   // measured, and configured with a delay and a rate
  int64_t within = 0;  // of them, round trip and rate both within kLinkTolerance
  Offsets rtt, rate;
};
LinkAccuracy AccuracyOf(const RunReport& report);
std::string LinkAccuracyText(const LinkAccuracy& accuracy);  // one sentence; "" without links

// The outer rounds of one stage together.
struct StageRounds {
  int64_t stage = 0;
  int64_t rounds = 0;
  double bits_up = 0;  // per parameter and round of one replica, headers included; 0: not known
  double bits_down = 0;
  double transfer_s = 0;  // median over rounds
  double hidden = 1;      // share of the transfer nobody stood idle for
  std::string digest;     // of the base after the last round, which `agreed` of `replicas` hold
  int64_t agreed = 0;
  int64_t replicas = 0;
};
std::vector<StageRounds> RoundsByStage(const RunReport& report);

// A dozen, of any stage, the last committed first. They live as long as the report.
std::vector<const ReportRound*> NewestRounds(const RunReport& report);

// `extra` is what the log cannot know: {"loss_initial": x, "loss_final": x, "loss_reference": x or
// null, "validation": [[step, loss], …], "reference_curve": [[step, loss], …], "sample": "…",
// "command": "…", "links_configured": [{"from": region, "to": region, "rtt_ms": x, "mbps": x}, …]},
// each optional. Without its losses the first and the mean of the last ten steps'
// training losses stand in. Several logs are read one after another. `on_read` is told the share of
// a log that is read, line by line.
absl::StatusOr<RunReport> BuildReport(const std::vector<std::filesystem::path>& event_logs,
                                      const std::optional<std::filesystem::path>& extra,
                                      const std::function<void(double)>& on_read = {});

// The report of event lines that are in memory already; lines that cannot be read are counted.
RunReport ReportOfLines(std::string_view lines);

// report.json: one object of figures (unknown ones are null) and the curves under "curves".
std::string ReportJson(const RunReport& report);

// report.html: no scripts, no fonts, no other files; every text from outside is escaped.
std::string ReportHtml(const RunReport& report);

// Writes report.json and report.html into `directory`, which is created.
absl::Status WriteReport(const RunReport& report, const std::filesystem::path& directory);

}  // namespace skerry
