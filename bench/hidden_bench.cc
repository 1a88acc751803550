// How much of the outer rounds' traffic is hidden behind training, by time stamps: of the time from
// a boundary until everything needed for the update was there, the part in which the device did not
// stand idle for it. Over 50 ms and 1 % loss:
//
//   8B on virtual time    eight stages on eight cards of one site, four sites of one line each; a
//                         round of about 240 s, as published runs of 8 billion on eight cards
//   real programs         two stages at two sites, over the kernel's own TCP and shaped packets; a
//                         small model on a slow line, so that a round's bits take the share of the
//                         line's time that 8B's would (the two cores compute for all four nodes)
//
// The last round of a run has nothing to hide behind; it is left out.
#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/emulated_run.h"

namespace skerry::bench {
namespace {

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
             "[model]\nvocab = 32000\nhidden = 4096\nlayers = 32\nheads = 32\nkv_heads = 8\n"
             "ffn = 14336\ncontext = 4096\n"
             "[outer]\ninner_steps = %d\noverlap_steps = -1\ncodec = \"%s\"\nresidual = \"%s\"\n"
             "[pipeline]\nstages = 8\nskip_ratio = 0.25\nmicrobatches_per_step = %d\n"
             "sequences_per_microbatch = 1\nin_flight = 0\n",
             steps, inner_steps, line.codec, line.residual, microbatches);
}

std::string SmallRun(const Line& line) {
  return "name = \"small\"\ntext = \"text.txt\"\nregions = [\"a\", \"b\"]\n" +
         Sites("ab", line.mbps, "count = 2\ndevice = \"this\"\n") +
         absl::StrFormat(
             "[run]\nsteps = 320\nnodes_min = 4\n"
             "[model]\nvocab = 256\nhidden = 256\nlayers = 8\nheads = 4\nkv_heads = 2\n"
             "ffn = 1024\ncontext = 32\n"
             "[outer]\ninner_steps = 16\noverlap_steps = 16\ncodec = \"%s\"\nresidual = \"%s\"\n"
             "[pipeline]\nstages = 2\nskip_ratio = 0\nmicrobatches_per_step = 4\n"
             "sequences_per_microbatch = 1\nin_flight = 2\n",
             line.codec, line.residual);
}

void Report(Bench* bench, const std::string& what, const RunFigures& run, int inner_steps,
            double goal) {
  bench->Record(what + ": a round", inner_steps * run.step_s, "s");
  bench->Record(what + ": a round's transfer", 100 * run.transfer_s / (inner_steps * run.step_s),
                "% of it");
  bench->AtLeast(what + ": hidden", 100 * run.hidden, "%", goal);
}

int Run(int argc, char** argv) {
  Bench bench("hidden", argc, argv);
  Report(&bench, "8B, 100 Mbit/s, ternary",
         RunSimulated(EightBillion({100, "ternary", "buffer"}, 384, 16, 36)), 16, 98);
  Report(&bench, "8B, 20 Mbit/s, top-k",
         RunSimulated(EightBillion({20, "topk", "weights"}, 384, 16, 36)), 16, 95);
  const std::string programs = ProgramsDirectory();
  Report(&bench, "real programs, 10 Mbit/s, ternary",
         RunEmulated(programs, SmallRun({10, "ternary", "buffer"})), 16, 98);
  Report(&bench, "real programs, 2 Mbit/s, top-k",
         RunEmulated(programs, SmallRun({2, "topk", "weights"})), 16, 95);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
