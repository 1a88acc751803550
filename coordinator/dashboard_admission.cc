#include "coordinator/dashboard_admission.h"

#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr size_t kNameMax = 64;
constexpr size_t kTextMax = 400;
constexpr int64_t kUsesMax = 1'000'000;

std::string TextIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t NumberIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

const Json& ListIn(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

std::string Code(const std::string& name) {
  return "<code title=\"" + EscapeHtml(name) + "\">" + EscapeHtml(name.substr(0, 8)) + "</code>";
}

// Screen readers hear which node or ticket; `key` finds the button again after a replacement.
std::string Button(const std::string& does, const std::string& label, const std::string& kind,
                   const std::string& name) {
  return absl::StrFormat(
      "<button type=\"button\" data-do=\"%s\" data-%s=\"%s\" data-key=\"%s %s\" aria-label=\"%s %s "
      "%s\">%s</button> ",
      does, kind, EscapeHtml(name), does, EscapeHtml(name), EscapeHtml(label), kind,
      EscapeHtml(name.substr(0, 8)), EscapeHtml(label));
}

std::string Table(const std::string& caption, const std::vector<std::string>& columns,
                  const std::string& rows) {
  std::string head;
  for (const std::string& column : columns) head += "<th scope=\"col\">" + column + "</th>";
  return Scrolled(caption, "<table><caption>" + caption + "</caption><thead><tr>" + head +
                               "</tr></thead><tbody>" + rows + "</tbody></table>");
}

std::string Row(const std::vector<std::string>& cells) {
  std::string html = "<tr><th scope=\"row\">" + cells.front() + "</th>";
  for (size_t i = 1; i < cells.size(); ++i) html += "<td>" + cells[i] + "</td>";
  return html + "</tr>";
}

std::string Tickets(const Json& admission) {
  std::string rows;
  for (const Json& ticket : ListIn(admission, "tickets")) {
    const std::string id = TextIn(ticket, "id"), is = TextIn(ticket, "state");
    const std::string why = TextIn(ticket, "why");
    const std::string uses =
        ticket.contains("uses")
            ? absl::StrFormat("%d of %d", NumberIn(ticket, "used"), NumberIn(ticket, "uses"))
            : absl::StrFormat("%d", NumberIn(ticket, "used"));
    rows += Row({Code(id), EscapeHtml(TextIn(ticket, "role")), uses,
                 EscapeHtml(TextIn(ticket, "expires")),
                 EscapeHtml(is + (why.empty() ? "" : ": " + why)),
                 is == "good" ? Button("revoke", "revoke", "ticket", id) : ""});
  }
  if (rows.empty()) return "<p>No ticket was made yet.</p>";
  return Table("Tickets", {"ticket", "role", "used", "expires", "is", "do"}, rows);
}

std::string Waiting(const Json& admission) {
  std::string rows;
  for (const Json& asker : ListIn(admission, "waiting")) {
    const std::string node = TextIn(asker, "node");
    rows += Row({Code(node), EscapeHtml(TextIn(asker, "device")),
                 EscapeHtml(TextIn(asker, "region")), Code(TextIn(asker, "ticket")),
                 Button("admit", "admit", "node", node) + Button("deny", "deny", "node", node)});
  }
  if (rows.empty()) return "<p>Nobody waits for your approval.</p>";
  return Table("Waiting for your approval", {"node", "device", "region", "ticket", "do"}, rows);
}

std::string Allowed(const Json& admission) {
  std::string rows;
  for (const Json& entry : ListIn(admission, "allowed")) {
    const std::string node = TextIn(entry, "node");
    rows += Row({Code(node), entry.value("joined", false) ? "has joined" : "has not come yet",
                 Button("deny", "deny", "node", node) + Button("forget", "forget", "node", node)});
  }
  return rows.empty() ? "" : Table("Admitted by name", {"node", "is", "do"}, rows);
}

std::string Out(const Json& admission, const char* list, const std::string& caption) {
  std::string rows;
  for (const Json& entry : ListIn(admission, list)) {
    const std::string node = TextIn(entry, "node"), why = TextIn(entry, "why");
    rows +=
        Row({Code(node), EscapeHtml(why.empty() ? "no reason given" : why),
             Button("evidence", "evidence", "node", node) + Button("admit", "admit", "node", node) +
                 Button("forget", "forget", "node", node)});
  }
  return rows.empty() ? "" : Table(caption, {"node", "why", "do"}, rows);
}

std::string Refusals(const Json& admission) {
  const auto found = admission.find("refusals");
  if (found == admission.end() || !found->is_object() || found->empty()) return "";
  std::string rows;
  for (const auto& [why, times] : found->items()) {
    rows += Row(
        {EscapeHtml(why), times.is_number() ? absl::StrFormat("%d", times.get<int64_t>()) : ""});
  }
  return Table("Refused since the coordinator started", {"why", "times"}, rows);
}

bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= kNameMax &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// One argument whatever is in it: "--why=TEXT".
absl::StatusOr<std::string> Option(const std::string& name, const std::string& text) {
  if (text.size() > kTextMax) return InvalidArgument("%s: at most %d characters", name, kTextMax);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') return InvalidArgument("%s: one line of text", name);
  }
  return "--" + name + "=" + text;
}

