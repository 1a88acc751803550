// How much of the outer rounds' traffic is hidden behind training, by time stamps: of the time from
// a boundary until everything needed for the update was there, the part in which the device did not
// stand idle for it. Over 50 ms and 1 % loss, in the proportion of bytes to computing of 8 billion
// parameters in rounds of 240 s over 100 Mbit/s, and over 20 (published runs of 8B to 10B on eight
// cards have rounds of 240 s and longer). First a short run measures a step; then
//
//   8B on virtual time    eight stages on eight cards of one site, four sites of one line each, as
//                         many steps a round as take 240 s
//   real programs         two stages at two sites, over the kernel's own TCP and shaped packets; a
//                         small model and rounds of 16 steps on a line so slow that a parameter's
//                         bits take as much of a round as they would of 8B's 240 s. The round trip
//                         is the real one, so latency weighs more than a hundred times as much.
//
// The last round of a run has nothing to hide behind; it is left out.
#include <cmath>

#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/emulated_run.h"

namespace skerry::bench {
namespace {

constexpr double kRoundSeconds = 240;
constexpr double kEightBillion = 8.03e9;  // parameters of EightBillion
constexpr double kSmall = 8.0e6;          // of SmallRun
constexpr int kSmallInnerSteps = 16;

struct Line {
  double mbps = 0;
  const char* codec = "";
  const char* residual = "";
};

std::string Sites(const std::string& names, double mbps, const std::string& nodes) {
  std::string out = "[pair_default]\nrtt_ms = 50\nunlimited = true\nloss = 0.01\n";
  for (const char name : names) {
    out += absl::StrFormat(
        "[[site]]\nname = \"site-%c\"\nregion = \"%c\"\nup_mbps = %g\ndown_mbps = %g\n"
        "access_rtt_ms = 0\nlocal_rate_mbps = 25000\n[[nodes]]\nsite = \"site-%c\"\n%s",
        name, name, mbps, mbps, name, nodes);
  }
  return out;
}

std::string EightBillion(const Line& line, int steps, int inner_steps, int microbatches) {
  return "name = \"eight billion\"\nhorizon_s = 1000000\nregions = [\"a\", \"b\", \"c\", \"d\"]\n" +
         Sites("abcd", line.mbps, "count = 8\ndevice = \"a100\"\nformat = \"bf16\"\n") +
         absl::StrFormat(
             "[run]\nsteps = %d\nnodes_min = 32\n"
             "[model]\nvocab = 128256\nhidden = 4096\nlayers = 32\nheads = 32\nkv_heads = 8\n"
             "ffn = 14336\ncontext = 4096\n"
             "[outer]\ninner_steps = %d\noverlap_steps = -1\ncodec = \"%s\"\nresidual = \"%s\"\n"
             "[pipeline]\nstages = 8\nskip_ratio = 0.25\nmicrobatches_per_step = %d\n"
             "sequences_per_microbatch = 1\nin_flight = 0\n",
             steps, inner_steps, line.codec, line.residual, microbatches);
}

std::string SmallRun(const Line& line, int steps) {
  return "name = \"small\"\ntext = \"text.txt\"\nregions = [\"a\", \"b\"]\n" +
         Sites("ab", line.mbps, "count = 2\ndevice = \"this\"\n") +
         absl::StrFormat(
             "[run]\nsteps = %d\nnodes_min = 4\n"
             "[model]\nvocab = 256\nhidden = 256\nlayers = 8\nheads = 4\nkv_heads = 2\n"
             "ffn = 1024\ncontext = 32\n"
             "[outer]\ninner_steps = %d\noverlap_steps = -1\ncodec = \"%s\"\nresidual = \"%s\"\n"
             "[pipeline]\nstages = 2\nskip_ratio = 0\nmicrobatches_per_step = 4\n"
             "sequences_per_microbatch = 1\nin_flight = 2\n",
             steps, kSmallInnerSteps, line.codec, line.residual);
}

void Report(Bench* bench, const std::string& what, const RunFigures& run, int inner_steps,
            double goal) {
  const double round_s = inner_steps * run.step_s;
  bench->Record(what + ": a round", round_s, "s");
  bench->Record(what + ": a round's transfer", 100 * run.transfer_s / round_s, "% of it");
  bench->AtLeast(what + ": hidden", 100 * run.hidden, "%", goal);
}

void OnVirtualTime(Bench* bench, const std::string& what, const Line& line, double goal) {
  const double step_s = RunSimulated(EightBillion(line, 48, 16, 36)).step_s;
  const int inner_steps = static_cast<int>(std::lround(kRoundSeconds / step_s));
  Report(bench, "8B, " + what, RunSimulated(EightBillion(line, 12 * inner_steps, inner_steps, 36)),
         inner_steps, goal);
}

// `line` is that of the eight billion.
void ByRealPrograms(Bench* bench, const std::string& what, Line line, double goal) {
  const std::string programs = ProgramsDirectory();
  line.mbps *= kSmall / kEightBillion;
  const auto in_proportion = [&](double step_s) {
    Line out = line;
    out.mbps *= kRoundSeconds / (kSmallInnerSteps * step_s);
    return out;
  };
  const double step_s =
      RunEmulated(programs, SmallRun({1000, line.codec, line.residual}, 96)).step_s;
  const Line slow = in_proportion(step_s);
  bench->Record("real programs, as " + what + ": line", slow.mbps, "Mbit/s");
  Report(bench, "real programs, as " + what, RunEmulated(programs, SmallRun(slow, 320)),
         kSmallInnerSteps, goal);
}

int Run(int argc, char** argv) {
  Bench bench("hidden", argc, argv);
  const Line fast = {100, "ternary", "buffer"}, slow = {20, "topk", "weights"};
  OnVirtualTime(&bench, "100 Mbit/s, ternary", fast, 98);
  OnVirtualTime(&bench, "20 Mbit/s, top-k", slow, 95);
  ByRealPrograms(&bench, "100 Mbit/s, ternary", fast, 98);
  ByRealPrograms(&bench, "20 Mbit/s, top-k", slow, 95);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
