#include <algorithm>
#include <atomic>

#include "bench/fidelity.h"
#include "bench/fidelity_links.h"
#include "bench/real_transfers.h"
#include "common/status.h"

namespace skerry::bench {
namespace {

constexpr double kLoss = 0.01;
constexpr int kLossPacketBytes = 100;
constexpr int kFullPacketBytes = 1500;
constexpr double kPayloadShare = 1448.0 / 1500;

std::string Text(const TestLink& link) {
  return absl::StrFormat("%g Mbit/s, %d ms", link.mbps, link.rtt_ms);
}

void RoundTrips(Bench& bench, const FidelityOptions& options, const PacketWorld& world,
                const std::vector<TestLink>& links) {
  std::vector<double> extra_ms(links.size());
  AtOnce(static_cast<int>(links.size()), [&](int i) {
    const TestLink& link = links[static_cast<size_t>(i)];
    const std::vector<double> took =
        UdpRoundTrips(world, 2 * i, 2 * i + 1, options.quick ? 100 : 400, 0.01);
    double sum = 0;
    for (const double s : took) sum += s;
    const double serialisation = 2 * kProbeBytes / (link.mbps * kMbit);
    const double mean = sum / static_cast<double>(took.size());
    extra_ms[static_cast<size_t>(i)] = 1e3 * (mean - serialisation) - link.rtt_ms;
  });
  for (size_t i = 0; i < links.size(); ++i)
    bench.AtMost("round trip above " + Text(links[i]), extra_ms[i], "ms", 0.5);
}

// What full-size packets get of a line that is offered more than it carries. Above 100 Mbit/s by
// TCP, whose super-packets the shaper carries as it does in a run; plain packets one by one would
// measure the processor.
double RateShare(const PacketWorld& world, int index, const TestLink& link, double seconds) {
  const double line = link.mbps * kMbit;
  if (link.mbps <= 100) {
    return UdpStream(world, 2 * index, 2 * index + 1, kFullPacketBytes, 1.05 * line, seconds)
               .bytes_per_s /
           line;
  }
  // As many flows as it takes to fill the pipe and not the queue.
  const double pipe = line * link.rtt_ms * 1e-3;
  const int flows = std::max(2, static_cast<int>(std::ceil(1.12 * pipe / 3.5e6)));
  return TcpGoodput(world, 2 * index, 2 * index + 1, flows, 1 + 15e-3 * link.rtt_ms, seconds) /
         kPayloadShare / line;
}

void Rates(Bench& bench, const FidelityOptions& options, PacketWorld& world,
           const std::vector<TestLink>& links) {
  for (size_t i = 0; i < links.size(); ++i) {
    if (options.quick && i % 4 != 0) continue;
    const double share = RateShare(world, static_cast<int>(i), links[i], 1.5);
    bench.AtMost("rate of " + Text(links[i]) + ", off by", 100 * std::abs(share - 1), "%", 1);
  }
}

void Losses(Bench& bench, const FidelityOptions& options, const std::vector<TestLink>& links) {
  auto world = PacketWorld::Create(SpecOf(links, CongestionControl::kBbr), {});
  MustBeOk(world.status());
  const double per_second = 1500, seconds = options.quick ? 2 : 14;
  std::vector<UdpCount> counts(links.size());
  AtOnce(static_cast<int>(links.size()), [&](int i) {
    counts[static_cast<size_t>(i)] = UdpStream(**world, 2 * i, 2 * i + 1, kLossPacketBytes,
                                               per_second * kLossPacketBytes, seconds);
  });
  // 99.9 % of correct shapers are within 3.29 standard deviations.
  for (size_t i = 0; i < links.size(); ++i) {
    const auto sent = static_cast<double>(counts[i].sent);
    const auto lost = static_cast<double>(counts[i].sent - counts[i].received);
    const double deviation = std::sqrt(sent * kLoss * (1 - kLoss));
    bench.AtMost(absl::StrFormat("loss 1 %% of %s: %.3f %% of %.0f, off by", Text(links[i]),
                                 100 * lost / sent, sent),
                 std::abs(lost - sent * kLoss) / deviation, "sigma", 3.29);
  }
  CheckShaper(bench, **world, "losses");
}

}  // namespace

void BenchAccuracy(Bench& bench, const FidelityOptions& options) {
  std::vector<TestLink> links = GridOfLinks();
  {
    auto world = PacketWorld::Create(SpecOf(links, CongestionControl::kBbr), {});
    MustBeOk(world.status());
    RoundTrips(bench, options, **world, links);
    CheckShaper(bench, **world, "round trips");
    Rates(bench, options, **world, links);
    CheckShaper(bench, **world, "rates");
  }
  for (TestLink& link : links) link.loss = kLoss;
  Losses(bench, options, links);
}

}  // namespace skerry::bench
