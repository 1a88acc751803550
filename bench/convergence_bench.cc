// What outer rounds cost in loss: replicas of a small transformer on real text, every way of
// averaging them beside synchronous data parallelism on the same tokens, each with rates of its
// own.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench.h"
#include "bench/convergence_contenders.h"
#include "common/status.h"
#include "kernels/cpu/omp_environment.h"
#include "model/parameter_layout.h"
#include "model/prepare_text.h"

namespace skerry::bench {
namespace {

constexpr const char* kUsage =
    "usage: bench_convergence [--model tiny|demo|10m] [--seeds N] [--replicas 4,8] [--steps N]\n"
    "                         [--sequences N] [--threads N] [--text FILE] [--studies "
    "tau,modes,codecs,table,sums,rest,back,missing,skip]\n"
    "                         [--optimizer adamw|muon]\n"
    "                         [--inner-rate R: no rate is tuned, outer 1 and 0] [--json FILE]\n";

struct Arguments {
  std::string model = "tiny", json;
  std::string studies = "tau,modes,codecs,sums,missing,skip";
  std::string text = "/usr/share/dictd/gcide.dict.dz";  // of the demo
  int64_t seeds = 1, steps = 0, sequences = 0;
  InnerOptimizer optimizer = InnerOptimizer::kAdamW;
  float inner_rate = 0;  // > 0: of everybody, instead of tuning
  size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<int32_t> replicas = {4};
};

std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i += 2) {
    const std::string key = argv[i];
    if (i + 1 == argc) return std::nullopt;
    const std::string value = argv[i + 1];
    if (key == "--model")
      out.model = value;
    else if (key == "--json")
      out.json = value;
    else if (key == "--studies")
      out.studies = value;
    else if (key == "--optimizer" && (value == "adamw" || value == "muon"))
      out.optimizer = value == "muon" ? InnerOptimizer::kMuon : InnerOptimizer::kAdamW;
    else if (key == "--text")
      out.text = value;
    else if (key == "--seeds")
      out.seeds = std::atoll(value.c_str());
    else if (key == "--steps")
      out.steps = std::atoll(value.c_str());
    else if (key == "--sequences")
      out.sequences = std::atoll(value.c_str());
    else if (key == "--inner-rate")
      out.inner_rate = std::strtof(value.c_str(), nullptr);
    else if (key == "--threads")
      out.threads = static_cast<size_t>(std::atoll(value.c_str()));
    else if (key == "--replicas") {
      out.replicas.clear();
      for (size_t at = 0; at != std::string::npos && at < value.size();) {
        out.replicas.push_back(std::atoi(value.c_str() + at));
        at = value.find(',', at);
        if (at != std::string::npos) ++at;
      }
    } else
      return std::nullopt;
  }
  const bool good = out.seeds >= 1 && out.steps >= 0 && out.sequences >= 0 && out.threads >= 1 &&
                    !out.replicas.empty() &&
                    std::all_of(out.replicas.begin(), out.replicas.end(),
                                [](int32_t r) { return r >= 2 && r <= 64; });
  return good ? std::optional(out) : std::nullopt;
}

// The text as tokens, in a directory of this process that ends with it.
class TextAsTokens {
 public:
  explicit TextAsTokens(const std::string& file)
      : directory_(std::filesystem::temp_directory_path() /
                   ("skerry-convergence-" + std::to_string(getpid()))) {
    PrepareTextOptions options;
    options.validation_share = 0.02;
    const auto prepared = PrepareText(file, directory_.string(), options);
    if (prepared.ok()) {
      dataset_ = TokenDataset::Open(directory_.string(), Verify::kSizes);
    } else {
      dataset_ = prepared.status();
    }
  }
  ~TextAsTokens() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  const absl::StatusOr<std::unique_ptr<TokenDataset>>& dataset() const { return dataset_; }

 private:
  std::filesystem::path directory_;
  absl::StatusOr<std::unique_ptr<TokenDataset>> dataset_;
};

struct Result {
  Rates rates;
  std::vector<Outcome> by_seed;
  int runs = 0;
};
using Results = std::map<std::string, Result>;

double MeanLoss(const Result& result) {
  double sum = 0;
  for (const Outcome& outcome : result.by_seed) sum += outcome.loss;
  return sum / static_cast<double>(result.by_seed.size());
}

// Every contender on a thread of its own at a time; baselines first, as the others' rates start
// from theirs.
class Race {
 public:
  Race(const Arguments& arguments, const ConvergenceSize& size, const TokenDataset& data)
      : arguments_(arguments), size_(size), data_(data) {}

  absl::Status Run(const std::vector<Contender>& contenders) {
    std::vector<const Contender*> baselines, others;
    for (const Contender& c : contenders) {
      (c.training.gradient_mean ? baselines : others).push_back(&c);
    }
    RunAll(baselines);
    RunAll(others);
    return failure_;
  }
  const Results& results() const { return results_; }

