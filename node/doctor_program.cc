#include "node/doctor_program.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace skerry {
namespace {

const char* Word(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kUnknown:
      return "unknown";
    case Health::kPoor:
      return "poor";
    case Health::kBad:
      return "bad";
  }
  return "";
}

void PrintText(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    std::printf("%-8s %-12s %s\n", finding.health == Health::kUnknown ? "?" : Word(finding.health),
                finding.check.c_str(), finding.found.c_str());
    if (!finding.cause.empty()) std::printf("%21s why: %s\n", "", finding.cause.c_str());
    if (!finding.remedy.empty()) std::printf("%21s do:  %s\n", "", finding.remedy.c_str());
  }
}

}  // namespace

int Doctor(const DoctorOptions& options) {
  std::vector<Finding> findings = CheckMachine(options);
  for (Finding& finding : CheckNetwork(options)) findings.push_back(std::move(finding));
  const auto count = [&](Health health) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.health == health; });
  };
  const auto bad = count(Health::kBad);
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"check", finding.check},
                      {"health", Word(finding.health)},
                      {"found", finding.found},
                      {"cause", finding.cause},
                      {"remedy", finding.remedy}});
    }
    const nlohmann::json all = {{"can_join", bad == 0}, {"checks", list}};
    std::printf("%s\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return bad == 0 ? 0 : 1;
  }
  PrintText(findings);
  std::printf("\n%zu checks: %d good, %d poor, %d bad, %d unknown\n", findings.size(),
              static_cast<int>(count(Health::kGood)), static_cast<int>(count(Health::kPoor)),
              static_cast<int>(bad), static_cast<int>(count(Health::kUnknown)));
  std::printf(bad == 0 ? "ready: skerry-node join TICKET\n"
                       : "not ready: see what is bad, above\n");
  return bad == 0 ? 0 : 1;
}

}  // namespace skerry
