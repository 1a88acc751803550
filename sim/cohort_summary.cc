#include "sim/cohort_summary.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr size_t kShort = 8;

std::string Short(const Json& id) {
  return id.get<std::string>().substr(0, kShort);
}

// By stage the sizes of its cohorts, living replicas that are alone included.
std::map<size_t, std::vector<int64_t>> SizesOf(const Json& plan) {
  std::map<size_t, std::vector<int64_t>> sizes;
  const Json& stages = plan.at("stages");
  for (size_t s = 0; s < stages.size(); ++s) {
    const Json& replicas = stages[s].at("replicas");
    auto alone = std::count_if(replicas.begin(), replicas.end(),
                               [](const Json& replica) { return !replica.at("dead").get<bool>(); });
    const Json& cohorts = plan.at("cohorts").at("cohorts");
    for (size_t c = 0; c < cohorts.size(); ++c) {
      if (cohorts[c].at("stage").get<size_t>() != s) continue;
      sizes[s].push_back(static_cast<int64_t>(cohorts[c].at("members").size()));
      alone -= sizes[s].back();
    }
    for (; alone > 0; --alone) sizes[s].push_back(1);
  }
  return sizes;
}

}  // namespace

CohortTraffic TrafficOfCohorts(const Json& plan, const std::string& events) {
  std::map<size_t, int64_t> sent;  // by stage
  std::istringstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded() || event.value("kind", "") != "applied") continue;
    sent[event.value("stage", size_t{0})] += event.value("bytes_sent", int64_t{0});
  }
  CohortTraffic traffic;
  for (const auto& [stage, sizes] : SizesOf(plan)) {
    int64_t all = 0, outside = 0;
    for (const int64_t size : sizes) all += size;
    for (const int64_t size : sizes) outside += size * (all - size);
    const auto cohorts = static_cast<int64_t>(sizes.size());
    const int64_t messages = cohorts * (cohorts - 1);
    traffic.sent += sent[stage];
    if (messages > 0) traffic.alone += sent[stage] * outside / messages;
  }
  return traffic;
}

std::string CohortSummary(const Json& plan, const std::string& events) {
  std::string text;
  const Json& cohorts = plan.at("cohorts").at("cohorts");
  for (size_t c = 0; c < cohorts.size(); ++c) {
    text += absl::StrFormat("cohort %d of stage %d:", cohorts[c].at("cohort").get<int>(),
                            cohorts[c].at("stage").get<int>());
    const Json& members = cohorts[c].at("members");
    for (size_t m = 0; m < members.size(); ++m)
      text += " " + Short(members[m]) + (m == 0 ? " (speaks)" : "");
    text += "\n";
  }
  if (text.empty()) return "no cohorts: `skerry-coordinator plan` says why of each pair";
  const CohortTraffic traffic = TrafficOfCohorts(plan, events);
  constexpr double kMegabyte = 1e6;
  const auto sent = static_cast<double>(traffic.sent), alone = static_cast<double>(traffic.alone);
  text += absl::StrFormat("deltas between cohorts: %.1f MB", sent / kMegabyte);
  if (sent > 0) {
    text += absl::StrFormat(
        "; if each node spoke for itself the same messages would take %.1f MB, %.1f times as much",
        alone / kMegabyte, alone / sent);
  }
  return text;
}

double SumTimes::HiddenFraction() const {
  return summing_s > 0 ? std::max(0.0, 1 - waiting_s / summing_s) : 1;
}

bool SumTimes::AddFields(const std::string& fields) {
  const Json json = Json::parse("{" + fields + "}", nullptr, false);
  if (!json.is_object() || !json.contains("sums")) return false;
  sums += json.value("sums", int64_t{0});
  summing_s += json.value("summing_s", 0.0);
  waiting_s += json.value("waiting_for_sums_s", 0.0);
  return true;
}

bool SumTimes::AddLine(const std::string& line) {
  constexpr const char* kFormat =
      "finished: step %*d, sums %" SCNd64 ", summing_s %lf, waiting_for_sums_s %lf";
  const size_t at = line.find("finished: step ");
  SumTimes one;
  if (at == std::string::npos ||
      std::sscanf(line.c_str() + at, kFormat, &one.sums, &one.summing_s, &one.waiting_s) != 3) {
    return false;
  }
  sums += one.sums;
  summing_s += one.summing_s;
  waiting_s += one.waiting_s;
  return true;
}

std::string SumTimesText(const SumTimes& times) {
  if (times.sums == 0) return "";
  return absl::StrFormat("%d sums of gradients, %.3f s each, %.1f %% of that behind compute",
                         times.sums, times.summing_s / static_cast<double>(times.sums),
                         100 * times.HiddenFraction());
}

}  // namespace skerry
