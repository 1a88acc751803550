#include "node/bench_program.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/rng.h"
#include "common/status.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/thread_limit.h"
#include "kernels/group/device_group.h"
#include "kernels/group/device_threads.h"
#include "kernels/operation_rates.h"
#include "model/stage_team.h"
#include "node/device_choice.h"
#include "node/device_probe.h"
#include "node/network_cards.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;

struct Limits {
  double float32_gflops = 0, bf16_gflops = 0, memory_gb_s = 0;  // of one core
};

double WallSeconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// On a busy machine most rounds are interrupted; the best is what the machine can do.
double Best(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

// A model of eight million parameters in training, sequences of 512 tokens, four at a time.
absl::StatusOr<double> TokensPerSecond(std::span<const TeamDevice> devices) {
  RunConfig config;
  TransformerConfig& m = config.model;
  m.vocab = 4096, m.hidden = 256, m.layers = 8, m.heads = 8, m.kv_heads = 4, m.ffn = 704;
  m.context = 512;
  config.pipeline.sequences_per_microbatch = 4;
  SKERRY_ASSIGN_OR_RETURN(const auto trainer,
                          StageTeam::Create(config, {0, m.layers, true, 0}, devices));
  const size_t tokens = 2048;
  Rng rng(1);
  std::vector<int32_t> text(tokens + 1);
  for (int32_t& token : text)
    token = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(m.vocab)));
  const std::span<const int32_t> all(text);
  std::vector<float> stream(tokens * 256), gradient(stream.size());
  std::vector<double> seconds;
  for (int32_t step = 0; step <= kRounds; ++step) {
    absl::Status status;
    seconds.push_back(WallSeconds([&] {
      const MicrobatchKey key{step, 0};
      status.Update(trainer->ForwardFirst(key, all.first(tokens), stream));
      if (status.ok()) status.Update(trainer->Loss(key, stream, all.subspan(1), gradient).status());
      if (status.ok()) status.Update(trainer->Backward(key, gradient, {}));
      if (!status.ok()) return;
      trainer->Accumulate(key);
      status.Update(trainer->OptimizerStep(step, 1));
    }));
    SKERRY_RETURN_IF_ERROR(status);
  }
  seconds.erase(seconds.begin());  // the first prepares
  return static_cast<double>(tokens) / Best(seconds);
}

struct Reading {
  std::string name;
  double rate;   // GFLOP/s, or GB/s
  double limit;  // of as many cores as threads; 0: not measured
  bool is_memory;
};

Reading Read(const std::string& prefix, const TimedOperation& operation, const Limits& limits,
             int threads, Backend& backend) {
  const auto run = [&] {
    operation.run();
    backend.Synchronize();
  };
  run();
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) seconds.push_back(WallSeconds(run));
  const double core = operation.bound == Bound::kMemory     ? limits.memory_gb_s
                      : operation.bound == Bound::kBfloat16 ? limits.bf16_gflops
                                                            : limits.float32_gflops;
  const bool is_memory = operation.bound == Bound::kMemory;
  // What memory gives to one core is what we measured; several cores may share it.
  return {prefix + operation.name, 1e-9 * operation.work / Best(seconds),
          is_memory ? core : core * threads, is_memory};
}

void Print(const Reading& r) {
  std::printf("  %-32s %8.1f %-8s", r.name.c_str(), r.rate, r.is_memory ? "GB/s" : "GFLOP/s");
  if (r.limit > 0) std::printf(" %4.0f %% of %.0f", 100 * r.rate / r.limit, r.limit);
  std::printf("\n");
  std::fflush(stdout);
}

absl::StatusOr<std::vector<Reading>> ReadAll(Backend& backend, const Limits& limits, int threads,
                                             bool prints) {
  std::vector<Reading> readings;
  const auto add = [&](const std::string& prefix, const std::vector<TimedOperation>& operations) {
    for (const TimedOperation& operation : operations) {
      readings.push_back(Read(prefix, operation, limits, threads, backend));
      if (prints) Print(readings.back());
    }
    return !operations.empty();
  };
  if (!add("product, ", ProductOperations(backend, {2048, 512, 1408})) ||
      !add("", AttentionOperations(backend, {2, 1024, 8, 4, 64})) ||
      !add("", MemoryOperations(backend, 8 * 1024))) {
    return ResourceExhausted("the bench wants a gigabyte of free memory");
  }
  return readings;
}

