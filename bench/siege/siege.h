// A run of the programs and what strangers do to it: for the test, short, and the benchmark, long.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/crowd_hellos.h"
#include "bench/siege/hostile_client.h"
#include "bench/siege/program_run.h"
#include "common/check.h"

namespace skerry::siege {

struct Siege {
  int64_t junk_bytes = 24 << 20;
  int bombs = 2;
  int half_open = 200;
  int strangers = 200;
  int hellos = 3;  // of each
};

// Rounds that the coordinator has frozen so far.
inline int64_t Rounds(const ProgramRun& run) {
  const std::string events = TextOf(run.at / "run" / "events.jsonl");
  int64_t rounds = 0;
  for (size_t at = 0; (at = events.find("\"kind\":\"round\"", at)) != std::string::npos; ++at)
    ++rounds;
  return rounds;
}

class Fleet {
 public:
  explicit Fleet(int rtt_ms = 0) : run(2, 1'000'000, rtt_ms) {
    run.Serve();
    ticket = run.Say({"ticket", run.Dir()});
    // The second dials through a proxy, which keeps what it says to the coordinator.
    proxy.emplace(PortOf(run.Endpoint()));
    const std::string by_proxy = run.Say(
        {"ticket", run.Dir(), "--endpoint", "tcp://127.0.0.1:" + std::to_string(proxy->port())});
    nodes.push_back(run.Join(ticket, "one"));
    nodes.push_back(run.Join(by_proxy, "two"));
    WaitFor(run.at / "run" / "events.jsonl", "\"kind\":\"round\"", *run.coordinator);
  }

  std::vector<uint16_t> Ports() const {
    std::vector<uint16_t> ports = {PortOf(run.Endpoint())};
    const auto state = nlohmann::json::parse(run.Say({"nodes", run.Dir(), "--json"}));
    for (const auto& node : state) ports.push_back(PortOf(node.at("endpoint")));
    return ports;
  }
  int64_t Resident() const {
    int64_t most = ResidentKb(run.coordinator->pid());
    for (const ChildProcess& node : nodes) most = std::max(most, ResidentKb(node.pid()));
    return most;
  }
  bool AllLive() {
    bool live = run.coordinator->Ended().empty();
    for (ChildProcess& node : nodes) live = live && node.Ended().empty();
    return live;
  }

  ProgramRun run;
  std::string ticket;
  std::optional<RecordingProxy> proxy;
  std::vector<ChildProcess> nodes;
};

// Returns how many of the strangers were answered.
inline int Lay(Fleet& fleet, const Siege& siege) {
  const std::vector<uint16_t> ports = fleet.Ports();
  SKERRY_CHECK(ports.size() == 3, "a coordinator and two nodes");
  std::vector<RawSocket> half_open;
  for (const uint16_t port : ports) {
    for (RawSocket& socket : OpenHalf(port, siege.half_open))
      half_open.push_back(std::move(socket));
  }
  for (const uint16_t port : ports) {
    SKERRY_CHECK(SendJunk(port, siege.junk_bytes / 3) > 0, "junk was taken");
    SendLengthBombs(port, siege.bombs);
    SendSplitGreetings(port, 1);
  }
  // Its uses are spent: whoever brings it is refused.
  const auto ticket = DecodeTicket(fleet.ticket);
  SKERRY_CHECK(ticket.ok(), "a ticket");
  return StormOfHellos(fleet.run.Endpoint(), *ticket, fleet.ticket, siege.strangers, siege.hellos);
}

}  // namespace skerry::siege
