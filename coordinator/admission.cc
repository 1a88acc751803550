#include "coordinator/admission.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/record_json.h"

namespace skerry {
namespace {

using Json = nlohmann::json;
using Does = AdmissionOrder::Does;

constexpr std::pair<Does, const char*> kDoes[] = {
    {Does::kAdmit, "admit"},   {Does::kDeny, "deny"},     {Does::kForget, "forget"},
    {Does::kRevoke, "revoke"}, {Does::kPolicy, "policy"}, {Does::kIssue, "issue"},
    {Does::kPause, "pause"},   {Does::kResume, "resume"}, {Does::kCheckpoint, "checkpoint"}};
constexpr std::pair<AdmissionPolicy, const char*> kPolicies[] = {
    {AdmissionPolicy::kOpen, "open"},
    {AdmissionPolicy::kApprove, "approve"},
    {AdmissionPolicy::kListed, "listed"}};

constexpr size_t kIdCharactersMax = 64;

bool IsHexId(const std::string& text) {
  return !text.empty() && text.size() <= kIdCharactersMax &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

absl::StatusOr<AdmissionOrder> Read(const Json& json) {
  AdmissionOrder order;
  const auto named = json.at("do").get<std::string>();
  const auto* does = std::find_if(std::begin(kDoes), std::end(kDoes),
                                  [&](const auto& known) { return named == known.second; });
  if (does == std::end(kDoes)) return InvalidArgument("an order to '%s' is not known", named);
  order.does = does->first;
  order.id = json.at("id");
  order.at_unix = json.value("at", int64_t{0});
  if (!IsHexId(order.id)) return InvalidArgument("an order's id is not hexadecimal");
  switch (order.does) {
    case Does::kAdmit:
    case Does::kDeny:
    case Does::kForget:
      order.node = json.at("node").get<NodeId>();
      order.why = CleanText(json.value("why", ""));
      break;
    case Does::kRevoke:
      order.ticket = json.at("ticket");
      order.why = CleanText(json.value("why", ""));
      break;
    case Does::kPause:
      order.why = CleanText(json.value("why", ""));
      break;
    case Does::kResume:
    case Does::kCheckpoint:
      break;
    case Does::kPolicy: {
      SKERRY_ASSIGN_OR_RETURN(order.policy, PolicyOf(json.at("policy")));
      break;
    }
    case Does::kIssue:
      order.ticket = json.at("ticket");
      order.uses = json.at("uses");
      order.expires_unix = json.at("expires");
      order.asks = json.value("asks", false);
      break;
  }
  const bool of_ticket = order.does == Does::kRevoke || order.does == Does::kIssue;
  if (of_ticket && !IsHexId(order.ticket)) return InvalidArgument("a ticket's id is hexadecimal");
  return order;
}

Json JsonOf(const AdmissionOrder& order) {
  Json json = {{"id", order.id}, {"at", order.at_unix}};
  for (const auto& [does, name] : kDoes) {
    if (does == order.does) json["do"] = name;
  }
  if (!order.node.IsZero()) json["node"] = order.node;
  if (!order.ticket.empty()) json["ticket"] = order.ticket;
  if (!order.why.empty()) json["why"] = order.why;
  if (order.does == Does::kPolicy) json["policy"] = PolicyName(order.policy);
  if (order.does != Does::kIssue) return json;
  json["uses"] = order.uses;
  json["expires"] = order.expires_unix;
  if (order.asks) json["asks"] = true;
  return json;
}

}  // namespace

std::string PolicyName(AdmissionPolicy policy) {
  for (const auto& [known, name] : kPolicies) {
    if (known == policy) return name;
  }
  return "?";
}

absl::StatusOr<AdmissionPolicy> PolicyOf(const std::string& name) {
  for (const auto& [policy, known] : kPolicies) {
    if (name == known) return policy;
  }
  return InvalidArgument("a policy of admission is open, approve or listed, not '%s'", name);
}

std::string OrderText(const AdmissionOrder& order) {
  return JsonOf(order).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<AdmissionOrder> ParseOrder(const std::string& line) {
  if (line.size() > kOrderBytesMax)
    return InvalidArgument("an order is at most %d bytes long", static_cast<int>(kOrderBytesMax));
  try {
    return Read(Json::parse(line));
  } catch (const Json::exception&) {
    constexpr size_t kShown = 40;
    std::string shown = line.substr(0, kShown);
    for (char& c : shown) c = c >= ' ' && c < 0x7f ? c : '?';
    return InvalidArgument(
        "want a line as skerry-coordinator pause, admit or another command writes it, got '%s'; it "
        "is skipped: give the order again by its command [SK-order-unread]",
        shown);
  }
}

std::string OrderRecord(const AdmissionOrder& order) {
  return Json{{"kind", "order"}, {"order", JsonOf(order)}}.dump(-1, ' ', false,
                                                                Json::error_handler_t::replace);
}

std::string AskedRecord(const NodeId& node, const Asker& asker) {
  return Json{{"kind", "asked"},
              {"node", node},
              {"ticket", asker.ticket},
              {"region", asker.region},
              {"device", asker.device}}
      .dump();
}

void Admission::ApplyAsked(const Json& record) {
  asked[record.at("node").get<NodeId>()] = {record.at("ticket"), record.at("region"),
                                            record.at("device")};
}

absl::Status Admission::ApplyOrder(const Json& json) {
  SKERRY_ASSIGN_OR_RETURN(const AdmissionOrder order, Read(json));
  obeyed.insert(order.id);
  const auto let_be = [this](const NodeId& node) {
    denied.erase(node);
    asked.erase(node);
    if (banned.erase(node) > 0) pardoned.insert(node);
  };
  switch (order.does) {
    case Does::kAdmit:
      let_be(order.node);
      allowed.insert(order.node);
      break;
    case Does::kDeny:
      asked.erase(order.node);
      allowed.erase(order.node);
      denied[order.node] = order.why;
      break;
    case Does::kForget:
      let_be(order.node);
      allowed.erase(order.node);
      break;
    case Does::kRevoke:
      revoked[order.ticket] = order.why;
      std::erase_if(asked, [&](const auto& asker) { return asker.second.ticket == order.ticket; });
      break;
    case Does::kPolicy:
      policy = order.policy;
      break;
    case Does::kIssue:
      tickets[order.ticket] = {order.uses, order.expires_unix, order.asks};
      break;
    case Does::kPause:
    case Does::kResume:
    case Does::kCheckpoint:
      break;  // records of their own say what followed
  }
  return absl::OkStatus();
}

std::string Admission::WhyOut(const NodeId& node) const {
  if (const auto by_name = denied.find(node); by_name != denied.end()) {
    const std::string because = by_name->second.empty() ? "" : ": " + by_name->second;
    return "the operator denied this node" + because +
           "; only they can admit it again [SK-node-out]";
  }
  if (const auto out = banned.find(node); out != banned.end()) {
    return "this node was put out of the run: " + out->second +
           "; its operator can show why, and admit it again [SK-node-out]";
  }
  return "";
}

std::set<NodeId> Admission::StillOut(std::set<NodeId> evicted) const {
  std::erase_if(evicted, [this](const NodeId& node) { return !banned.contains(node); });
  return evicted;
}

}  // namespace skerry