 private:
  void RunAll(const std::vector<const Contender*>& contenders) {
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < arguments_.threads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < contenders.size(); i = next++) RunOne(*contenders[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Rates Start(const Contender& contender) {
    const std::lock_guard lock(mutex_);
    const auto found = results_.find(contender.baseline);
    Rates rates;
    rates.inner = found == results_.end() ? 4e-3f : found->second.rates.inner;
    rates.alpha = 1;
    rates.beta = 0.3f;
    return rates;
  }

  absl::StatusOr<Tuned> TuneOrTake(
      const Contender& contender,
      const std::function<absl::StatusOr<Outcome>(const Rates&)>& train) {
    if (!(arguments_.inner_rate > 0)) return Tune(contender.training, Start(contender), train);
    Tuned taken{{.inner = arguments_.inner_rate, .alpha = 1, .beta = 0}, {}, 1};
    SKERRY_ASSIGN_OR_RETURN(taken.outcome, train(taken.rates));
    return taken;
  }

  void RunOne(const Contender& contender) {
    const auto train = [&](const Rates& rates, uint64_t seed) {
      return TrainReplicas(size_, contender.training, rates, seed, data_);
    };
    Result result;
    const auto tuned = TuneOrTake(contender, [&](const Rates& rates) { return train(rates, 1); });
    absl::Status status = tuned.status();
    if (tuned.ok()) {
      result = {tuned->rates, {tuned->outcome}, tuned->runs};
      for (int64_t seed = 2; seed <= arguments_.seeds && status.ok(); ++seed) {
        const auto outcome = train(tuned->rates, static_cast<uint64_t>(seed));
        status = outcome.status();
        if (outcome.ok()) result.by_seed.push_back(*outcome);
      }
    }
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      failure_ = status;
      return;
    }
    std::fprintf(stderr, "%-40s %.4f, rate %.0e", contender.name.c_str(), MeanLoss(result),
                 double{result.rates.inner});
    if (!HasFixedOuterStep(contender.training)) {
      std::fprintf(stderr, ", outer %.1f and %.1f", double{result.rates.alpha},
                   double{result.rates.beta});
    }
    if (contender.training.goes_back) {
      std::fprintf(stderr, ", dropped %.2f rounds", result.by_seed[0].dropped_rounds);
    }
    std::fprintf(stderr, ", after %d runs\n", result.runs);
    results_[contender.name] = std::move(result);
  }

  const Arguments& arguments_;
  const ConvergenceSize& size_;
  const TokenDataset& data_;
  std::mutex mutex_;
  Results results_;
  absl::Status failure_;
};

// Mean and standard error over seeds of the paired difference of two contenders' losses.
struct Difference {
  double mean = 0, error = 0;
};
Difference Compare(const Result& a, const Result& b) {
  const auto n = static_cast<double>(a.by_seed.size());
  Difference out;
  for (size_t i = 0; i < a.by_seed.size(); ++i) {
    out.mean += (a.by_seed[i].loss - b.by_seed[i].loss) / n;
  }
  for (size_t i = 0; i < a.by_seed.size() && n > 1; ++i) {
    const double d = a.by_seed[i].loss - b.by_seed[i].loss - out.mean;
    out.error += d * d / (n * (n - 1));
  }
  out.error = std::sqrt(out.error);
  return out;
}

void PrintTable(const std::vector<Contender>& contenders, const Results& results) {
  std::printf("%-40s %8s %9s %8s %8s %7s %5s %4s\n", "contender", "loss", "to base", "+- nat",
              "halved", "bit up", "rate", "a, b");
  for (const Contender& contender : contenders) {
    const auto found = results.find(contender.name), base = results.find(contender.baseline);
    if (found == results.end()) continue;
    const Result& r = found->second;
    const double loss = MeanLoss(r);
    std::printf("%-40s %8.4f", contender.name.c_str(), loss);
    if (base != results.end()) {
      const Difference difference = Compare(r, base->second);
      std::printf(" %+8.2f%% %8.4f", 100 * difference.mean / MeanLoss(base->second),
                  difference.error);
    }
    std::printf(" %8.4f %7.3f %5.0e %.1f, %.1f\n", r.by_seed[0].half_loss, r.by_seed[0].bits,
                double{r.rates.inner}, double{r.rates.alpha}, double{r.rates.beta});
  }
}

// The issue's goals, as far as the contenders of this call can tell.
class Goals {
 public:
  Goals(Bench* bench, const Results& results, int32_t replicas)
      : bench_(bench), results_(results), prefix_("R" + std::to_string(replicas) + " ") {}

