#include <algorithm>
#include <mutex>

#include "bench/fidelity.h"
#include "bench/fidelity_links.h"
#include "bench/real_transfers.h"
#include "common/status.h"

namespace skerry::bench {
namespace {

constexpr int64_t kKiB = 1024;

std::string Text(const TestLink& link) {
  return absl::StrFormat("%g Mbit/s, %d ms", link.mbps, link.rtt_ms);
}

std::string SizeText(int64_t bytes) {
  return bytes < kKiB * kKiB ? absl::StrFormat("%d KiB", bytes / kKiB)
                             : absl::StrFormat("%d MiB", bytes / kKiB / kKiB);
}

struct Sample {
  std::vector<double> cold, warm;  // seconds, per size; of several repetitions the median
};

// What opens the window of a connection before the warm transfers.
int64_t WarmUpBytes(const TestLink& link) {
  const double pipe = link.mbps * kMbit * link.rtt_ms * 1e-3;
  return static_cast<int64_t>(std::clamp(4 * pipe, 1e6, 32e6));
}

Sample Measure(const PacketWorld& world, int index, const TestLink& link,
               const std::vector<int64_t>& sizes, int repetitions) {
  const int32_t from = 2 * index, to = from + 1;
  std::vector<std::vector<double>> cold(sizes.size()), warm(sizes.size());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (size_t i = 0; i < sizes.size(); ++i)
      cold[i].push_back(TcpPath(world, from, to).TransferSeconds(sizes[i]));
    TcpPath path(world, from, to);
    path.TransferSeconds(WarmUpBytes(link));
    for (size_t i = 0; i < sizes.size(); ++i) warm[i].push_back(path.TransferSeconds(sizes[i]));
  }
  Sample sample;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sample.cold.push_back(Median(cold[i]));
    sample.warm.push_back(Median(warm[i]));
  }
  return sample;
}

Sample Simulate(const TestLink& link, CongestionControl control,
                const std::vector<int64_t>& sizes) {
  const NetworkSpec spec = SpecOf({link}, control);
  Sample sample;
  for (const int64_t size : sizes) sample.cold.push_back(SimulatedSeconds(spec, 1, {size})[0]);
  std::vector<int64_t> messages = {WarmUpBytes(link)};
  messages.insert(messages.end(), sizes.begin(), sizes.end());
  const std::vector<double> seconds = SimulatedSeconds(spec, 1, messages);
  sample.warm.assign(seconds.begin() + 1, seconds.end());
  return sample;
}

std::vector<int64_t> Sizes(const FidelityOptions& options) {
  std::vector<int64_t> sizes = {64 * kKiB, 256 * kKiB, 1024 * kKiB, 4096 * kKiB, 16384 * kKiB};
  if (options.quick) sizes = {64 * kKiB, 1024 * kKiB, 4096 * kKiB};
  return sizes;
}

void Compare(Bench& bench, const FidelityOptions& options, CongestionControl control) {
  std::vector<TestLink> links = GridOfLinks();
  if (options.quick) links = {links[3], links[4], links[5]};
  const std::string name = control == CongestionControl::kCubic ? "cubic" : "bbr";
  auto world = PacketWorld::Create(SpecOf(links, control), {.remember_paths = false});
  MustBeOk(world.status());
  std::vector<Sample> real(links.size());
  const auto measure = [&](int i) {
    PreferThisThread();
    const TestLink& link = links[static_cast<size_t>(i)];
    // An odd number: one tail that is lost to a timeout must not decide.
    const int repetitions = link.mbps < 100 || options.quick ? 1 : 3;
    real[static_cast<size_t>(i)] = Measure(**world, i, link, Sizes(options), repetitions);
  };
  // Slow links side by side; what needs the processor alone.
  const auto count = static_cast<int>(links.size()), slow = std::min(count, 6);
  AtOnce(slow, measure);
  for (int i = slow; i < count; ++i) AtOnce(1, [&](int) { measure(i); });
  Errors cold(options), warm(options);
  for (size_t i = 0; i < links.size(); ++i) {
    const std::vector<int64_t> sizes = Sizes(options);
    const Sample simulated = Simulate(links[i], control, sizes);
    for (size_t j = 0; j < sizes.size(); ++j) {
      const std::string cell = name + ", " + Text(links[i]) + ", " + SizeText(sizes[j]);
      cold.Add(cell + " cold", simulated.cold[j], real[i].cold[j]);
      warm.Add(cell + " warm", simulated.warm[j], real[i].warm[j]);
    }
  }
  for (const auto& [state, errors] : {std::pair("cold", &cold), std::pair("warm", &warm)}) {
    bench.AtMost(absl::StrFormat("one transfer, %s, %s: mean error", name, state),
                 100 * errors->mean(), "%", 5);
    bench.AtMost(absl::StrFormat("one transfer, %s, %s: largest error", name, state),
                 100 * errors->most(), "%", 15);
    std::printf("  largest: %s\n", errors->worst().c_str());
  }
  CheckShaper(bench, **world, name + " transfers");
}

}  // namespace

void BenchTransfers(Bench& bench, const FidelityOptions& options) {
  Compare(bench, options, CongestionControl::kCubic);
  Compare(bench, options, CongestionControl::kBbr);
}

}  // namespace skerry::bench
