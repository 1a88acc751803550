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

PairRun RunPair(const PacketWorld& world, int index, EndOptions options) {
  static std::atomic<int> runs{0};
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const fs::path directory =
      fs::temp_directory_path() / absl::StrFormat("skerry-transport-%d-%d", getpid(), ++runs);
  fs::create_directories(directory);
  const auto start = [&](bool sends) {
    const int32_t node = 2 * index + (sends ? 0 : 1), other = 2 * index + (sends ? 1 : 0);
    options.sends = sends;
    options.endpoint = EndpointOf(node);
    options.peer_endpoint = EndpointOf(other);
    auto child = ChildProcess::Start({program, "--end", ToJson(options).dump()},
                                     (directory / (sends ? "send" : "receive")).string(),
                                     world.node(node).fd());
    MustBeOk(child.status());
    return *std::move(child);
  };
  ChildProcess receiver = start(false), sender = start(true);
  const bool sender_done = sender.Wait() == "exit code 0";
  const bool both_done = receiver.Wait() == "exit code 0" && sender_done;
  const Json sent = LastLine((directory / "send").string());
  const Json received = LastLine((directory / "receive").string());
  if (!both_done || !sent.is_object() || !received.is_object()) {
    std::fprintf(stderr, "transport: an end failed; see %s\n", directory.c_str());
    std::exit(2);
  }
  PairRun run;
  const double begin = sent.at("begin_s"), end = sent.at("end_s");
  run.payload_bytes_per_s =
      BytesBy(received.at("arrivals").get<std::vector<std::pair<double, int64_t>>>(), begin, end) /
      (end - begin);
  run.idle_pings = sent.at("idle_pings").get<std::vector<double>>();
  run.pings = sent.at("pings").get<std::vector<double>>();
  run.idle_activations = sent.at("idle_activations").get<std::vector<double>>();
  run.activations = sent.at("activations").get<std::vector<double>>();
  run.sender_processor_s = sent.at("processor_s");
  run.slowest_handler_s = std::max(sent.at("slowest_handler_s").get<double>(),
                                   received.at("slowest_handler_s").get<double>());
  run.unanswered = sent.at("unanswered");
  fs::remove_all(directory);
  return run;
}

}  // namespace skerry::bench
