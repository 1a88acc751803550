#include "coordinator/admission_view.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "common/status.h"
#include "coordinator/record_json.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::string UtcText(int64_t unix_s) {
  const std::time_t at = unix_s;
  std::tm parts{};
  char text[40] = "never";
  if (gmtime_r(&at, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

// Tickets told of by `ticket`, and others that somebody came with.
Json TicketsJson(const RunState& state, int64_t now_unix) {
  std::set<std::string> ids;
  for (const auto& [id, ticket] : state.admission.tickets) ids.insert(id);
  for (const auto& [id, used] : state.ticket_uses) ids.insert(id);
  for (const auto& [id, why] : state.admission.revoked) ids.insert(id);
  Json tickets = Json::array();
  for (const std::string& id : ids) {
    const auto used = state.ticket_uses.find(id);
    const auto issued = state.admission.tickets.find(id);
    const auto revoked = state.admission.revoked.find(id);
    const bool known = issued != state.admission.tickets.end();
    Json ticket = {{"id", id}, {"used", used == state.ticket_uses.end() ? 0 : used->second}};
    if (known) {
      ticket["uses"] = issued->second.uses;
      ticket["expires"] = UtcText(issued->second.expires_unix);
      ticket["role"] = issued->second.asks ? "guest" : "node";
    }
    const char* is = "good";
    if (known && ticket["used"] >= ticket["uses"]) is = "spent";
    if (known && issued->second.expires_unix <= now_unix) is = "expired";
    if (revoked != state.admission.revoked.end()) {
      is = "revoked";
      ticket["why"] = revoked->second;
    }
    ticket["state"] = is;
    tickets.push_back(std::move(ticket));
  }
  return tickets;
}

Json Named(const std::map<NodeId, std::string>& nodes) {
  Json list = Json::array();
  for (const auto& [node, why] : nodes) list.push_back({{"node", node}, {"why", why}});
  return list;
}

std::string TicketLine(const Json& ticket) {
  const std::string uses =
      ticket.contains("uses")
          ? absl::StrFormat("%d of %d", ticket.value("used", 0), ticket.value("uses", 0))
          : absl::StrFormat("%d", ticket.value("used", 0));
  const std::string why = ticket.value("why", "");
  return absl::StrFormat("  %-8s  %-5s  %-9s  %-20s  %s%s\n", ticket.value("id", "").substr(0, 8),
                         ticket.value("role", "?"), uses, ticket.value("expires", "?"),
                         ticket.value("state", ""), why.empty() ? "" : ": " + why);
}

std::string WhyLines(const Json& nodes) {
  std::string text;
  for (const Json& node : nodes) {
    const std::string why = node.value("why", "");
    text += absl::StrFormat("  %s  %s\n", node.value("node", "").substr(0, 8),
                            why.empty() ? "(no reason given)" : why);
  }
  return text;
}

std::string PolicyText(const std::string& policy) {
  if (policy == "approve") return "approve (who brings a ticket waits until you admit it)";
  if (policy == "listed") return "listed (a ticket, and only nodes that you admitted)";
  return "open (a ticket suffices)";
}

// The one of `names` that begins so.
absl::StatusOr<std::string> OneOf(const std::set<std::string>& names, const std::string& text,
                                  const char* what) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.starts_with(text)) found.push_back(name);
  }
  // No name at all is a slip (an empty variable in a script), also where only one is there.
  if (found.size() == 1 && !text.empty()) return found.front();
  if (found.empty() || text.empty()) {
    return InvalidArgument("no %s begins with '%s'; see skerry-coordinator admission DIR", what,
                           text);
  }
  return InvalidArgument("%d %ss begin with '%s'; type more of it", static_cast<int>(found.size()),
                         what, text);
}

}  // namespace

