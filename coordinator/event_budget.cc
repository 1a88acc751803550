#include "coordinator/event_budget.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "coordinator/report_events.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// They may come with every round, or every step, for as long as a run lasts.
constexpr std::array<std::string_view, 9> kOftenKinds = {
    "detour",     "doubted", "replan", "table",   "statistics_refused",
    "state_root", "absent",  "asked",  "held_out"};

bool ComesOften(const std::string& kind) {
  return std::find(kOftenKinds.begin(), kOftenKinds.end(), kind) != kOftenKinds.end();
}

Json ParsedFields(const std::string& fields) {
  Json json = Json::parse("{" + fields + "}", nullptr, false);
  return json.is_object() ? json : Json::object();
}

std::string FieldsOf(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

}  // namespace

EventBudget::EventBudget(int64_t already) {
  double burst = 0;
  const std::array<Purse*, 4> purses = {&steps_purse_, &rounds_purse_, &links_purse_, &rest_purse_};
  for (const Purse* purse : purses) burst += purse->burst;
  const double kept = std::max(0.0, 1 - static_cast<double>(already) / burst);
  for (Purse* purse : purses) purse->left = purse->burst * kept;
}

void EventBudget::Earn(double now_s) {
  for (Purse* purse : {&steps_purse_, &rounds_purse_, &links_purse_, &rest_purse_}) {
    const double earned = std::max(0.0, now_s - purse->at_s) * purse->per_second;
    purse->left = std::min(purse->burst, purse->left + earned);
    purse->at_s = std::max(now_s, purse->at_s);
  }
}

void EventBudget::Write(Purse& purse, const std::string& kind, std::string fields, Lines& lines) {
  purse.left -= static_cast<double>(kLineBytes) + static_cast<double>(kind.size() + fields.size());
  lines.emplace_back(kind, std::move(fields));
}

void EventBudget::Write(Purse& purse, const std::string& kind, const Json& fields, Lines& lines) {
  Write(purse, kind, FieldsOf(fields), lines);
}

EventBudget::Lines EventBudget::On(double now_s, const std::string& kind,
                                   const std::string& fields) {
  Earn(now_s);
  Lines lines;
  // What comes after must not be told before.
  if (kind == "rewind" || kind == "finished") lines = Flush(now_s);
  if (kind == "step") {
    OnStep(fields, lines);
  } else if (kind == "round") {
    OnRound(now_s, fields, lines);
  } else if (kind == "applied") {
    OnApplied(now_s, fields, lines);
  } else if (kind == "link") {
    OnLink(now_s, fields, lines);
  } else if (kind == "screened" || ComesOften(kind)) {
    OnOften(now_s, kind, fields, lines);
  } else if (kind == "trace") {
    lines.emplace_back(kind, fields);
  } else {
    Write(rest_purse_, kind, fields, lines);
  }
  TellLinks(now_s, /*all=*/false, lines);
  return lines;
}

EventBudget::Lines EventBudget::Flush(double now_s) {
  Lines lines;
  TellSteps(lines);
  while (!rounds_.empty()) TellRound(now_s, rounds_.begin(), /*always=*/true, lines);
  TellLinks(now_s, /*all=*/true, lines);
  TellLeftOut(now_s, lines);
  return lines;
}

void EventBudget::OnStep(const std::string& fields, Lines& lines) {
  if (steps_.count == 0 && steps_purse_.left > 0) return Write(steps_purse_, "step", fields, lines);
  const Json step = ParsedFields(fields);
  const int64_t number = IntegerAt(step, "step");
  if (steps_.count == 0) steps_.first = steps_.last = number;
  steps_.first = std::min(steps_.first, number);
  steps_.last = std::max(steps_.last, number);
  ++steps_.count;
  steps_.tokens += IntegerAt(step, "tokens");
  steps_.microbatches += IntegerAt(step, "microbatches");
  const double loss = NumberAt(step, "loss", std::nan(""));
  if (std::isfinite(loss)) ++steps_.finite, steps_.loss += loss;
  if (steps_purse_.left > 0) TellSteps(lines);
}

void EventBudget::TellSteps(Lines& lines) {
  if (steps_.count == 0) return;
  Json line = {{"first", steps_.first},
               {"step", steps_.last},
               {"steps", steps_.count},
               {"tokens", steps_.tokens},
               {"microbatches", steps_.microbatches},
               {"loss", nullptr}};
  if (steps_.finite > 0) line["loss"] = steps_.loss / static_cast<double>(steps_.finite);
  Write(steps_purse_, "steps", line, lines);
  steps_ = {};
}

void EventBudget::OnRound(double now_s, const std::string& fields, Lines& lines) {
  if (rounds_purse_.left > 0 && rounds_.empty() && rounds_left_out_.empty()) {
    return Write(rounds_purse_, "round", fields, lines);
  }
  const Json json = ParsedFields(fields);
  const int64_t stage = IntegerAt(json, "stage"), number = IntegerAt(json, "round");
  // Of rounds long past somebody does not say any more that it applied them.
  const std::pair newest_past = {stage, number - 2};
  for (auto older = rounds_.lower_bound({stage, 0});
       older != rounds_.end() && older->first <= newest_past;) {
    const auto told = older++;
    TellRound(now_s, told, /*always=*/false, lines);
  }
  while (rounds_.size() >= kRoundsMax) TellRound(now_s, rounds_.begin(), /*always=*/false, lines);
  Round& round = rounds_[{stage, number}];
  round.at_s = now_s;
  if (const auto who = json.find("participants"); who != json.end() && who->is_array()) {
    round.participants = static_cast<int64_t>(who->size());
  }
  if (const auto missing = json.find("missing"); missing != json.end()) {
    round.missing = *missing;
    round.missing_count = IntegerAt(json, "missing_count");
  }
}

