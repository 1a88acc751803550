// Several flows at once: sharing a line, or each on a lossy line of its own.
#include <algorithm>

#include "bench/fidelity.h"
#include "bench/fidelity_links.h"
#include "bench/real_transfers.h"
#include "common/status.h"

namespace skerry::bench {
namespace {

std::string NameOf(CongestionControl control) {
  return control == CongestionControl::kCubic ? "cubic" : "bbr";
}

// Node 2i sends to node 2i + 1; all senders behind one line, all receivers behind another.
NetworkSpec SharedLine(double mbps, Duration rtt, CongestionControl control, int flows) {
  NetworkSpec spec;
  spec.regions = {"west", "east"};
  PathSpec path;
  path.one_way = rtt / 2;
  spec.paths.assign(4, path);
  for (int site = 0; site < 2; ++site) {
    SiteSpec line;
    line.region = site;
    spec.sites.push_back(line);
  }
  spec.sites[0].up_bytes_per_s = mbps * kMbit;
  for (int i = 0; i < 2 * flows; ++i) spec.site_of_node.push_back(i % 2);
  spec.congestion_control = control;
  return spec;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Seconds of every flow's transfer, all begun at the same moment on fresh connections.
std::vector<double> MeasureAtOnce(const PacketWorld& world, int flows, int64_t bytes) {
  std::vector<std::unique_ptr<TcpPath>> paths;
  for (int i = 0; i < flows; ++i)
    paths.push_back(std::make_unique<TcpPath>(world, 2 * i, 2 * i + 1));
  std::vector<double> seconds(static_cast<size_t>(flows));
  AtOnce(flows, [&](int i) {
    PreferThisThread();
    seconds[static_cast<size_t>(i)] = paths[static_cast<size_t>(i)]->TransferSeconds(bytes);
  });
  return seconds;
}

void CompareLoss(Bench& bench, const FidelityOptions& options, CongestionControl control,
                 double loss) {
  const bool bbr = control == CongestionControl::kBbr;
  // As many lines at once as the shaper carries without being late. Which packets are lost is drawn
  // from the seed of a world, and the slowest tenth of cubic's runs are those that lose one of
  // their first: many runs and several worlds say how many these are.
  const int lines = 5, worlds = options.quick ? 1 : 4;
  const int rounds = options.quick ? 2 : loss > 0.005 ? 1 : bbr ? 4 : 12;  // in each
  const int64_t bytes = options.quick ? 1 << 20 : 4 << 20;
  const TestLink link{100, 80, loss};
  const std::vector<TestLink> links(static_cast<size_t>(lines), link);
  std::vector<double> real, simulated;
  const std::string name =
      absl::StrFormat("%s, %g %% loss, %d MiB", NameOf(control), 100 * loss, bytes >> 20);
  for (int i = 0; i < worlds; ++i) {
    PacketWorldOptions world_options;
    world_options.seed = static_cast<uint64_t>(i) + 1;
    world_options.remember_paths = false;
    auto world = PacketWorld::Create(SpecOf(links, control), world_options);
    MustBeOk(world.status());
    for (int round = 0; round < rounds; ++round) {
      for (const double s : MeasureAtOnce(**world, lines, bytes)) real.push_back(s);
    }
    CheckShaper(bench, **world, absl::StrFormat("%s, world %d", name, i + 1));
  }
  constexpr uint64_t kDraws = 2000;
  for (uint64_t seed = 1; seed <= kDraws; ++seed)
    simulated.push_back(SimulatedSeconds(SpecOf({link}, control), seed, {bytes})[0]);
  for (const double share : {0.5, 0.9}) {
    const double want = QuantileOf(real, share), got = QuantileOf(simulated, share);
    const std::string what = absl::StrFormat("%s: p%.0f against %.2f s of %d runs", name,
                                             100 * share, want, real.size());
    const double error = 100 * std::abs(got - want) / want;
    if (options.quick) {
      bench.Record(what, error, "%");
    } else {
      bench.AtMost(what, error, "%", bbr && share == 0.5 ? 10 : 25);
    }
  }
}

}  // namespace

void BenchSharing(Bench& bench, const FidelityOptions& options) {
  const int64_t bytes = options.quick ? 1 << 20 : 4 << 20;
  for (const auto control : {CongestionControl::kCubic, CongestionControl::kBbr}) {
    const int most = 16;
    const NetworkSpec spec = SharedLine(100, Duration::Millis(80), control, most);
    auto world = PacketWorld::Create(spec, {.remember_paths = false});
    MustBeOk(world.status());
    Errors mean(options), last(options);
    for (const int flows : {2, 4, 8, 16}) {
      if (options.quick && flows != 8) continue;
      std::vector<double> means, lasts;
      for (int repetition = 0; repetition < (options.quick ? 1 : 3); ++repetition) {
        const std::vector<double> real = MeasureAtOnce(**world, flows, bytes);
        means.push_back(Mean(real));
        lasts.push_back(*std::max_element(real.begin(), real.end()));
      }
      const std::vector<double> simulated = SimulatedAtOnce(spec, 1, flows, bytes);
      const std::string cell = absl::StrFormat("%s, %d flows", NameOf(control), flows);
      mean.Add(cell + ", mean of the flows", Mean(simulated), Median(means));
      last.Add(cell + ", the last", *std::max_element(simulated.begin(), simulated.end()),
               Median(lasts));
    }
    const std::string name = "2-16 flows through one line, " + NameOf(control);
    bench.AtMost(name + ": mean time", 100 * mean.most(), "%", 10);
    std::printf("  largest: %s\n", mean.worst().c_str());
    // Which flow is unlucky is chance in the kernel; flows of the simulator are equal.
    bench.Record(name + ": time of the last, mean error", 100 * last.mean(), "%");
    CheckShaper(bench, **world, NameOf(control) + " sharing");
  }
}

void BenchLoss(Bench& bench, const FidelityOptions& options) {
  for (const auto control : {CongestionControl::kCubic, CongestionControl::kBbr}) {
    CompareLoss(bench, options, control, 0.001);
    if (!options.quick) CompareLoss(bench, options, control, 0.01);
  }
}

}  // namespace skerry::bench
