// A run of the programs under siege by strangers with sockets, long form: 600 MB of junk, announced
// lengths up to 2^64, greetings cut at every byte, 3000 half-open connections, 200 keys that say
// Hello 60 times each, replays. Quiet and besieged times alternate within one run, whose rounds are
// set by waiting (40 ms between everybody), so that what the attackers take of the processors
// counts little.

#include <chrono>
#include <cstdio>
#include <thread>

#include "bench/bench.h"
#include "bench/siege/siege.h"

namespace skerry::siege {
namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  double quiet = 0, besieged = 0;  // rounds a second
  int64_t grown_kb = 0;            // of the process that grew most
  int answered = 0;
};

Times Measure(Fleet& fleet, const Siege& siege, int pairs) {
  constexpr auto kQuiet = std::chrono::seconds(15);
  Times times;
  times.answered = siege.strangers;
  const int64_t before_kb = fleet.Resident();
  const auto rate = [&](auto&& meanwhile) {
    const auto began = Clock::now();
    const int64_t rounds = Rounds(fleet.run);
    meanwhile();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    times.grown_kb = std::max(times.grown_kb, fleet.Resident() - before_kb);
    return static_cast<double>(Rounds(fleet.run) - rounds) / seconds / pairs;
  };
  for (int pair = 0; pair < pairs; ++pair) {
    times.quiet += rate([&] { std::this_thread::sleep_for(kQuiet); });
    times.besieged += rate([&] { times.answered = std::min(times.answered, Lay(fleet, siege)); });
    std::fprintf(stderr, "pair %d of %d: %d strangers answered\n", pair + 1, pairs, times.answered);
  }
  return times;
}

int Run(int argc, char** argv) {
  bench::Bench report("hostile", argc, argv);
  constexpr int kRttMs = 40, kPairs = 3;
  const Siege siege{int64_t{600} << 20, 10, 1000, 200, 60};
  Fleet fleet(kRttMs);
  const Times times = Measure(fleet, siege, kPairs);
  Replay(PortOf(fleet.run.Endpoint()), fleet.proxy->Stop());
  const int dead = fleet.AllLive() ? 0 : 1;
  report.AtMost("programs that died", dead, "", 0);
  report.AtMost("memory grown", static_cast<double>(times.grown_kb) / 1024, "MiB", 64);
  report.Record("rounds a second, quiet", times.quiet, "1/s");
  report.AtMost("honest rounds slowed by", 100 * (1 - times.besieged / times.quiet), "%", 5);
  report.AtLeast("strangers answered", times.answered, "", siege.strangers);
  return report.Finish();
}

}  // namespace
}  // namespace skerry::siege

int main(int argc, char** argv) {
  return skerry::siege::Run(argc, argv);
}
