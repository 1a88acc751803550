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

namespace {

std::string Names(const std::vector<std::string>& nodes, int64_t count) {
  std::string html;
  for (const std::string& node : nodes) html += "<code>" + EscapeHtml(node) + "</code> ";
  const auto unnamed = count - static_cast<int64_t>(nodes.size());
  if (nodes.empty()) return absl::StrFormat("%d", count);
  if (unnamed > 0) html += absl::StrFormat("and %d more", unnamed);
  return html;
}

std::string Missing(const ReportRound& round) {
  if (!round.is_missing_known) return "–";
  std::string html;
  for (const auto& [node, why] : round.missing) {
    html +=
        (html.empty() ? "" : "<br>") + ("<code>" + EscapeHtml(node) + "</code> " + EscapeHtml(why));
  }
  const auto unnamed = round.missing_count - static_cast<int64_t>(round.missing.size());
  if (unnamed > 0) html += absl::StrFormat("%s%d more", html.empty() ? "" : "<br>and ", unnamed);
  return html.empty() ? "nobody" : html;
}

std::string BaseText(const ReportRound& round) {
  if (round.digests.empty()) return "<span class=\"muted\">not applied yet</span>";
  std::string html;
  for (const auto& [digest, count] : round.digests) {
    html += absl::StrFormat("%s<code>%s</code> <span class=\"muted\">× %d</span>",
                            html.empty() ? "" : "<br>", EscapeHtml(digest), count);
  }
  return html;
}

}  // namespace

std::vector<const ReportRound*> NewestRounds(const RunReport& report) {
  constexpr size_t kMost = 12;
  std::vector<const ReportRound*> newest;
  for (const ReportRound& round : report.rounds) newest.push_back(&round);
  const size_t count = std::min(kMost, newest.size());
  std::partial_sort(
      newest.begin(), newest.begin() + static_cast<int64_t>(count), newest.end(),
      [](const ReportRound* a, const ReportRound* b) { return a->committed_s > b->committed_s; });
  newest.resize(count);
  return newest;
}

std::string NewestRoundsTable(const RunReport& report) {
  const std::vector<const ReportRound*> newest = NewestRounds(report);
  if (newest.empty()) return "";
  std::string html =
      "<table><caption>The newest rounds</caption><thead><tr><th scope=\"col\">round</th><th "
      "scope=\"col\">stage</th><th scope=\"col\">took part</th><th scope=\"col\">missing</th><th "
      "scope=\"col\">sent</th><th scope=\"col\">hidden</th><th scope=\"col\">base after it, who "
      "holds it</th></tr></thead><tbody>";
  for (const ReportRound* round : newest) {
    html += absl::StrFormat(
        "<tr%s><th scope=\"row\">%d</th><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>"
        "<td>%s</td></tr>",
        round->digests.size() > 1 ? " class=\"bad\"" : "", round->round, round->stage,
        Names(round->took_part, round->participants), Missing(*round),
        round->bytes_sent > 0 ? HumanBytes(round->bytes_sent) : "–",
        round->transfer_s > 0 ? absl::StrFormat("%.0f %% of %s", 100 * round->HiddenShare(),
                                                HumanSeconds(round->transfer_s))
                              : "–",
        BaseText(*round));
  }
  return Scrolled("newest rounds", html + "</tbody></table>");
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