absl::StatusOr<std::vector<std::string>> TicketCommand(const Json& asked,
                                                       const std::string& directory) {
  const int64_t uses = NumberIn(asked, "uses");
  if (uses < 1 || uses > kUsesMax) return InvalidArgument("uses: want 1 to %d", kUsesMax);
  std::vector<std::string> command = {"ticket", directory, absl::StrFormat("--uses=%d", uses)};
  for (const char* key : {"expires", "endpoint"}) {
    const std::string text = TextIn(asked, key);
    if (text.empty()) continue;
    SKERRY_ASSIGN_OR_RETURN(std::string option, Option(key, text));
    command.push_back(std::move(option));
  }
  const auto asks = asked.find("asks");
  if (asks != asked.end() && asks->is_boolean() && asks->get<bool>()) {
    command.push_back("--approve");
  }
  return command;
}

}  // namespace

std::string AdmissionPanel(const Json& admission) {
  if (!admission.is_object()) return "<p>The coordinator has said nothing of it yet.</p>";
  const std::string policy = TextIn(admission, "policy");
  std::string buttons;
  for (const char* name : {"open", "approve", "listed"}) {
    buttons += absl::StrFormat(
        "<button type=\"button\" data-do=\"policy\" data-policy=\"%s\" data-key=\"policy %s\" "
        "aria-pressed=\"%s\">%s</button> ",
        name, name, policy == name ? "true" : "false", name);
  }
  return absl::StrFormat(
             "<p>%d nodes were admitted so far. A ticket suffices (open), or who brings one waits "
             "until you admit it (approve), or only whom you admitted may come (listed):</p>"
             "<p role=\"group\" aria-label=\"policy\">%s</p>",
             NumberIn(admission, "admitted"), buttons) +
         Waiting(admission) + Tickets(admission) + Allowed(admission) +
         Out(admission, "denied", "Kept out by you") +
         Out(admission, "banned", "Put out by the run") + Refusals(admission);
}

std::string AdmissionForms() {
  return R"(<section id="operator" hidden aria-labelledby="operator-h"><h2 id="operator-h">Orders
and admission <span class="muted">for the operator</span></h2>
<form id="enter"><label for="token">Token <span class="muted">(it stands in dashboard.token in the
run's directory)</span></label><input id="token" type="password" autocomplete="off"
spellcheck="false" required><button>open</button></form>
<div id="operating" hidden><form id="command"><h3>The run</h3><label for="pausewhy">Why it pauses
<span class="muted">(shown to volunteers)</span></label><input id="pausewhy" maxlength="100"><button
value="pause">pause</button><button value="resume">resume</button><button
value="checkpoint">checkpoint now</button></form><div id="admission"></div>
<form id="decide"><h3>Decide about a node</h3><label for="who">Its name, or how it
begins</label><input id="who" autocomplete="off" spellcheck="false" pattern="[0-9a-f]{1,64}"
required><label for="why">Why <span class="muted">(kept, and told to the node)</span></label><input
id="why" maxlength="100"><button value="admit">admit</button><button value="deny">deny: put it
out</button><button value="forget">forget what was said of it</button><button
value="evidence">evidence</button></form>
<form id="issue"><h3>Make a ticket</h3><label for="uses">How many nodes it admits</label><input
id="uses" type="number" min="1" max="1000000" value="1" required><label for="expires">Lifetime <span
class="muted">(90m, 24h, 7d)</span></label><input id="expires" value="24h" required><label
for="endpoint">Where nodes reach the coordinator <span class="muted">(tcp://host:7700; empty: as
serve noted it)</span></label><input id="endpoint"><label><input id="asks" type="checkbox"> who
brings it waits for approval</label><button>make it</button></form></div>
<p id="done" role="status" aria-live="polite"></p><pre id="answer" tabindex="0" aria-label="answer"
hidden></pre></section>)";
}

absl::StatusOr<std::vector<std::string>> OperatorCommand(const Json& asked,
                                                         const std::string& directory) {
  if (!asked.is_object()) return InvalidArgument("want a JSON object with \"do\"");
  const std::string does = TextIn(asked, "do");
  if (does == "ticket") return TicketCommand(asked, directory);
  if (does == "policy") {
    SKERRY_ASSIGN_OR_RETURN(std::string option, Option("policy", TextIn(asked, "policy")));
    return std::vector<std::string>{"admission", directory, std::move(option)};
  }
  if (does == "resume" || does == "checkpoint") return std::vector<std::string>{does, directory};
  if (does == "pause") {
    SKERRY_ASSIGN_OR_RETURN(std::string option, Option("why", TextIn(asked, "why")));
    return std::vector<std::string>{does, directory, std::move(option)};
  }
  const bool of_node = does == "admit" || does == "deny" || does == "forget" || does == "evidence";
  if (!of_node && does != "revoke") return InvalidArgument("'%s' cannot be done here", does);
  const std::string name = TextIn(asked, of_node ? "node" : "ticket");
  if (!IsName(name)) return InvalidArgument("want a name of hexadecimal digits, got '%s'", name);
  std::vector<std::string> command = {does, directory, name};
  const std::string why = TextIn(asked, "why");
  if (why.empty() || does == "evidence") return command;
  SKERRY_ASSIGN_OR_RETURN(std::string option, Option("why", why));
  command.push_back(std::move(option));
  return command;
}

}  // namespace skerry