void EventBudget::OnApplied(double now_s, const std::string& fields, Lines& lines) {
  const Json json = ParsedFields(fields);
  const auto found = rounds_.find({IntegerAt(json, "stage"), IntegerAt(json, "round")});
  // Its round has a line of its own.
  if (found == rounds_.end()) return Write(rounds_purse_, "applied", fields, lines);
  Round& round = found->second;
  const double transfer_s = NumberAt(json, "transfer_s");
  ++round.told;
  ++round.digests[TextAt(json, "digest")];
  if (transfer_s > 0) {
    if (round.transfer_s == 0 || transfer_s < round.transfer_s) {
      round.transfer_s = transfer_s;
      round.wait_s = NumberAt(json, "wait_s");
      round.last = TextAt(json, "node");
    }
    ++round.replicas;
    round.bytes_sent += NumberAt(json, "bytes_sent");
    round.bytes_received += NumberAt(json, "bytes_received");
  }
  if (round.told >= round.participants) TellRound(now_s, found, /*always=*/false, lines);
}

void EventBudget::TellRound(double now_s, std::map<std::pair<int64_t, int64_t>, Round>::iterator of,
                            bool always, Lines& lines) {
  const auto [stage, number] = of->first;
  const Round round = std::move(of->second);
  rounds_.erase(of);
  // Replicas that disagree are always told of.
  if (rounds_purse_.left <= 0 && !always && round.digests.size() < 2) {
    ++rounds_left_out_[stage];
    return;
  }
  Json line = {{"stage", stage},
               {"round", number},
               {"participants", round.participants},
               {"age_s", std::round(1e3 * (now_s - round.at_s)) / 1e3},
               {"replicas", round.replicas},
               {"node", round.last},
               {"transfer_s", round.transfer_s},
               {"wait_s", round.wait_s},
               {"bytes_sent", round.bytes_sent},
               {"bytes_received", round.bytes_received},
               {"missing", round.missing},
               {"digests", round.digests}};
  if (round.missing_count > 0) line["missing_count"] = round.missing_count;
  if (const auto left_out = rounds_left_out_.find(stage); left_out != rounds_left_out_.end()) {
    line["left_out"] = left_out->second;
    rounds_left_out_.erase(left_out);
  }
  Write(rounds_purse_, "round_sum", line, lines);
}

void EventBudget::OnLink(double now_s, const std::string& fields, Lines& lines) {
  if (links_purse_.left > 0 && links_.empty()) return Write(links_purse_, "link", fields, lines);
  const Json json = ParsedFields(fields);
  const std::pair ends = {TextAt(json, "from"), TextAt(json, "to")};
  const auto [known, is_new] = links_.try_emplace(ends);
  known->second = {fields, now_s};
  if (is_new) link_order_.push_back(ends);
  if (links_.size() > kLinksMax) {
    links_.erase(link_order_.front());
    link_order_.pop_front();
  }
}

// In turn, so that no pair is always the one that has to wait.
void EventBudget::TellLinks(double now_s, bool all, Lines& lines) {
  while (!link_order_.empty() && (all || links_purse_.left > 0)) {
    const auto link = links_.find(link_order_.front());
    link_order_.pop_front();
    std::string fields = std::move(link->second.fields);
    const double age_s = now_s - link->second.at_s;
    if (age_s >= 1) fields += ",\"age_s\":" + Json(std::round(age_s)).dump();
    links_.erase(link);
    Write(links_purse_, "link", std::move(fields), lines);
  }
}

void EventBudget::OnOften(double now_s, const std::string& kind, const std::string& fields,
                          Lines& lines) {
  if (rest_purse_.left > 0) {
    TellLeftOut(now_s, lines);
    return Write(rest_purse_, kind, fields, lines);
  }
  if (kind == "screened") {
    Json json = ParsedFields(fields);
    auto& [count, last] = screened_[TextAt(json, "node")];
    ++count;
    last = std::move(json);
  } else {
    ++left_out_[kind];
  }
  if (now_s - left_out_told_s_ >= kTellLeftOutEveryS) TellLeftOut(now_s, lines);
}

void EventBudget::TellLeftOut(double now_s, Lines& lines) {
  left_out_told_s_ = now_s;
  for (auto& [node, what] : screened_) {
    what.second["count"] = what.first;
    Write(rest_purse_, "screened", what.second, lines);
  }
  for (const auto& [stage, count] : std::exchange(rounds_left_out_, {})) {
    const Json line = {{"of", "round"}, {"stage", stage}, {"count", count}};
    Write(rounds_purse_, "left_out", line, lines);
  }
  for (const auto& [kind, count] : left_out_) {
    Write(rest_purse_, "left_out", Json{{"of", kind}, {"count", count}}, lines);
  }
  screened_.clear();
  left_out_.clear();
}

}  // namespace skerry