  void CheckCurve(double percent_max) {
    const Result* base = Find("baseline");
    std::optional<double> best;
    for (const char* name : {"tau 16", "tau 32", "tau 16 delta 2"}) {
      const Result* r = Find(name);
      if (base == nullptr || r == nullptr) continue;
      const double percent = 100 * (MeanLoss(*r) / MeanLoss(*base) - 1);
      bench_->Record(prefix_ + name + " to data parallelism", percent, "%");
      if (!best || percent < *best) best = percent;
    }
    if (best)
      bench_->AtMost(prefix_ + "best tau >= 16 to data parallelism", *best, "%", percent_max);
  }

  void CheckCost(const std::string& what, const char* name, const char* against, double nat_max) {
    const auto cost = Cost(name, against);
    if (cost) bench_->AtMost(prefix_ + what, *cost, "nat", nat_max);
  }

  void CheckOverlap() {
    const auto kept = Cost("tau 16 delta 16", "tau 16"), restart = Cost("tau 16 co2", "tau 16");
    if (!kept || !restart) return;
    bench_->Record(prefix_ + "co2 with restart, cost", *restart, "nat");
    bench_->AtMost(prefix_ + "delta = tau, cost", *kept, "nat", *restart / 2);
  }

 private:
  const Result* Find(const char* name) const {
    const auto found = results_.find(prefix_ + name);
    return found == results_.end() ? nullptr : &found->second;
  }
  std::optional<double> Cost(const char* name, const char* against) const {
    const Result *a = Find(name), *b = Find(against);
    if (a == nullptr || b == nullptr) return std::nullopt;
    return Compare(*a, *b).mean;
  }

  Bench* bench_;
  const Results& results_;
  std::string prefix_;
};

int Report(Bench& bench, const Arguments& arguments, const std::vector<Contender>& contenders,
           const Results& results) {
  PrintTable(contenders, results);
  for (const Contender& contender : contenders) {
    const auto found = results.find(contender.name);
    if (found != results.end()) bench.Record(contender.name, MeanLoss(found->second), "nat");
  }
  for (const int32_t replicas : arguments.replicas) {
    Goals goals(&bench, results, replicas);
    goals.CheckCurve(replicas >= 8 ? 2 : 1);
    goals.CheckCost("ternary, residual buffer, cost", "tau 16 ternary", "tau 16", 0.005);
    goals.CheckCost("ternary, residual in weights, cost", "tau 16 ternary in weights", "tau 16",
                    0.005);
    goals.CheckCost("ternary both ways, cost", "tau 16 ternary both ways", "tau 16", 0.02);
    goals.CheckCost("delta = tau/8, cost", "tau 16 delta 2", "tau 16", 0.005);
    goals.CheckOverlap();
    goals.CheckCost("25 % missing, cost", "tau 16 25 % missing", "tau 16", 0.03);
    goals.CheckCost("ternary, 25 % missing, cost", "tau 16 ternary, 25 % missing", "tau 16 ternary",
                    0.03);
  }
  return bench.Finish();
}

int Run(const Arguments& arguments) {
  const char* flag = "--json";
  std::vector<char*> rest = {const_cast<char*>("bench_convergence"), const_cast<char*>(flag),
                             const_cast<char*>(arguments.json.c_str())};
  Bench bench("convergence", arguments.json.empty() ? 1 : 3, rest.data());
  auto size = ConvergenceSizeOf(arguments.model);
  const TextAsTokens text(arguments.text);
  const absl::Status ready = size.ok() ? text.dataset().status() : size.status();
  if (!ready.ok()) {
    std::fprintf(stderr, "%s\n", std::string(ready.message()).c_str());
    return 2;
  }
  if (arguments.steps > 0) size->steps = arguments.steps;
  if (arguments.sequences > 0) size->sequences = static_cast<int32_t>(arguments.sequences);
  size->optimizer = arguments.optimizer;
  std::vector<Contender> contenders;
  for (const int32_t replicas : arguments.replicas) {
    for (Contender& contender : ContendersOf(replicas)) {
      const std::string& study = contender.study;
      const bool wanted =
          study.empty() ||
          ("," + arguments.studies + ",").find("," + study + ",") != std::string::npos;
      if (wanted) contenders.push_back(std::move(contender));
    }
  }
  std::printf("model %s: %lld parameters, %lld steps, %lld tokens a replica, %lld seeds\n",
              size->name.c_str(),
              static_cast<long long>(ParameterLayout::ForModel(size->model).size()),
              static_cast<long long>(size->steps),
              static_cast<long long>(size->steps * size->sequences * size->model.context),
              static_cast<long long>(arguments.seeds));
  Race race(arguments, *size, **text.dataset());
  const absl::Status ran = race.Run(contenders);
  if (!ran.ok()) {
    std::fprintf(stderr, "%s\n", std::string(ran.message()).c_str());
    return 2;
  }
  return Report(bench, arguments, contenders, race.results());
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  skerry::UsePassiveWaiting(argc, argv);
  const auto arguments = skerry::bench::Parse(argc, argv);
  if (!arguments) {
    std::fputs(skerry::bench::kUsage, stderr);
    return 2;
  }
  return skerry::bench::Run(*arguments);
}
