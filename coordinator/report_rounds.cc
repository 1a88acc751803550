// Outer rounds, stage by stage.
#include <algorithm>

#include "common/status.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

int64_t ParametersOf(const RunReport& report, int64_t stage) {
  const auto s = static_cast<size_t>(stage);
  return s < report.stages.size() ? report.stages[s].parameters : 0;
}

// `parameters`: of a round; in streaming about a fragment's.
StageRounds Together(const std::vector<const ReportRound*>& rounds, const OlderRounds& older,
                     double parameters) {
  StageRounds out;
  std::vector<double> transfers;
  double sent = older.bytes_sent, received = older.bytes_received;
  double replicas = static_cast<double>(older.replicas);
  double transfer_s = older.transfer_s, wait_s = older.wait_s;
  for (const ReportRound* round : rounds) {
    sent += round->bytes_sent;
    received += round->bytes_received;
    replicas += static_cast<double>(round->replicas);
    transfer_s += round->transfer_s;
    wait_s += round->wait_s;
    if (round->transfer_s > 0) transfers.push_back(round->transfer_s);
    if (round->digests.empty()) continue;
    const auto most =
        std::max_element(round->digests.begin(), round->digests.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    out.digest = most->first;
    out.agreed = most->second;
    out.replicas = 0;
    for (const auto& [digest, count] : round->digests) out.replicas += count;
  }
  out.stage = rounds.front()->stage;
  out.rounds = older.rounds + static_cast<int64_t>(rounds.size());
  if (replicas > 0 && parameters > 0) {
    out.bits_up = 8 * sent / replicas / parameters;
    out.bits_down = 8 * received / replicas / parameters;
  }
  if (!transfers.empty()) {
    std::nth_element(transfers.begin(),
                     transfers.begin() + static_cast<int64_t>(transfers.size() / 2),
                     transfers.end());
    out.transfer_s = transfers[transfers.size() / 2];
  }
  if (transfer_s > 0) out.hidden = std::max(0.0, 1 - wait_s / transfer_s);
  return out;
}

}  // namespace

std::vector<StageRounds> RoundsByStage(const RunReport& report) {
  std::map<int64_t, std::vector<const ReportRound*>> by_stage;
  for (const ReportRound& round : report.rounds) by_stage[round.stage].push_back(&round);
  std::vector<StageRounds> out;
  for (const auto& [stage, rounds] : by_stage) {
    const auto fragments = static_cast<double>(std::max<int64_t>(1, report.outer.fragments));
    const auto older = report.older_rounds.find(stage);
    out.push_back(Together(rounds,
                           older == report.older_rounds.end() ? OlderRounds() : older->second,
                           static_cast<double>(ParametersOf(report, stage)) / fragments));
  }
  return out;
}

std::string StageRoundsTable(const RunReport& report) {
  const std::vector<StageRounds> stages = RoundsByStage(report);
  if (stages.empty()) return "";
  std::string html =
      "<table><thead><tr><th scope=\"col\">stage</th><th scope=\"col\">parameters</th><th "
      "scope=\"col\">rounds</th>"
      "<th scope=\"col\">bits up</th><th scope=\"col\">bits down</th><th "
      "scope=\"col\">transfer</th><th scope=\"col\">hidden</th>"
      "<th scope=\"col\">base after the last</th></tr></thead><tbody>";
  for (const StageRounds& stage : stages) {
    const int64_t parameters = ParametersOf(report, stage.stage);
    const auto bits = [](double b) { return b > 0 ? absl::StrFormat("%.2f", b) : "–"; };
    html += absl::StrFormat(
        "<tr><th "
        "scope=\"row\">%d</th><td>%s</td><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%.1f "
        "%%</td>"
        "<td><code>%s</code> <span class=\"muted\">%d of %d agree</span></td></tr>",
        stage.stage, parameters > 0 ? HumanCount(parameters) : "–", stage.rounds,
        bits(stage.bits_up), bits(stage.bits_down), HumanSeconds(stage.transfer_s),
        100 * stage.hidden, EscapeHtml(stage.digest), stage.agreed, stage.replicas);
  }
  return Scrolled("outer rounds", html + "</tbody></table>") +
         "<p class=\"muted\">Bits are per parameter and round of one replica, headers included; "
         "a transfer is the median. "
         "The last round of a run has nothing left to hide behind.</p>";
}

}  // namespace skerry
