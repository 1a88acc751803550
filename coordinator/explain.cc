#include "coordinator/explain.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "common/status.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr size_t kSharesShown = 8;

struct Share {
  std::string from, to;  // as SharesOf
  double seconds = 0;
  double predicted_s = 0;  // of the same tasks and ways, whether they limit the plan or not
  double optimizer_s = 0;  // of `seconds`; no plan speaks of it
};

// What the plan says of a measured task or of the way to it.
class Prediction {
 public:
  explicit Prediction(const std::vector<PathTask>& tasks) : tasks_(tasks), graph_(tasks) {
    for (size_t i = 0; i < tasks.size(); ++i) same_[KeyOf(tasks[i])] = i;
  }
  // 0: nothing.
  double SecondsOf(const PathPart& part, const PathTask& task) const {
    const auto there = same_.find(KeyOf(task));
    if (there == same_.end()) return 0;
    const PathTask& planned = tasks_[there->second];
    if (part.what == PathPart::What::kComputing) return planned.end_s - planned.start_s;
    const size_t source = graph_.source(there->second);
    const bool is_way = part.what == PathPart::What::kWay && source != TaskGraph::kNone &&
                        tasks_[source].node == part.from;
    return is_way ? planned.ready_s - tasks_[source].end_s : 0;
  }

 private:
  using Key = std::tuple<std::string, TracedTask::Kind, int32_t, int32_t>;
  static Key KeyOf(const PathTask& task) {
    return {task.node, task.kind, task.microbatch, task.hop};
  }
  const std::vector<PathTask>& tasks_;
  TaskGraph graph_;
  std::map<Key, size_t> same_;
};

// Of the critical path, the longest first.
std::vector<Share> SharesOfStep(const TracedStep& step) {
  const Prediction predicted(step.predicted);
  std::map<std::pair<std::string, std::string>, Share> by_ends;
  for (const PathPart& part : CriticalPath(step.tasks)) {
    const auto ends = ShareOf(part);
    Share& share = by_ends.try_emplace(ends, Share{ends.first, ends.second}).first->second;
    const PathTask& task = step.tasks[part.task];
    const double seconds = part.end_s - part.start_s;
    const bool is_optimizer =
        part.what == PathPart::What::kComputing && task.kind == TracedTask::Kind::kOptimizer;
    share.seconds += seconds;
    share.predicted_s += predicted.SecondsOf(part, task);
    if (is_optimizer) share.optimizer_s += seconds;
  }
  std::vector<Share> shares;
  for (auto& [ends, share] : by_ends) shares.push_back(std::move(share));
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.seconds > b.seconds; });
  return shares;
}

std::string Time(double seconds) {
  return seconds < 0.1 ? absl::StrFormat("%.1f ms", 1e3 * seconds)
                       : absl::StrFormat("%.3f s", seconds);
}

std::string Name(const RunReport& report, const std::string& node) {
  for (const ReportNode& known : report.nodes) {
    if (known.id == node && !known.region.empty()) return node + " (" + known.region + ")";
  }
  return node;
}

std::string What(const RunReport& report, const std::string& from, const std::string& to) {
  if (to.empty()) return "computing at " + Name(report, from);
  if (to == "queued") return "other work of " + Name(report, from) + "'s device";
  return "the way " + Name(report, from) + " → " + Name(report, to);
}

std::string RemedyText(const RunReport& report, const Remedy& remedy) {
  return remedy.to.empty()
             ? "computing at " + Name(report, remedy.from)
             : "the way between " + Name(report, remedy.from) + " and " + Name(report, remedy.to);
}

int64_t InnerSteps(const RunReport& report) {
  return std::max<int64_t>(1, report.outer.inner_steps);
}

std::string StepText(const RunReport& report, const TracedStep& step) {
  const double measured = step.measured_s();
  std::string text = absl::StrFormat(
      "step %d, in round %d, under plan %d\n"
      "  measured   %s from the first task to the last optimizer step\n",
      step.step, step.step / InnerSteps(report), step.plan_version, Time(measured));
  if (step.predicted_s > 0) {
    text += absl::StrFormat("  predicted  %s a step: the measured one took %+.0f %%\n",
                            Time(step.predicted_s), 100 * (measured / step.predicted_s - 1));
  }
  if (step.is_cut) text += "  of a large fleet: only a part of the microbatches is in the log\n";
  text += "\ncritical path: the chain of tasks and ways that ended last\n";
  const std::vector<Share> shares = SharesOfStep(step);
  for (size_t i = 0; i < std::min(shares.size(), kSharesShown); ++i) {
    const Share& share = shares[i];
    text += absl::StrFormat("  %8s  %3.0f %%  %s", Time(share.seconds),
                            100 * share.seconds / std::max(measured, 1e-9),
                            What(report, share.from, share.to));
    if (share.predicted_s > 0) text += "; predicted " + Time(share.predicted_s);
    if (share.predicted_s > 0 && share.optimizer_s > 0)
      text += ", the optimizer's " + Time(share.optimizer_s) + " apart";
    text += "\n";
  }
  text += "\nwho waited for whom\n";
  for (const auto& [node, idle] : IdleTimes(step.tasks)) {
    text += absl::StrFormat("  %s computed %s, stood idle %s", Name(report, node),
                            Time(idle.busy_s), Time(idle.idle_s));
    std::vector<std::pair<double, std::string>> reasons;
    for (const auto& [other, seconds] : idle.for_node) reasons.push_back({-seconds, other});
    std::sort(reasons.begin(), reasons.end());
    if (!reasons.empty() && idle.idle_s > 0) {
      text += absl::StrFormat(", %s of it for %s", Time(-reasons[0].first),
                              Name(report, reasons[0].second));
    }
    text += "\n";
  }
  text += "\nwhat would have helped most (each in half the time, the order of work as it was)\n";
  for (const Remedy& remedy : Remedies(step.tasks)) {
    text += absl::StrFormat("  %s a step, %.0f %% less: %s\n", Time(remedy.step_s),
                            100 * (1 - remedy.step_s / std::max(measured, 1e-9)),
                            RemedyText(report, remedy));
  }
  return text;
}