Json AsJson(const Reading& r) {
  return {{"operation", r.name}, {r.is_memory ? "gb_s" : "gflops", r.rate}, {"limit", r.limit}};
}

Limits MeasureLimits() {
  Triad triad;
  triad.Measure();
  double fastest = 0;
  for (int round = 0; round < kRounds; ++round) fastest = std::max(fastest, triad.Measure());
  return {PeakGflops(DType::kFloat32), PeakGflops(DType::kBfloat16), fastest};
}

void PrintProfile(const DeviceProfile& profile) {
  std::printf(
      "\nTo a coordinator it would announce:\n"
      "  device           %s\n"
      "  speed            %s\n"
      "  memory free      %s\n"
      "  results          the same as those of devices that say: %s\n",
      profile.name.c_str(), RatesText(profile).c_str(), OfferText(OfferOf(profile)).c_str(),
      profile.numeric_profile.c_str());
}

// What the kernel says of the ways out of this machine; what they carry is measured in a run.
void PrintCards(const std::vector<NetworkCard>& cards) {
  std::printf("\nNetwork cards:%s\n", cards.empty() ? " none of hardware" : "");
  for (const NetworkCard& card : cards) std::printf("  %s\n", Describe(card).c_str());
}

void PrintWays(const std::vector<std::string>& ways) {
  if (!ways.empty()) std::printf("\nBetween GPUs:\n");
  for (const std::string& way : ways) std::printf("  %s\n", way.c_str());
}

Json CardsJson(const std::vector<NetworkCard>& cards) {
  Json json = Json::array();
  for (const NetworkCard& card : cards) {
    json.push_back({{"name", card.name},
                    {"kind", KindName(card.kind)},
                    {"gbit_s", card.gbit_s},
                    {"up", card.is_up}});
  }
  return json;
}

// The sum of so many gradients among the devices, each a thread: GB/s of gradients summed.
absl::StatusOr<double> AllReduceRate(std::span<const TeamDevice> devices, std::string* by) {
  constexpr int64_t kValues = 8 << 20;
  std::vector<Backend*> backends;
  std::vector<std::unique_ptr<Buffer>> values;
  for (const TeamDevice& device : devices) {
    backends.push_back(device.backend);
    SKERRY_ASSIGN_OR_RETURN(values.emplace_back(), device.backend->Allocate(kValues));
  }
  SKERRY_ASSIGN_OR_RETURN(const auto group, MakeDeviceGroup(backends));
  *by = group.front()->name();
  DeviceThreads threads(devices.size());
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    absl::Status status;
    seconds.push_back(WallSeconds([&] {
      status =
          threads.RunAll([&](size_t i) { return group[i]->AllReduce(values[i]->data(), kValues); });
    }));
    SKERRY_RETURN_IF_ERROR(status);
  }
  seconds.erase(seconds.begin());  // the first prepares
  return 4e-9 * kValues / Best(seconds);
}

absl::StatusOr<Json> BenchTeam(std::span<const DeviceChoice> choices, const TeamProfile& profile,
                               DType type, bool json) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<TeamDevice> devices;
  for (size_t i = 0; i < choices.size(); ++i) {
    SKERRY_ASSIGN_OR_RETURN(backends.emplace_back(), choices[i].Create(type));
    devices.push_back({backends.back().get(), profile.rates[i]});
  }
  SKERRY_ASSIGN_OR_RETURN(const double tokens, TokensPerSecond(devices));
  std::string by;
  SKERRY_ASSIGN_OR_RETURN(const double rate, AllReduceRate(devices, &by));
  if (!json) {
    std::printf("\nAll %zu devices as one, in %s:\n", devices.size(),
                type == DType::kFloat32 ? "float32" : "bf16");
    std::printf("  %-32s %8.0f tokens/s\n", "training, 8 M parameters", tokens);
    std::printf("  %-32s %8.1f GB/s     %s\n", "all-reduce of gradients", rate, by.c_str());
  }
  return Json{{"tokens_per_s", tokens}, {"all_reduce_gb_s", rate}, {"group", by}};
}

