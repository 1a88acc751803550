// The ring of processes over shaped packets: skerry-node ring on machines of its own each, by the
// share of the line that an all-reduce fills, and by the seconds that a lost member costs.
//
//   bench_ring [--link MEMBERS/MBIT/RTT_MS] [--json FILE]
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "bench/fidelity_links.h"
#include "bench/statistics.h"
#include "sim/child_process.h"
#include "sim/packet/packet_plan.h"
#include "sim/packet/packet_world.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kGoalOfLine = 85;  // per cent
constexpr double kGoalFormedAgainS = 10;
constexpr double kGiveUpS = 180;
constexpr int kPort = 20001;

struct RingCase {
  int members = 2;
  double mbps = 100, rtt_ms = 1;
};

const std::vector<RingCase> kCases = {
    {2, 100, 1}, {4, 100, 1}, {2, 100, 20}, {4, 100, 20}, {9, 20, 1}};

// Machines with a line of their own each, in both directions.
NetworkSpec SpecOf(const RingCase& c) {
  NetworkSpec spec;
  const auto count = static_cast<size_t>(c.members);
  PathSpec path;
  path.one_way = Duration::Micros(static_cast<int64_t>(500 * c.rtt_ms));
  spec.paths.assign(count * count, path);
  for (size_t i = 0; i < count; ++i) {
    spec.regions.push_back("machine" + std::to_string(i));
    SiteSpec site;
    site.region = static_cast<int32_t>(i);
    site.up_bytes_per_s = site.down_bytes_per_s = c.mbps * kMbit;
    spec.sites.push_back(site);
    spec.site_of_node.push_back(static_cast<int32_t>(i));
  }
  return spec;
}

std::string NodeProgram() {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "skerry-node").string();
}

std::string TextOf(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Until `found` is true of the file's text; that text.
template <typename Found>
std::string WaitFor(const fs::path& file, const Found& found) {
  const auto begun = Clock::now();
  while (true) {
    std::string text = TextOf(file);
    if (found(text)) return text;
    if (std::chrono::duration<double>(Clock::now() - begun).count() > kGiveUpS) {
      std::fprintf(stderr, "ring: waited in vain; see %s:\n%s\n", file.c_str(), text.c_str());
      std::exit(2);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// A ring of the real program.
class RealRing {
 public:
  RealRing(const RingCase& c, const CommandLine& more) {
    auto world = PacketWorld::Create(SpecOf(c), {.remember_paths = false});
    MustBeOk(world.status());
    world_ = *std::move(world);
    directory_ = fs::temp_directory_path() / absl::StrFormat("skerry-ring-%d", getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    Start(0, {"--members", std::to_string(c.members), "--json"}, more);
    const std::string kTicket = "skerry1-";
    const std::string text = WaitFor(log(), [&](const std::string& t) {
      return t.find(kTicket) != std::string::npos && t.back() == '\n';
    });
    const size_t begin = text.find(kTicket);
    const std::string ticket = text.substr(begin, text.find('\n', begin) - begin);
    for (int i = 1; i < c.members; ++i) Start(i, {ticket}, {});
  }
  ~RealRing() {
    processes_.clear();
    fs::remove_all(directory_);
  }
  RealRing(const RealRing&) = delete;
  RealRing& operator=(const RealRing&) = delete;

  fs::path log() const { return directory_ / "0.log"; }
  pid_t pid(int member) const { return processes_[static_cast<size_t>(member)].pid(); }
  // Of the host, at its end.
  Json Figures() {
    const std::string ended = processes_.front().Wait();
    const std::string text = TextOf(log());
    const Json figures =
        Json::parse(text.substr(std::min(text.size(), text.find("[\n"))), nullptr, false);
    if (ended == "exit code 0" && figures.is_array()) return figures;
    std::fprintf(stderr, "ring: the host ended with %s:\n%s\n", ended.c_str(), text.c_str());
    std::exit(2);
  }

 private:
  void Start(int member, const CommandLine& first, const CommandLine& more) {
    const std::string own = absl::StrFormat("tcp://%s:%d", PacketAddressText(member), kPort);
    CommandLine command = {NodeProgram(), "ring", "--listen", own};
    command.insert(command.end(), first.begin(), first.end());
    command.insert(command.end(), more.begin(), more.end());
    auto child =
        ChildProcess::Start(command, (directory_ / absl::StrFormat("%d.log", member)).string(),
                            world_->node(member).fd());
    MustBeOk(child.status());
    processes_.push_back(*std::move(child));
  }

  std::unique_ptr<PacketWorld> world_;
  fs::path directory_;
  std::vector<ChildProcess> processes_;
};

std::string NameOf(const RingCase& c) {
  return absl::StrFormat("%d members, %g Mbit/s, %g ms", c.members, c.mbps, c.rtt_ms);
}

// Three operations of two seconds of line each: by the share of it that payload got.
double ShareOfLine(Bench& bench, const RingCase& c, const std::string& operation) {
  const double wire_share = operation == "broadcast" ? 1 : 2.0 * (c.members - 1) / c.members;
  const double mib = 2 * c.mbps * kMbit / wire_share / (1 << 20);
  RealRing ring(c,
                {"--mib", absl::StrFormat("%.3f", mib), "--times", "3", "--operation", operation});
  const Json figures = ring.Figures();
  const double rate = figures[0].at("wire_bytes_per_s");
  bench.AtLeast(NameOf(c) + ", " + operation + ": right", figures[0].at("right").get<bool>(), "",
                1);
  return 100 * rate / (c.mbps * kMbit);
}

void BenchCase(Bench& bench, const RingCase& c) {
  bench.AtLeast(NameOf(c) + ": payload", ShareOfLine(bench, c, "all-reduce"), "% of line",
                kGoalOfLine);
  // From one to the other, nothing back.
  if (c.members == 2)
    bench.Record(NameOf(c) + ", one way only: payload", ShareOfLine(bench, c, "broadcast"),
                 "% of line");
}

// From the blow to the ring of the others.
void BenchLoss(Bench& bench, int signal, const std::string& what) {
  RealRing ring({4, 100, 1}, {"--mib", "4", "--times", "30"});
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  WaitFor(ring.log(), [&](const std::string& t) { return has(t, "4 of 4"); });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const auto blow = Clock::now();
  kill(ring.pid(2), signal);
  WaitFor(ring.log(), [&](const std::string& t) { return has(t, "formed again, of 3"); });
  const double seconds = std::chrono::duration<double>(Clock::now() - blow).count();
  bench.AtMost(what + " of 1 of 4: until the 3 go on", seconds, "s", kGoalFormedAgainS);
  const Json figures = ring.Figures();
  bench.AtLeast(what + ": then right, bit for bit", figures[0].at("right").get<bool>(), "", 1);
  kill(ring.pid(2), SIGCONT);
}

int Main(int argc, char** argv) {
  Bench bench("ring", argc, argv, {"--link"});
  MustBeOk(ProbePacketPlatform().Best().status());
  RingCase only;
  const std::string link = bench.Option("--link");
  if (!link.empty()) {
    if (std::sscanf(link.c_str(), "%d/%lf/%lf", &only.members, &only.mbps, &only.rtt_ms) != 3) {
      std::fprintf(stderr, "--link wants MEMBERS/MBIT/RTT_MS, as 4/100/1\n");
      return 2;
    }
    BenchCase(bench, only);
    return bench.Finish();
  }
  for (const RingCase& c : kCases) BenchCase(bench, c);
  BenchLoss(bench, SIGKILL, "kill -9");
  BenchLoss(bench, SIGSTOP, "hang");
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Main(argc, argv);
}
