// The production transport between real processes over shaped packets: bulk as a share of the line,
// control and activations beside it, what encryption costs.
//
//   bench_transport [--only PART] [--link MBIT/RTT/LOSS] [--seconds S] [--cold] [--json FILE]
//
// PART: bulk, cubic, activation, round, encryption, plain. LINK: bulk, cubic, round or plain TCP
// over this one instead ("100/80/0.001"). S: of each run, 30 unless said. Before it each pair
// measures its link as nodes do when they join; --cold: it does not, and its bulk begins with
// dialling.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/real_transfers.h"
#include "bench/statistics.h"
#include "bench/transport_pair.h"

namespace skerry::bench {
namespace {

constexpr double kLoss = 0.001;

struct Options {
  std::string only;
  double seconds = 30;
  bool cold = false;
  std::optional<TestLink> link;
};

// The line's share that payload is to get, as the table of the issue has it.
double GoalOf(const TestLink& link) {
  if (link.mbps < 100 || link.rtt_ms <= 20) return 93;
  if (link.rtt_ms <= 80) return 90;
  return link.mbps < 1000 ? 85 : 80;
}

std::string Text(const std::string& control, const TestLink& link) {
  return absl::StrFormat("%s %g/%d/%.1f%%", control, link.mbps, link.rtt_ms, 100 * link.loss);
}

std::unique_ptr<PacketWorld> WorldOf(const std::vector<TestLink>& links,
                                     CongestionControl control) {
  auto world = PacketWorld::Create(SpecOf(links, control), {.remember_paths = false});
  MustBeOk(world.status());
  return *std::move(world);
}

// Bytes per second of full packets, headers included: what the line carries. Above 100 Mbit/s plain
// packets one by one would measure the processor: there the rate that was asked for.
double MeasureLine(const PacketWorld& world, int index, const TestLink& link) {
  const double asked = link.mbps * kMbit;
  if (link.mbps > 100) return asked;
  return UdpStream(world, 2 * index, 2 * index + 1, 1500, 1.05 * asked, 1.5).bytes_per_s;
}

void CheckShaper(Bench& bench, PacketWorld& world, const std::string& during) {
  const HubReport report = world.hub().TakeReport();
  bench.AtMost("shaper late (p99), " + during, 1e3 * report.lateness.Quantile(0.99).seconds(), "ms",
               1);
}

void AddLatency(Bench& bench, const std::string& what, const PairRun& run) {
  if (run.pings.empty() || run.idle_pings.empty()) return;
  const double idle = QuantileOf(run.idle_pings, 0.5);
  bench.AtMost(what + ": control p50", 1e3 * (QuantileOf(run.pings, 0.5) - idle), "ms more", 5);
  bench.AtMost(what + ": control p99", 1e3 * (QuantileOf(run.pings, 0.99) - idle), "ms more", 20);
}

void BenchLinks(Bench& bench, const Options& options, const std::vector<TestLink>& links,
                CongestionControl control, const std::function<double(const TestLink&)>& goal) {
  const std::string name = control == CongestionControl::kCubic ? "cubic" : "bbr";
  const auto world = WorldOf(links, control);
  std::vector<PairRun> runs(links.size());
  std::vector<double> lines(links.size());
  const auto measure = [&](int i) {
    const auto at = static_cast<size_t>(i);
    lines[at] = MeasureLine(*world, i, links[at]);
    EndOptions load = LoadFor(links[at], options.seconds);
    load.measures = !options.cold;
    runs[at] = RunPair(*world, i, load);
  };
  // Slow links side by side; what needs the processor alone.
  int slow = 0;
  while (slow < static_cast<int>(links.size()) && links[static_cast<size_t>(slow)].mbps < 100)
    ++slow;
  AtOnce(slow, measure);
  for (int i = slow; i < static_cast<int>(links.size()); ++i) measure(i);
  for (size_t i = 0; i < links.size(); ++i) {
    const std::string what = Text(name, links[i]);
    bench.AtLeast(what + ": payload", 100 * runs[i].payload_bytes_per_s / lines[i], "% of line",
                  goal(links[i]));
    AddLatency(bench, what, runs[i]);
    bench.Record(what + ": slowest handler", 1e3 * runs[i].slowest_handler_s, "ms");
  }
  CheckShaper(bench, *world, name);
}

void BenchBulk(Bench& bench, const Options& options) {
  if (options.link)
    return BenchLinks(bench, options, {*options.link}, CongestionControl::kBbr, GoalOf);
  std::vector<TestLink> links = GridOfLinks();
  for (TestLink& link : links) link.loss = kLoss;
  BenchLinks(bench, options, links, CongestionControl::kBbr, GoalOf);
}

void BenchCubic(Bench& bench, const Options& options) {
  if (options.link)
    return BenchLinks(bench, options, {*options.link}, CongestionControl::kCubic, GoalOf);
  BenchLinks(bench, options, {{100, 80, kLoss}}, CongestionControl::kCubic,
             [](const TestLink&) { return 75.0; });
  BenchLinks(bench, options, {{10, 80, 0}, {100, 80, 0}}, CongestionControl::kCubic, GoalOf);
}

// How much longer activations take beside deltas than on the idle line.
void AddActivations(Bench& bench, const std::string& what, const PairRun& run,
                    const TestLink& link) {
  if (run.activations.empty() || run.idle_activations.empty())
    return bench.AtLeast(what + ": activations answered", 0, "", 1);
  const double idle = QuantileOf(run.idle_activations, 0.5);
  const double chunk_ms = 1e3 * (256 << 10) / (link.mbps * kMbit);
  bench.AtMost(what + ": activation behind a delta, p50",
               1e3 * (QuantileOf(run.activations, 0.5) - idle), "ms more", chunk_ms);
  // Of a lost segment it is known a round trip later.
  const double lost_ms = link.loss > 0 ? link.rtt_ms : 0;
  bench.AtMost(what + ": activation behind a delta, p99",
               1e3 * (QuantileOf(run.activations, 0.99) - idle), "ms more",
               chunk_ms + 20 + lost_ms);
}

// Activations of 64 KiB beside deltas of the same pair.
void BenchActivation(Bench& bench, const Options& options) {
  const std::vector<TestLink> links = {{10, 80, 0}, {100, 80, 0}};
  const auto world = WorldOf(links, CongestionControl::kBbr);
  for (int i = 0; i < static_cast<int>(links.size()); ++i) {
    const TestLink& link = links[static_cast<size_t>(i)];
    EndOptions load = LoadFor(link, std::min(options.seconds, 15.0));
    load.measures = !options.cold;
    load.activation_bytes = 64 << 10;
    load.activation_every_s = 0.25;
    const PairRun run = RunPair(*world, i, load);
    const std::string what = Text("bbr", link);
    AddActivations(bench, what, run, link);
    bench.Record(what + ": payload of deltas beside",
                 100 * run.payload_bytes_per_s / (link.mbps * kMbit), "% of line");
  }
  CheckShaper(bench, *world, "activations");
}

// A round of deltas to many peers over the sender's own line, and activations to one more.
void BenchRound(Bench& bench, const Options& options) {
  constexpr int kDeltasTo = 8;
  std::vector<TestLink> lines = {{20, 40, kLoss}, {100, 40, kLoss}};
  if (options.link) lines = {*options.link};
  for (const TestLink& line : lines) {
    auto world = PacketWorld::Create(SharedLineSpec(line, 1 + kDeltasTo, CongestionControl::kBbr),
                                     {.remember_paths = false});
    MustBeOk(world.status());
    EndOptions load = LoadFor(line, options.seconds);
    load.measures = !options.cold;
    load.deltas_from = 1;
    load.under_way = 2;
    load.activation_bytes = 64 << 10;
    load.activation_every_s = 0.5;
    std::vector<int32_t> peers;
    for (int32_t peer = 1; peer <= 1 + kDeltasTo; ++peer) peers.push_back(peer);
    const PairRun run = RunEnds(**world, 0, peers, load);
    const std::string what = absl::StrFormat("round to %d, %s", kDeltasTo, Text("bbr", line));
    const double activations = static_cast<double>(run.activations.size()) *
                               static_cast<double>(load.activation_bytes) / load.load_s;
    bench.AtLeast(what + ": deltas and activations",
                  100 * (run.payload_bytes_per_s + activations) / (line.mbps * kMbit), "% of line",
                  85);
    AddLatency(bench, what, run);
    AddActivations(bench, what, run, line);
    CheckShaper(bench, **world, what);
  }
}

// What the kernel's TCP alone carries over the same lines, from cold, with all that it wants to put
// into the line's queue: the limit of whatever is built above it.
void BenchPlain(Bench& bench, const Options& options) {
  std::vector<TestLink> links = GridOfLinks();
  for (TestLink& link : links) link.loss = kLoss;
  if (options.link) links = {*options.link};
  const auto world = WorldOf(links, CongestionControl::kBbr);
  for (int i = 0; i < static_cast<int>(links.size()); ++i) {
    const TestLink& link = links[static_cast<size_t>(i)];
    const double line = MeasureLine(*world, i, link);
    for (const int flows : {4, 16}) {
      const double rate = TcpGoodput(*world, 2 * i, 2 * i + 1, flows, 0, options.seconds);
      bench.Record(absl::StrFormat("%s: plain TCP, %d connections", Text("bbr", link), flows),
                   100 * rate / line, "% of line");
    }
  }
  const HubReport report = world->hub().TakeReport();
  bench.Record("shaper late (p99), plain TCP", 1e3 * report.lateness.Quantile(0.99).seconds(),
               "ms");
}

// Ours against plain TCP over as many connections, on a line that both can fill.
void BenchEncryption(Bench& bench, const Options& options) {
  const std::vector<TestLink> links = {{1000, 20, 0}};
  const auto world = WorldOf(links, CongestionControl::kBbr);
  const double plain = TcpGoodput(*world, 0, 1, 2, 2, options.seconds / 3);
  EndOptions load = LoadFor(links[0], options.seconds);
  load.measures = !options.cold;
  const PairRun run = RunPair(*world, 0, load);
  bench.Record("plain TCP, 1000/20/0", 8e-6 * plain, "Mbit/s");
  bench.Record("sender's processor at 1000/20/0",
               1e9 * run.sender_processor_s / (run.payload_bytes_per_s * load.load_s), "s/GB");
  bench.AtMost("all we add to plain TCP, 1000/20/0", 100 * (1 - run.payload_bytes_per_s / plain),
               "%", 3);
  CheckShaper(bench, *world, "encryption");
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--end" && i + 1 < argc) return RunEnd(argv[i + 1]);
    if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (argument == "--link" && i + 1 < argc) {
      TestLink link;
      if (std::sscanf(argv[++i], "%lf/%d/%lf", &link.mbps, &link.rtt_ms, &link.loss) == 3)
        options.link = link;
    } else if (argument == "--cold") {
      options.cold = true;
    } else if (argument == "--seconds" && i + 1 < argc) {
      options.seconds = std::max(1.0, std::atof(argv[++i]));
    } else {
      rest.push_back(argv[i]);
    }
  }
  Bench bench("transport", static_cast<int>(rest.size()), rest.data());
  MustBeOk(ProbePacketPlatform().Best().status());
  const std::vector<std::pair<std::string, void (*)(Bench&, const Options&)>> parts = {
      {"bulk", BenchBulk},   {"cubic", BenchCubic},           {"activation", BenchActivation},
      {"round", BenchRound}, {"encryption", BenchEncryption}, {"plain", BenchPlain}};
  for (const auto& [name, part] : parts) {
    if (options.only.empty() || options.only == name) part(bench, options);
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Main(argc, argv);
}
