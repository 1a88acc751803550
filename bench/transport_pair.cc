#include "bench/transport_pair.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/statistics.h"
#include "sim/child_process.h"
#include "sim/packet/packet_plan.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kPort = 20001;

std::string EndpointOf(int32_t node) {
  return absl::StrFormat("tcp://%s:%d", PacketAddressText(node), kPort);
}

Json LastLine(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line)) last = line;
  return Json::parse(last, nullptr, false);
}

// Bytes that had arrived at `at`; of the message under way then, the part that time gives it.
double BytesBy(const std::vector<std::pair<double, int64_t>>& arrivals, double begin, double at) {
  std::pair<double, int64_t> before{begin, 0};
  for (const auto& arrival : arrivals) {
    if (arrival.first > at) {
      const double share = (at - before.first) / std::max(1e-9, arrival.first - before.first);
      return static_cast<double>(before.second) +
             share * static_cast<double>(arrival.second - before.second);
    }
    before = arrival;
  }
  return static_cast<double>(before.second);
}

}  // namespace

EndOptions LoadFor(const TestLink& link, double seconds) {
  const double line = link.mbps * kMbit;
  EndOptions options;
  options.load_s = seconds;
  options.ping_every_s = link.mbps < 100 ? 0.1 : 0.05;
  options.message_bytes = static_cast<int64_t>(std::clamp(0.2 * line, 64e3, 4e6));
  const double pipe = line * 1e-3 * link.rtt_ms;
  const double messages = 4 * pipe / static_cast<double>(options.message_bytes);
  options.under_way = std::max<int64_t>(4, static_cast<int64_t>(messages) + 1);
  return options;
}

PairRun RunEnds(const PacketWorld& world, int32_t sender, const std::vector<int32_t>& receivers,
                EndOptions options) {
  static std::atomic<int> runs{0};
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const fs::path directory =
      fs::temp_directory_path() / absl::StrFormat("skerry-transport-%d-%d", getpid(), ++runs);
  fs::create_directories(directory);
  const auto log_of = [&](int seat) { return (directory / std::to_string(seat)).string(); };
  const auto start = [&](int seat, int32_t node, std::vector<std::string> peers) {
    options.seat = seat;
    options.endpoint = EndpointOf(node);
    options.peer_endpoints = std::move(peers);
    auto child = ChildProcess::Start({program, "--end", ToJson(options).dump()}, log_of(seat),
                                     world.node(node).fd());
    MustBeOk(child.status());
    return *std::move(child);
  };
  std::vector<std::string> endpoints;
  std::vector<ChildProcess> ends;
  for (const int32_t node : receivers) {
    endpoints.push_back(EndpointOf(node));
    ends.push_back(start(static_cast<int>(endpoints.size()), node, {EndpointOf(sender)}));
  }
  ends.push_back(start(0, sender, endpoints));
  bool all_done = true;
  for (ChildProcess& end : ends) all_done = end.Wait() == "exit code 0" && all_done;
  std::vector<Json> said;
  for (int seat = 0; seat <= static_cast<int>(receivers.size()); ++seat) {
    said.push_back(LastLine(log_of(seat)));
    all_done = all_done && said.back().is_object();
  }
  if (!all_done) {
    std::fprintf(stderr, "transport: an end failed; see %s\n", directory.c_str());
    std::exit(2);
  }
  PairRun run;
  const Json& sent = said[0];
  const double begin = sent.at("begin_s"), end = sent.at("end_s");
  for (const Json& each : said)
    run.slowest_handler_s =
        std::max(run.slowest_handler_s, each.at("slowest_handler_s").get<double>());
  for (size_t i = 1; i < said.size(); ++i) {
    const auto arrivals = said[i].at("arrivals").get<std::vector<std::pair<double, int64_t>>>();
    run.payload_bytes_per_s += BytesBy(arrivals, begin, end) / (end - begin);
  }
  run.idle_pings = sent.at("idle_pings").get<std::vector<double>>();
  run.pings = sent.at("pings").get<std::vector<double>>();
  run.idle_activations = sent.at("idle_activations").get<std::vector<double>>();
  run.activations = sent.at("activations").get<std::vector<double>>();
  run.sender_processor_s = sent.at("processor_s");
  run.unanswered = sent.at("unanswered");
  fs::remove_all(directory);
  return run;
}

PairRun RunPair(const PacketWorld& world, int index, EndOptions options) {
  return RunEnds(world, 2 * index, {2 * index + 1}, std::move(options));
}

}  // namespace skerry::bench