Json AdmissionJson(const RunState& state, const Json& status, int64_t now_unix) {
  const Admission& lists = state.admission;
  Json asked = Json::array();
  for (const auto& [node, asker] : lists.asked) {
    asked.push_back({{"node", node},
                     {"ticket", asker.ticket},
                     {"region", asker.region},
                     {"device", asker.device}});
  }
  Json allowed = Json::array();
  for (const NodeId& node : lists.allowed) {
    allowed.push_back({{"node", node}, {"joined", state.nodes.contains(node)}});
  }
  return {
      {"policy", PolicyName(lists.policy)},
      {"tickets", TicketsJson(state, now_unix)},
      {"waiting", std::move(asked)},
      {"allowed", std::move(allowed)},
      {"denied", Named(lists.denied)},
      {"banned", Named(lists.banned)},
      {"admitted", state.nodes.size()},
      {"refusals", status.is_object() ? status.value("refusals", Json::object()) : Json::object()}};
}

std::string AdmissionText(const Json& admission, const std::string& directory) {
  std::string text =
      absl::StrFormat("admission: %s; %d nodes admitted so far\n",
                      PolicyText(admission.value("policy", "")), admission.value("admitted", 0));
  const Json& tickets = admission.at("tickets");
  text += tickets.empty() ? "tickets: none; make one: skerry-coordinator ticket " + directory + "\n"
                          : "tickets\n  id        role   used       expires               is\n";
  for (const Json& ticket : tickets) text += TicketLine(ticket);
  const Json& waiting = admission.at("waiting");
  text += absl::StrFormat("waiting for your approval: %d\n", waiting.size());
  for (const Json& node : waiting) {
    const std::string region = node.value("region", "");
    text += absl::StrFormat("  %s  %s%s, with ticket %s\n", node.value("node", "").substr(0, 8),
                            node.value("device", ""), region.empty() ? "" : ", " + region,
                            node.value("ticket", "").substr(0, 8));
  }
  if (!waiting.empty()) {
    text += absl::StrFormat("  → skerry-coordinator admit %s NODE   or   deny %s NODE\n", directory,
                            directory);
  }
  if (const Json& allowed = admission.at("allowed"); !allowed.empty()) {
    text += "admitted by name\n";
    for (const Json& node : allowed) {
      text += absl::StrFormat("  %s%s\n", node.value("node", "").substr(0, 8),
                              node.value("joined", false) ? "" : "  (has not come yet)");
    }
  }
  if (const Json& denied = admission.at("denied"); !denied.empty())
    text += "denied by you\n" + WhyLines(denied);
  if (const Json& banned = admission.at("banned"); !banned.empty()) {
    text += "put out of the run\n" + WhyLines(banned);
    text += absl::StrFormat("  → skerry-coordinator evidence %s NODE   lift it: admit %s NODE\n",
                            directory, directory);
  }
  if (const Json& refusals = admission.at("refusals"); !refusals.empty()) {
    text += "refused since the coordinator started\n";
    for (const auto& [why, times] : refusals.items())
      text += absl::StrFormat("  %5d  %s\n", times.get<int64_t>(), why);
  }
  return text;
}

absl::StatusOr<NodeId> NodeNamed(const RunState& state, const std::string& text) {
  if (const auto whole = ParseId<NodeId>(text)) return *whole;
  std::set<std::string> names;
  for (const auto& [node, record] : state.nodes) names.insert(node.Hex());
  for (const auto& [node, asker] : state.admission.asked) names.insert(node.Hex());
  for (const NodeId& node : state.admission.allowed) names.insert(node.Hex());
  for (const auto& [node, why] : state.admission.denied) names.insert(node.Hex());
  SKERRY_ASSIGN_OR_RETURN(const std::string name, OneOf(names, text, "node"));
  return *ParseId<NodeId>(name);
}

std::optional<int32_t> OnlyHeldBy(const RunState& state, const NodeId& node) {
  if (!state.plan || state.exported || !state.lost.empty() || !state.checkpoints.empty())
    return std::nullopt;
  for (int32_t stage = 0; stage < static_cast<int32_t>(state.plan->stages.size()); ++stage) {
    if (LiveReplicas(*state.plan, stage) == std::vector<NodeId>{node}) return stage;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> TicketNamed(const RunState& state, const std::string& text) {
  std::set<std::string> ids;
  for (const auto& [id, ticket] : state.admission.tickets) ids.insert(id);
  for (const auto& [id, used] : state.ticket_uses) ids.insert(id);
  return OneOf(ids, text, "ticket");
}

}  // namespace skerry