absl::StatusOr<Json> BenchType(DType type, const Limits& limits, const DeviceChoice& device,
                               bool json) {
  SKERRY_ASSIGN_OR_RETURN(const auto backend, device.Create(type));
  const char* name = type == DType::kFloat32 ? "float32" : "bf16";
  if (backend->compute_type() != type) {
    if (!json) {
      std::printf("\n%s: this processor %s; a run that asks for it gets float32 here\n", name,
                  limits.bf16_gflops > 0 ? "multiplies it slower than float32"
                                         : "has no instructions for it");
    }
    return Json();
  }
  if (!json) {
    std::printf("\nComputing in %s, on %s:\n", name, backend->name().c_str());
    std::fflush(stdout);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto readings, ReadAll(*backend, limits, device.threads, !json));
  SKERRY_ASSIGN_OR_RETURN(const double tokens,
                          TokensPerSecond(std::vector{TeamDevice{backend.get()}}));
  Json operations = Json::array();
  for (const Reading& reading : readings) operations.push_back(AsJson(reading));
  if (!json) {
    std::printf("  %-32s %8.0f tokens/s\n", "training, 8 M parameters", tokens);
  }
  return Json{{"operations", operations}, {"tokens_per_s", tokens}};
}

}  // namespace

void PrintLimits(const Limits& limits, int threads) {
  std::printf(
      "\nOne core can at most do %.0f GFLOP/s in float32%s, and move %.0f GB/s to and from\n"
      "memory. Percentages are of that, times %d thread%s for arithmetic; more than 100 %% is\n"
      "possible where the processor's caches help.\n",
      limits.float32_gflops,
      limits.bf16_gflops > 0 ? absl::StrFormat(", %.0f in bf16", limits.bf16_gflops).c_str() : "",
      limits.memory_gb_s, threads, threads == 1 ? "" : "s");
}

absl::Status BenchMachine(BenchOptions options) {
  SKERRY_ASSIGN_OR_RETURN(
      const std::vector<DeviceChoice> devices,
      ChooseDevices(options.devices, options.device, BoundedThreads(options.threads)));
  const DeviceChoice& device = devices.front();
  if (!options.json) {
    std::printf(
        "Half a minute of measuring %s, as a run would use %s.\n"
        "Other programs that run meanwhile make everything slower.\n",
        DevicesText(devices).c_str(), devices.size() == 1 ? "it" : "them");
    std::fflush(stdout);
  }
  // What a GPU could do at most is not measured.
  const Limits limits = device.gpu ? Limits{} : MeasureLimits();
  if (!options.json && !device.gpu) PrintLimits(limits, device.threads);
  Json json = {{"limits",
                {{"float32_gflops", limits.float32_gflops},
                 {"bf16_gflops", limits.bf16_gflops},
                 {"memory_gb_s", limits.memory_gb_s}}},
               {"device", device.gpu ? "gpu" : "cpu"},
               {"threads", device.threads}};
  SKERRY_ASSIGN_OR_RETURN(json["float32"],
                          BenchType(DType::kFloat32, limits, device, options.json));
  SKERRY_ASSIGN_OR_RETURN(json["bf16"], BenchType(DType::kBfloat16, limits, device, options.json));
  SKERRY_ASSIGN_OR_RETURN(const TeamProfile team, ProbeDevices(devices));
  if (devices.size() > 1) {
    SKERRY_ASSIGN_OR_RETURN(json["together"]["float32"],
                            BenchTeam(devices, team, DType::kFloat32, options.json));
    if (team.whole.bf16_gflops > 0) {
      SKERRY_ASSIGN_OR_RETURN(json["together"]["bf16"],
                              BenchTeam(devices, team, DType::kBfloat16, options.json));
    }
    for (const DeviceProfile& each : team.devices) json["devices"].push_back(each.name);
  }
  const DeviceProfile& profile = team.whole;
  json["announces"] = {{"device", profile.name},
                       {"gflops", profile.gflops},
                       {"bf16_gflops", profile.bf16_gflops},
                       {"memory_bytes", profile.memory_bytes},
                       {"host_bytes", profile.host_bytes},
                       {"numeric_profile", profile.numeric_profile}};
  const std::vector<NetworkCard> cards = NetworkCards();
  const std::vector<std::string> ways = WaysBetween(devices);
  json["network_cards"] = CardsJson(cards);
  json["ways_between_gpus"] = ways;
  if (options.json) {
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    PrintProfile(profile);
    PrintWays(ways);
    PrintCards(cards);
  }
  return absl::OkStatus();
}

}  // namespace skerry
