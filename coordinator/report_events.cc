#include "coordinator/report_events.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

using nlohmann::json;

// Days from 1970-01-01 in the proleptic Gregorian calendar (Hinnant, "chrono-compatible dates").
int64_t DaysFromCivil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

bool IsTrue(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

double NumberAt(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

int64_t IntegerAt(const json& object, const char* key, int64_t otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return otherwise;
  if (found->is_number_integer()) return found->get<int64_t>();
  const double value = found->get<double>();
  return std::abs(value) < 0x1.0p62 ? static_cast<int64_t>(value) : otherwise;
}

std::vector<std::string> TextsAt(const json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const json& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::string TextAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> ParseUtc(const std::string& utc) {
  int year, month, day, hour, minute;
  double second;
  if (std::sscanf(utc.c_str(), "%4d-%2d-%2dT%2d:%2d:%lfZ", &year, &month, &day, &hour, &minute,
                  &second) != 6) {
    return std::nullopt;
  }
  return static_cast<double>(DaysFromCivil(year, month, day) * 86400 + hour * 3600 + minute * 60) +
         second;
}

void EventFold::OnLine(std::string_view line) {
  if (line.empty()) return;
  const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const std::string kind = event.is_object() ? TextAt(event, "kind") : "";
  if (kind.empty()) {
    ++report_.unreadable_lines;
    return;
  }
  ++understood_;
  AdvanceClock(event);
  OnEvent(kind, event);
}

// `t` that falls means a new coordinator process; the calendar says how long the old one was gone.
void EventFold::AdvanceClock(const json& event) {
  const double t = NumberAt(event, "t", process_t_s_);
  const std::optional<double> utc = ParseUtc(TextAt(event, "utc"));
  if (understood_ == 1) {
    report_.started_utc = TextAt(event, "utc");
    process_began_s_ = -t;
    first_utc_s_ = utc;
  } else if (t < process_t_s_ - 1e-3) {
    const double by_calendar = utc && first_utc_s_ ? *utc - *first_utc_s_ : now_s_;
    process_began_s_ = std::max(by_calendar, now_s_) - t;
    process_t_s_ = t;
    now_s_ = process_began_s_ + t;
    Tell("restarted", "The coordinator was started again and went on from its journal.");
  }
  process_t_s_ = std::max(t, process_t_s_);
  now_s_ = process_began_s_ + process_t_s_;
  report_.wall_s = now_s_;
}

void EventFold::Tell(const std::string& kind, std::string text, bool bad) {
  report_.events.push_back({now_s_, kind, std::move(text), bad});
  if (keeps_ == Keeps::kRecent && report_.events.size() > 2 * kEventsRecent) CountOldEvents();
}

// How the run began stays.
void EventFold::CountOldEvents() {
  constexpr size_t kFirst = 32;
  std::vector<ReportEvent>& events = report_.events;
  const auto from = events.begin() + kFirst;
  const auto until = events.end() - kEventsRecent;
  events_left_out_ += until - from - (events_left_out_ > 0 ? 1 : 0);
  const double at_s = (until - 1)->at_s;
  events.erase(from, until);
  events.insert(events.begin() + kFirst,
                {at_s, "left_out",
                 absl::StrFormat("Until here %d things happened that this page does not show; they "
                                 "are in events.jsonl.",
                                 events_left_out_),
                 false});
}

void EventFold::OnEvent(const std::string& kind, const json& event) {
  if (kind == "run") {
    report_.run = TextAt(event, "run");
    report_.name = TextAt(event, "name");
    report_.parameters = IntegerAt(event, "parameters");
    report_.skip_ratio = NumberAt(event, "skip_ratio");
    const auto seed = event.find("seed");
    if (seed != event.end() && seed->is_number_integer()) report_.seed = seed->get<uint64_t>();
  } else if (kind == "link") {
    OnLink(event);
  } else if (kind == "line") {
    OnHouse(event);
  } else if (kind == "step" || kind == "steps") {
    OnStep(event, kind == "steps");
  } else if (kind == "left_out" && TextAt(event, "of") == "round") {
    report_.older_rounds[IntegerAt(event, "stage")].rounds += IntegerAt(event, "count");
  } else if (kind == "plan") {
    OnPlan(event);
  } else if (kind == "round") {
    OnRound(event);
  } else if (kind == "round_sum") {
    OnRoundSum(event);
  } else if (kind == "applied") {
    OnApplied(event);
  } else if (kind == "trace") {
    OnTrace(event);
  } else if (kind == "held_out") {
    OnHeldOut(event);
  } else if (kind == "finished") {
    OnFinished(event);
  } else {
    OnMembership(kind, event);
  }
}

void EventFold::OnStep(const json& event, bool several) {
  StepSeries::Entry entry;
  entry.step = IntegerAt(event, "step");
  entry.first = several ? std::min(entry.step, IntegerAt(event, "first")) : entry.step;
  if (several) entry.steps = std::max<int64_t>(1, IntegerAt(event, "steps", 1));
  entry.tokens = IntegerAt(event, "tokens");
  const double loss = NumberAt(event, "loss", std::nan(""));
  // JSON writes what is not finite as null.
  if (std::isfinite(loss)) entry.finite = entry.steps, entry.loss = loss;
  entry.ended_s = now_s_;
  steps_.Add(entry);
}

void EventFold::OnTrace(const json& event) {
  constexpr size_t kBusyMost = 2048;
  const auto step = std::make_shared<TracedStep>(TraceOf(event));
  report_.trace = step;
  double worked_s = 0;
  std::set<std::string> nodes;
  for (const PathTask& task : step->tasks) {
    worked_s += task.end_s - task.start_s;
    nodes.insert(task.node);
  }
  const double offered_s = step->measured_s() * static_cast<double>(nodes.size());
  // Of a trace that was cut short nothing can be said.
  if (offered_s <= 0 || step->is_cut) return;
  std::vector<std::pair<double, double>>& busy = report_.busy;
  busy.emplace_back(now_s_, std::clamp(worked_s / offered_s, 0.0, 1.0));
  if (keeps_ == Keeps::kAll || busy.size() <= kBusyMost) return;
  for (size_t i = 0; 2 * i < busy.size(); ++i) busy[i] = busy[2 * i];
  busy.resize((busy.size() + 1) / 2);
}

void EventFold::OnLink(const json& event) {
  report_.links[{TextAt(event, "from"), TextAt(event, "to")}] = {
      NumberAt(event, "rtt_ms"), NumberAt(event, "mbps"), IsTrue(event, "relayed"),
      now_s_ - std::max(0.0, NumberAt(event, "age_s"))};
}

// Of a house that has grown the older word is no more.
void EventFold::OnHouse(const json& event) {
  const ReportHouse house{TextsAt(event, "nodes"), TextsAt(event, "sharing"),
                          NumberAt(event, "mbps")};
  std::erase_if(report_.houses, [&](const ReportHouse& known) {
    if ((known.nodes.size() == 1) != (house.nodes.size() == 1)) return false;
    return std::ranges::all_of(known.nodes, [&](const std::string& node) {
      return std::ranges::find(house.nodes, node) != house.nodes.end();
    });
  });
  report_.houses.push_back(house);
  Tell("line", house.Text() + ".");
}

void EventFold::OnPlan(const json& event) {
  const auto stages = event.find("stages");
  if (stages == event.end() || !stages->is_array()) return;
  if (!report_.planned_s) report_.planned_s = now_s_;
  report_.stages.clear();
  for (const json& stage : *stages) {
    if (!stage.is_object()) continue;
    report_.stages.push_back({IntegerAt(stage, "first_layer"), IntegerAt(stage, "last_layer"),
                              TextsAt(stage, "replicas"), IntegerAt(stage, "parameters")});
  }
  std::string text =
      absl::StrFormat("Plan %d: %d stages", IntegerAt(event, "version"), report_.stages.size());
  if (const double step_s = NumberAt(event, "predicted_step_s"); step_s > 0) {
    text += absl::StrFormat(", %.2f s a step predicted", step_s);
    const double bound_s = NumberAt(event, "lower_bound_s");
    if (bound_s > 0) text += absl::StrFormat(" (no plan can do better than %.2f s)", bound_s);
  }
  if (const auto outer = event.find("outer"); outer != event.end() && outer->is_object()) {
    report_.outer = {IntegerAt(*outer, "inner_steps"), IntegerAt(*outer, "overlap_steps"),
                     TextAt(*outer, "codec"), IntegerAt(*outer, "fragments")};
    const std::string mode = TextAt(*outer, "mode");
    text += absl::StrFormat(", %souter rounds with δ %d of τ %d, %s",
                            mode.empty() || mode == "overlap" ? "" : mode + " ",
                            report_.outer.overlap_steps, report_.outer.inner_steps,
                            report_.outer.codec);
  }
  if (const int64_t slow = IntegerAt(event, "slow_links"); slow > 0) {
    text += absl::StrFormat(", activations compressed on %d links", slow);
  }
  report_.plan_reason = TextAt(event, "reason");
  Tell("plan", text + (report_.IsPlanReasonPhrase() ? "; " + report_.plan_reason + "." : "."));
}

// Said again, or of steps that were trained again: the later word counts.
void EventFold::OnHeldOut(const json& event) {
  constexpr size_t kPointsMax = 1024;
  const int64_t step = IntegerAt(event, "step");
  LossCurve& curve = report_.validation;
  while (!curve.empty() && curve.back().first >= step) curve.pop_back();
  curve.emplace_back(step, NumberAt(event, "loss", std::nan("")));
  if (!std::isfinite(curve.back().second)) curve.pop_back();
  if (keeps_ == Keeps::kAll || curve.size() <= kPointsMax) return;
  size_t index = 0;  // every other one stays, and the newest
  std::erase_if(curve, [&](const auto&) { return index++ % 2 == 1 && index < kPointsMax; });
}

void EventFold::OnFinished(const json& event) {
  report_.finished = true;
  report_.steps = IntegerAt(event, "steps");
  report_.tokens = IntegerAt(event, "tokens");
  report_.bytes_up = IntegerAt(event, "bytes_sent");
  report_.bytes_down = IntegerAt(event, "bytes_received");
  report_.outer_rounds = IntegerAt(event, "outer_rounds");
  if (event.contains("hidden_fraction")) {
    report_.hidden_fraction = NumberAt(event, "hidden_fraction");
  }
  Tell("finished", absl::StrFormat("All %d steps are done.", report_.steps));
}

RunReport EventFold::Finish() && {
  RunReport report = std::move(report_);
  int64_t tokens = 0;
  for (const StepSeries::Entry& entry : steps_.entries()) {
    if (entry.finite > 0) report.training.emplace_back(entry.step, entry.loss);
    report.step_ended_s.emplace_back(entry.step, entry.ended_s);
    report.step_tokens.push_back(tokens += entry.tokens);
  }
  int64_t rounds_seen = 0;
  double transfer_s = 0, wait_s = 0;
  for (const auto& [stage, older] : report.older_rounds) {
    transfer_s += older.transfer_s;
    wait_s += older.wait_s;
  }
  for (const auto& [key, round] : rounds_) {
    report.rounds.push_back(round);
    rounds_seen = std::max(rounds_seen, round.round + 1);
    transfer_s += round.transfer_s;
    wait_s += round.wait_s;
  }
  if (!report.finished) {
    report.tokens = steps_.tokens();
    report.steps = steps_.steps();
    report.outer_rounds = rounds_seen;
  }
  if (!report.hidden_fraction && transfer_s > 0) {
    report.hidden_fraction = std::max(0.0, 1.0 - wait_s / transfer_s);
  }
  for (auto& [id, node] : nodes_) report.nodes.push_back(std::move(node));
  std::stable_sort(report.nodes.begin(), report.nodes.end(),
                   [](const ReportNode& a, const ReportNode& b) { return a.region < b.region; });
  return report;
}

}  // namespace skerry
