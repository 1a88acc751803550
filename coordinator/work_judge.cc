#include "coordinator/work_judge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

template <typename F>
void Add(std::deque<F>& findings, const F& finding) {
  findings.push_back(finding);
  if (findings.size() > WorkJudge::kFindings) findings.pop_front();
}

double LogOf(double off) {
  return std::log(std::max(off, WorkJudge::kLeast));
}

// Of the others of a comparison; infinity without any.
double UsualBeside(const std::vector<WorkJudge::Found>& comparison, size_t at,
                   double WorkJudge::Found::*direction) {
  std::vector<double> others;
  for (size_t i = 0; i < comparison.size(); ++i) {
    if (i != at) others.push_back(comparison[i].*direction);
  }
  if (others.empty()) return INFINITY;
  const auto middle = others.begin() + static_cast<int64_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

template <typename F>
WorkJudge::Opinion MeanOf(const std::deque<F>& findings) {
  double times = 0, off = 0;
  for (const F& finding : findings) {
    times += finding.log_times;
    off += finding.log_off;
  }
  const auto n = static_cast<double>(findings.size());
  return {std::exp(times / n), std::exp(off / n), findings.size(), false};
}

}  // namespace

void WorkJudge::Note(const NodeId& checker, const std::vector<Found>& comparison) {
  const double framing = std::log(kFraming);
  for (size_t i = 0; i < comparison.size(); ++i) {
    const Found& found = comparison[i];
    Findings& findings = found_[checker][found.suspect];
    ++checks_[found.suspect];
    const auto note = [&](double Found::*direction, std::deque<Finding>& beside,
                          std::deque<Finding>& alone) {
      const double off = LogOf(found.*direction);
      if (comparison.size() == 1) return Add(alone, {0, off});
      const double usual = UsualBeside(comparison, i, direction);
      if (usual > kMost) return;
      Add(beside, {std::clamp(off - LogOf(usual), -framing, framing), off});
    };
    note(&Found::forward, findings.forward, findings.ahead_alone);
    note(&Found::backward, findings.backward, findings.back_alone);
  }
}

void WorkJudge::Forget(const NodeId& node) {
  found_.erase(node);
  checks_.erase(node);
  for (auto& [checker, of] : found_) of.erase(node);
}

int64_t WorkJudge::ChecksOf(const NodeId& suspect) const {
  const auto it = checks_.find(suspect);
  return it == checks_.end() ? 0 : it->second;
}

std::optional<WorkJudge::Opinion> WorkJudge::OpinionOf(const NodeId& checker, const NodeId& suspect,
                                                       size_t replicas) const {
  const auto of = found_.find(checker);
  if (of == found_.end()) return std::nullopt;
  const auto it = of->second.find(suspect);
  if (it == of->second.end()) return std::nullopt;
  const bool is_alone = replicas <= 2;
  const Findings& findings = it->second;
  std::optional<Opinion> worst;
  for (const auto* found : is_alone ? std::array{&findings.ahead_alone, &findings.back_alone}
                                    : std::array{&findings.forward, &findings.backward}) {
    if (found->size() < (is_alone ? kFindings : kFindingsMin)) continue;
    Opinion opinion = MeanOf(*found);
    const auto is_far = [](const Finding& finding) { return finding.log_off > std::log(kAlone); };
    opinion.doubts =
        is_alone ? std::all_of(found->begin(), found->end(), is_far) : opinion.times > kTimes;
    if (!worst || (opinion.doubts && !worst->doubts)) worst = opinion;
  }
  return worst;
}

std::optional<std::string> WorkJudge::WhyOut(const NodeId& suspect,
                                             const std::vector<NodeId>& replicas) const {
  int opinions = 0, doubts = 0;
  double log_times = 0, findings = 0;  // of all
  std::string by;
  for (const NodeId& checker : replicas) {
    const auto opinion = OpinionOf(checker, suspect, replicas.size());
    if (!opinion) continue;
    ++opinions;
    const auto n = static_cast<double>(opinion->findings);
    log_times += n * std::log(opinion->times);
    findings += n;
    if (!opinion->doubts) continue;
    ++doubts;
    by += absl::StrFormat("%s%s finds it off by %.2f of what the stage adds, %.1f times the others",
                          by.empty() ? "" : "; ", checker.Short(), opinion->off, opinion->times);
  }
  const bool is_known =
      findings >= static_cast<double>(kTogether) && log_times > findings * std::log(kTimes);
  if (doubts < 2 || 2 * doubts <= opinions || !is_known) return std::nullopt;
  return absl::StrFormat("%s: %s", kVerdict, by);
}

}  // namespace skerry
