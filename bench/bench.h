// What every benchmark shares: a clock, and a table of figures beside their goals.
//
// A figure without a goal is printed for the record. A program prints its table, writes it as JSON
// with `--json FILE`, and exits with 1 when a goal is missed, with 2 when it was called wrongly. On
// a shared machine take the best of several rounds, never the mean.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skerry::bench {

// Processor seconds of the fastest of `rounds` calls of `work` on this thread, after one call to
// warm up. Processor time, not wall time: what other processes take of a shared machine is not
// ours. For work of a single thread only.
template <typename Work>
double BestSeconds(int rounds, Work&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  work();
  double best = 1e300;
  for (int i = 0; i < rounds; ++i) {
    const double start = now();
    work();
    best = std::min(best, now() - start);
  }
  return best;
}

// Keeps the compiler from removing work whose result nobody reads.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

class Bench {
 public:
  // Reads `--json FILE`, and `more` options with a value each; any other argument ends the program
  // with 2.
  Bench(std::string name, int argc, char** argv, const std::vector<std::string>& more = {})
      : name_(std::move(name)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string option = argv[i];
      const bool known = option == "--json" || std::count(more.begin(), more.end(), option) > 0;
      if (!known || i + 1 == argc) {
        std::fprintf(stderr, "usage: %s [--json FILE]", argv[0]);
        for (const std::string& other : more) std::fprintf(stderr, " [%s VALUE]", other.c_str());
        std::fprintf(stderr, "\n");
        std::exit(2);
      }
      options_[option] = argv[i + 1];
    }
    if (const auto json = options_.find("--json"); json != options_.end())
      json_file_ = json->second;
  }

  // "" where it was not given.
  std::string Option(const std::string& option) const {
    const auto found = options_.find(option);
    return found == options_.end() ? "" : found->second;
  }

  void Record(const std::string& what, double value, const std::string& unit) {
    Add({what, value, unit, std::nullopt, true});
  }
  void AtLeast(const std::string& what, double value, const std::string& unit, double goal) {
    Add({what, value, unit, goal, value >= goal});
  }
  void AtMost(const std::string& what, double value, const std::string& unit, double goal) {
    Add({what, value, unit, goal, value <= goal});
  }

  // Writes the JSON; the program's exit code.
  int Finish() const {
    const bool met = std::all_of(figures_.begin(), figures_.end(),
                                 [](const Figure& figure) { return figure.met; });
    if (json_file_ && !WriteJson(met)) {
      std::fprintf(stderr, "%s: cannot be written\n", json_file_->c_str());
      return 2;
    }
    if (!met) std::printf("%s: a goal is missed\n", name_.c_str());
    return met ? 0 : 1;
  }

 private:
  struct Figure {
    std::string what;
    double value;
    std::string unit;
    std::optional<double> goal;
    bool met;
  };

  void Add(Figure figure) {
    std::printf("%-44s %10.4g %-10s", figure.what.c_str(), figure.value, figure.unit.c_str());
    if (figure.goal) std::printf("goal %.4g %s", *figure.goal, figure.met ? "met" : "MISSED");
    std::printf("\n");
    std::fflush(stdout);
    figures_.push_back(std::move(figure));
  }

  bool WriteJson(bool met) const {
    nlohmann::json figures = nlohmann::json::array();
    for (const Figure& figure : figures_) {
      figures.push_back({{"what", figure.what},
                         {"value", figure.value},
                         {"unit", figure.unit},
                         {"goal", figure.goal ? nlohmann::json(*figure.goal) : nlohmann::json()},
                         {"met", figure.met}});
    }
    std::ofstream out(*json_file_);
    out << nlohmann::json({{"bench", name_}, {"met", met}, {"figures", figures}}).dump(2) << "\n";
    out.flush();
    return static_cast<bool>(out);
  }

  std::string name_;
  std::map<std::string, std::string> options_;
  std::optional<std::string> json_file_;
  std::vector<Figure> figures_;
};

}  // namespace skerry::bench
