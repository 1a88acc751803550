#include "wire/message/reachability.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/rng.h"
#include "wire/message/message.h"

namespace skerry {
namespace {

struct Place {
  std::string host;  // without brackets
  std::string port;
};

// "tcp://host:port"; empty host: it is none.
Place PlaceOf(const std::string& endpoint) {
  constexpr char kScheme[] = "tcp://";
  const size_t colon = endpoint.rfind(':');
  if (endpoint.rfind(kScheme, 0) != 0 || colon == std::string::npos || colon < 7) return {};
  Place place{endpoint.substr(6, colon - 6), endpoint.substr(colon + 1)};
  if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']')
    place.host = place.host.substr(1, place.host.size() - 2);
  const bool is_number = !place.port.empty() && place.port.size() <= 5 &&
                         place.port.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? place : Place{};
}

std::string EndpointOf(const std::string& host, const std::string& port) {
  const bool v6 = host.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + host + "]" : host) + ":" + port;
}

// As an IPv6 socket shows an IPv4 peer.
std::string WithoutMapping(const std::string& address) {
  constexpr char kMapped[] = "::ffff:";
  return address.rfind(kMapped, 0) == 0 ? address.substr(std::strlen(kMapped)) : address;
}

bool IsAny(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host == "*";
}

// 0 anywhere, 1 in a private network, 2 on the same link, 3 on the same machine: who is seen at one
// of a scope can be meant at one of a wider scope, not the other way round.
int ScopeOf(const std::string& host) {
  const auto begins = [&](const char* with) { return host.rfind(with, 0) == 0; };
  if (begins("127.") || host == "::1" || host == "localhost") return 3;
  if (begins("169.254.") || begins("fe80:")) return 2;
  const bool v6 = host.find(':') != std::string::npos;
  if (begins("10.") || begins("192.168.") || (v6 && (begins("fc") || begins("fd")))) return 1;
  if (begins("172.") || begins("100.")) {
    const int second = std::atoi(host.c_str() + 4);
    return (begins("172.") ? second >= 16 && second < 32 : second >= 64 && second < 128) ? 1 : 0;
  }
  return 0;
}

void AddOnce(std::vector<std::string>& to, std::string endpoint, size_t most) {
  if (to.size() < most && std::find(to.begin(), to.end(), endpoint) == to.end())
    to.push_back(std::move(endpoint));
}

}  // namespace

std::string ReachableAt(const Reachability& found) {
  for (const ReachTry& one : found.tried) {
    if (one.answered) return one.endpoint;
  }
  return "";
}

std::vector<std::string> DialBackAt(const std::vector<std::string>& listens,
                                    const std::string& seen) {
  const std::string from = WithoutMapping(seen);
  std::vector<std::string> places;
  for (size_t i = 0; i < listens.size(); ++i) {
    const Place place = PlaceOf(listens[i]);
    if (place.host.empty()) continue;
    // What is advertised may be on a network that the coordinator shares with it.
    const bool is_meant = from.empty() || ScopeOf(place.host) <= ScopeOf(from);
    if (!IsAny(place.host) && is_meant)
      AddOnce(places, EndpointOf(place.host, place.port), kReachTriesMax);
    if (i == 0 && !from.empty()) AddOnce(places, EndpointOf(from, place.port), kReachTriesMax);
  }
  return places;
}

std::vector<std::string> ListensAt(const std::string& endpoint,
                                   const std::vector<std::string>& addresses) {
  std::vector<std::string> listens;
  const Place place = PlaceOf(endpoint);
  if (place.host.empty() || !IsAny(place.host)) return listens;
  for (const std::string& address : addresses) {
    const bool v6 = address.find(':') != std::string::npos;
    if (ScopeOf(address) >= 2 || (v6 && place.host != "::")) continue;
    AddOnce(listens, EndpointOf(address, place.port), kListensMax - 1);
  }
  return listens;
}

std::vector<std::string> Explain(const Reachability& found) {
  const std::string at = ReachableAt(found);
  std::string tried;
  for (const ReachTry& one : found.tried)
    tried += (tried.empty() ? "" : ", ") + one.endpoint + (one.answered ? " (yes)" : " (no)");
  std::vector<std::string> lines;
  lines.push_back("the coordinator sees this node at " + found.seen + " and dialled it back at " +
                  (tried.empty() ? "no address that it can reach" : tried));
  if (!at.empty()) {
    lines.push_back("reachable: other nodes dial this one at " + at);
    return lines;
  }
  lines.push_back(
      "not reachable: a router or firewall lets no connection in. Nothing needs to be done: this "
      "node dials the others, and what cannot be dialled either is reached through a relay, which "
      "reads nothing but is slower.");
  const Place place = found.tried.empty() ? Place{} : PlaceOf(found.tried.front().endpoint);
  const std::string port = place.port.empty() ? "7701" : place.port;
  lines.push_back("to be reachable, let the router forward a TCP port (say " + port +
                  ") to this machine, and join with --listen tcp://*:" + port + " --advertise " +
                  EndpointOf(WithoutMapping(found.seen), port));
  return lines;
}

std::vector<NodeId> RelayOrder(const NodeId& a, const NodeId& b, const std::vector<NodeId>& relays,
                               const NodeId& always) {
  const auto& [low, high] = std::minmax(a, b);
  const std::string pair = low.Hex() + high.Hex();
  std::vector<std::pair<uint64_t, NodeId>> order;
  for (const NodeId& relay : relays) {
    if (relay == a || relay == b || relay == always) continue;
    order.emplace_back(Mix64(HashName(pair + relay.Hex())), relay);
  }
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<NodeId> best_first;
  for (const auto& [weight, relay] : order) best_first.push_back(relay);
  if (!always.IsZero() && always != a && always != b) best_first.push_back(always);
  return best_first;
}

}  // namespace skerry