std::vector<const ReportRound*> StagesOf(const RunReport& report, int64_t number) {
  std::vector<const ReportRound*> stages;
  for (const ReportRound& round : report.rounds) {
    if (round.round == number) stages.push_back(&round);
  }
  return stages;
}

std::string RoundText(const RunReport& report, int64_t number) {
  std::string text = absl::StrFormat("round %d\n", number);
  for (const ReportRound* round : StagesOf(report, number)) {
    text += absl::StrFormat("  stage %d: frozen with %d delta%s at %s", round->stage,
                            round->participants, round->participants == 1 ? "" : "s",
                            HumanSeconds(round->committed_s));
    if (round->transfer_s > 0) {
      text += absl::StrFormat("; under way %.3f s, %.0f %% of it hidden behind training",
                              round->transfer_s,
                              100 * std::max(0.0, 1 - round->wait_s / round->transfer_s));
      if (round->wait_s > 0) text += absl::StrFormat(", %.3f s waited for", round->wait_s);
    }
    if (!round->last.empty()) {
      text += absl::StrFormat("; %s came to its end last: the others waited for it",
                              Name(report, round->last));
    }
    text += round->digests.size() > 1 ? "; its replicas do NOT agree on the base\n" : "\n";
  }
  for (const ReportEvent& event : report.events) {
    if (event.kind == "absent" &&
        event.text.rfind(absl::StrFormat("Round %d of", number), 0) == 0) {
      text += "  " + event.text + "\n";
    }
  }
  return text;
}

std::optional<int64_t> RoundAsked(const RunReport& report, const TracedStep* trace,
                                  const Question& question) {
  if (question.round) return question.round;
  if (question.step) return *question.step / InnerSteps(report);
  if (trace != nullptr) return trace->step / InnerSteps(report);
  if (report.rounds.empty()) return std::nullopt;
  return report.rounds.back().round;
}

}  // namespace

absl::StatusOr<std::string> ExplainText(const RunReport& report, const TracedStep* trace,
                                        const Question& question) {
  const auto round = RoundAsked(report, trace, question);
  const bool has_round = round && !StagesOf(report, *round).empty();
  if (trace == nullptr && !has_round) {
    return NotFound(
        "the event log has no step or round like that: %d steps and %d rounds are in it "
        "[SK-explain-nothing]",
        report.steps, report.outer_rounds);
  }
  std::string text;
  if (trace != nullptr) {
    if (question.step && *question.step != trace->step) {
      text += absl::StrFormat("step %d was not traced; the nearest that was:\n\n", *question.step);
    } else if (question.round && trace->step / InnerSteps(report) != *question.round) {
      text += absl::StrFormat("no step of round %d was traced; the nearest that was:\n\n",
                              *question.round);
    }
    text += StepText(report, *trace);
  } else {
    text += "no step was traced: ways and tasks are not in this log\n";
  }
  if (has_round) text += "\n" + RoundText(report, *round);
  return text;
}

Json ExplainJson(const RunReport& report, const TracedStep* trace, const Question& question) {
  Json answer = {{"step", nullptr}, {"rounds", Json::array()}};
  if (trace != nullptr) {
    Json path = Json::array(), idle = Json::object(), remedies = Json::array();
    for (const Share& share : SharesOfStep(*trace)) {
      path.push_back({{"from", share.from},
                      {"to", share.to},
                      {"seconds", share.seconds},
                      {"predicted_s", share.predicted_s},
                      {"optimizer_s", share.optimizer_s}});
    }
    for (const auto& [node, times] : IdleTimes(trace->tasks)) {
      idle[node] = {{"busy_s", times.busy_s}, {"idle_s", times.idle_s}, {"for", times.for_node}};
    }
    for (const Remedy& remedy : Remedies(trace->tasks)) {
      remedies.push_back({{"from", remedy.from}, {"to", remedy.to}, {"step_s", remedy.step_s}});
    }
    answer["step"] = {{"step", trace->step},
                      {"plan", trace->plan_version},
                      {"measured_s", trace->measured_s()},
                      {"predicted_s", trace->predicted_s},
                      {"critical_path", path},
                      {"nodes", idle},
                      {"half_the_time", remedies}};
  }
  const auto number = RoundAsked(report, trace, question);
  if (!number) return answer;
  for (const ReportRound* round : StagesOf(report, *number)) {
    answer["rounds"].push_back({{"stage", round->stage},
                                {"round", round->round},
                                {"participants", round->participants},
                                {"transfer_s", round->transfer_s},
                                {"wait_s", round->wait_s},
                                {"last", round->last}});
  }
  return answer;
}

}  // namespace skerry
