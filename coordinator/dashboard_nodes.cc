// The table of nodes.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::string Code(const std::string& text) {
  return "<code>" + EscapeHtml(text) + "</code>";
}

std::string Doing(const Json& node) {
  if (!node.value("alive", false)) return "gone";
  const std::string waits = node.value("waiting_for", "");
  const std::string phase = node.value("phase", "");
  return waits.empty() ? phase : "waits for the " + waits;
}

int64_t ContributedByAll(const Json& nodes) {
  int64_t tokens = 0;
  for (const Json& node : nodes) tokens += node.value("contributed_tokens", int64_t{0});
  return tokens;
}

std::string Contributed(const Json& node, int64_t by_all) {
  const int64_t tokens = node.value("contributed_tokens", int64_t{0});
  if (tokens == 0 || by_all == 0) return "–";
  return absl::StrFormat("%s (%.1f %%)", HumanCount(tokens),
                         100 * static_cast<double>(tokens) / static_cast<double>(by_all));
}

std::string Or(const std::string& text) {
  return text.empty() ? "–" : EscapeHtml(text);
}

// Held of what it offers.
std::string MemoryText(const Json& node) {
  const double offered = node.value("memory_offered_bytes", 0.0);
  if (offered <= 0) return "–";
  const double held = node.value("memory_bytes", 0.0);
  return (held > 0 ? HumanBytes(held) : "–") + " of " + HumanBytes(offered);
}

// Its deltas that were accepted, and those that a robust mean gave little weight.
std::string ChecksText(const Json& node) {
  const auto counted = node.value("rounds_counted", int64_t{0});
  const auto screened = node.value("rounds_screened", int64_t{0});
  std::string text = absl::StrFormat("%d rounds counted", counted);
  if (screened > 0) text += absl::StrFormat(", %d screened", screened);
  const std::string sizes = node.value("sizes", "");
  if (!sizes.empty()) text += "<br>sizes " + EscapeHtml(sizes);
  const std::string id = EscapeHtml(node.value("id", ""));
  const auto button = [&](const char* does, const char* shown, const char* what) {
    return absl::StrFormat(
        "<button type=\"button\" data-do=\"%s\" data-node=\"%s\" data-key=\"%s %s\" "
        "aria-label=\"%s node %s\">%s</button>",
        does, id, does, id, what, id, shown);
  };
  if (node.value("out", false)) {
    return text + "<br>put out " + button("evidence", "evidence", "evidence against");
  }
  if (!node.value("alive", false)) return text;
  return text + "<span class=\"foroperator\"><br>" + button("deny", "put out", "put out") +
         "</span>";
}

std::string NodeRow(const Json& node, int64_t by_all) {
  const int stage = node.value("stage", -1);
  const bool gone = !node.value("alive", false);
  const double silent = node.value("silent_s", 0.0);
  std::string doing = EscapeHtml(Doing(node));
  if (!gone && silent > 3) doing += absl::StrFormat("; silent for %s", HumanSeconds(silent));
  return absl::StrFormat(
      "<tr%s><th scope=\"row\">%s</th><td>%s</td><td>%s</td><td>%s</td><td>%d</td><td>%d</td>"
      "<td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>"
      "</tr>",
      gone ? " class=\"bad\"" : "", Code(node.value("id", "")),
      EscapeHtml(node.value("region", "")),
      stage < 0 ? "–" : absl::StrFormat("%d.%d", stage, node.value("replica", 0)), doing,
      node.value("step", 0), node.value("base_version", 0), Contributed(node, by_all),
      HumanBytes(node.value("bytes_sent", 0.0)), HumanBytes(node.value("bytes_received", 0.0)),
      ChecksText(node), MemoryText(node), Or(node.value("device", "")), Or(node.value("reach", "")),
      Or(node.value("software", "")));
}

constexpr char kHead[] =
    "<table><thead><tr><th scope=\"col\">node</th><th "
    "scope=\"col\">region</th>"
    "<th scope=\"col\">stage.replica</th><th scope=\"col\">now</th><th scope=\"col\">step</th>"
    "<th scope=\"col\">round</th><th scope=\"col\">contributed tokens</th><th "
    "scope=\"col\">sent</th><th "
    "scope=\"col\">received</th><th scope=\"col\">checks</th><th scope=\"col\">memory</th><th "
    "scope=\"col\">device</th><th scope=\"col\">can be dialled</th><th "
    "scope=\"col\">version</th></tr></thead><tbody>";

bool Matches(const Json& node, const std::string& find) {
  if (find.empty()) return true;
  const int stage = node.value("stage", -1);
  const std::string text =
      node.value("id", "") + " " + node.value("region", "") + " " + Doing(node) + " " +
      node.value("device", "") + " " + node.value("reach", "") + " " + node.value("software", "") +
      (stage < 0 ? "" : absl::StrFormat(" stage %d.%d", stage, node.value("replica", 0))) +
      (node.value("out", false) ? " put out" : "");
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), find.begin(), find.end(), same) != text.end();
}

}  // namespace

std::string NodeTable(const Json& status, size_t first, const std::string& find) {
  const auto found = status.find("nodes");
  if (found == status.end() || !found->is_array() || found->empty()) return "";
  const int64_t by_all = ContributedByAll(*found);
  std::string rows;
  size_t matching = 0, shown = 0;
  for (const Json& node : *found) {
    if (!Matches(node, find)) continue;
    if (matching++ < first || shown == kNodesShown) continue;
    rows += NodeRow(node, by_all);
    ++shown;
  }
  std::string note;
  if (shown < found->size() && shown == 0) {
    note = absl::StrFormat("none of %d", found->size());
  } else if (shown < found->size()) {
    note = absl::StrFormat("%d to %d of %d", first + 1, first + shown, matching);
    if (!find.empty()) note += absl::StrFormat(" that match, of %d in all", found->size());
  }
  if (!note.empty()) note = "<p class=\"muted\" id=\"nodesnote\">" + note + "</p>";
  return note + Scrolled("nodes", kHead + rows + "</tbody></table>");
}

}  // namespace skerry
