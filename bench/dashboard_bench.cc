// The dashboard of a run of 1,000 nodes that has gone on for a week (bench/dashboard_week.h), as
// the real program serves it and as Chromium shows it, and what being seen costs a run that trains
// (bench/dashboard_cost.h). A week's log and a page take what they take; times are wall time, so
// run it where nobody else computes. Without chromium and chromium-driver what a browser does is
// left out.
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/dashboard_browser.h"
#include "bench/dashboard_cost.h"
#include "bench/dashboard_week.h"
#include "bench/siege/program_run.h"
#include "bench/statistics.h"
#include "model/file_io.h"

namespace skerry::bench {
namespace {

using Clock = std::chrono::steady_clock;
using siege::ProgramRun;
using siege::TextOf;

constexpr double kStatusMsMax = 100, kPaintMsMax = 1000, kTransferredKbMax = 300;
constexpr double kWeekMbMax = 200, kLookBackMsMax = 200, kCostPercentMax = 1;
// Beyond this people notice that a page does not answer (web.dev/inp).
constexpr double kHeldUpMsMax = 200;

double Since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

void Rest(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// A run's directory, made by the program, with what is written in a week; its status moves on every
// second, as a coordinator's.
class WeekServed {
 public:
  explicit WeekServed(Bench* bench) : run_(kWeekNodes, 1000), place_(run_.at / "run") {
    const auto began = Clock::now();
    const double bytes = static_cast<double>(WriteWeek((place_ / "events.jsonl").string()));
    bench->Record("a week's events: written in", Since(began), "s");
    bench->AtMost("a week's events, 1,000 nodes", 1e-6 * bytes, "MB", kWeekMbMax);
    MoveOn();
    mover_ = std::thread([this] {
      while (!over_) Rest(1), MoveOn();
    });
    const auto served = Clock::now();
    run_.ServeDashboardOnly();
    url_ = TextOf(place_ / "dashboard");
    url_ = url_.substr(0, url_.rfind('/'));
    const auto is_read = [this] {
      const auto page = Client().Get("/");
      return page && page->body.find("history is being read") == std::string::npos;
    };
    while (!is_read()) Rest(0.2);
    bench->Record("a week's events: read by the dashboard in", Since(served), "s");
  }
  ~WeekServed() {
    over_ = true;
    mover_.join();
  }

  httplib::Client Client() const {
    httplib::Client client(url_);
    client.set_read_timeout(60);
    client.set_default_headers({{"Accept-Encoding", "gzip, deflate, br"}});  // as browsers
    return client;
  }
  std::string url() const { return url_ + "/"; }
  const ProgramRun& run() const { return run_; }

 private:
  void MoveOn() {
    MustBeOk(WriteFileAtomically((place_ / "status.json").string(), WeekStatus(++seconds_)));
  }

  ProgramRun run_;
  std::filesystem::path place_;
  std::string url_;
  int64_t seconds_ = 0;
  std::atomic<bool> over_ = false;
  std::thread mover_;
};

// Milliseconds of `count` requests, apart from each other so that a picture is made anew between.
template <typename Path>
std::vector<double> Ask(const WeekServed& week, int count, Path&& path) {
  constexpr double kApartS = 0.3;
  auto client = week.Client();
  client.set_keep_alive(true);
  std::vector<double> ms;
  for (int i = 0; i < count; ++i) {
    Rest(kApartS);
    const auto began = Clock::now();
    const auto answer = client.Get(path(i).c_str());
    ms.push_back(1e3 * Since(began));
    if (!answer || answer->status != 200) MustBeOk(Unavailable("%s: no answer", path(i)));
  }
  return ms;
}

void Answers(Bench* bench, const WeekServed& week) {
  constexpr int kRequests = 20;
  const auto status = Ask(week, kRequests, [](int) { return std::string("/api/status"); });
  bench->Record("/api/status, median", Median(status), "ms");
  bench->AtMost("/api/status, the slowest of 20", QuantileOf(status, 1), "ms", kStatusMsMax);
  std::vector<double> command;
  for (int i = 0; i < 5; ++i) {
    const auto began = Clock::now();
    week.run().Say({"status", week.run().Dir(), "--json"});
    command.push_back(1e3 * Since(began));
  }
  bench->AtMost("skerry-coordinator status --json, median of 5", Median(command), "ms",
                kStatusMsMax);
  // All over the week, in no order.
  const auto back = Ask(week, kRequests, [](int i) {
    return absl::StrFormat("/at?s=%d", (i * 7 + 3) % kRequests * kWeekSeconds / kRequests + 1234);
  });
  bench->Record("/at, 20 moments of the week, median", Median(back), "ms");
  bench->AtMost("/at, 20 moments of the week, the slowest", QuantileOf(back, 1), "ms",
                kLookBackMsMax);
}

// Bytes on the wire of the page and what it loads, headers too.
constexpr char kTransferred[] = R"(
  const all = [performance.getEntriesByType('navigation')[0],
    ...performance.getEntriesByType('resource').filter((e) => e.name.endsWith('.js'))];
  return all.reduce((sum, e) => sum + e.transferSize, 0);)";
constexpr char kFirstPaint[] =
    "performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint')";
// From a key pressed in the search of nodes to the table that it asks for, drawn; and from the
// slider moved to the moment shown.
constexpr char kSearch[] = R"(
  window.answeredMs = 0;
  const began = performance.now(), find = document.getElementById('find');
  new MutationObserver((seen, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => { window.answeredMs = performance.now() - began; });
  }).observe(document.getElementById('nodes'), { childList: true });
  find.value = 'tokyo';
  find.dispatchEvent(new Event('input'));)";
constexpr char kScrub[] = R"(
  window.answeredMs = 0;
  const began = performance.now(), at = document.getElementById('at');
  new MutationObserver((seen, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => { window.answeredMs = performance.now() - began; });
  }).observe(document.getElementById('heading'), { childList: true });
  at.value = at.max * %s;
  at.dispatchEvent(new Event('input'));)";

double Act(Browser& browser, const std::string& action) {
  browser.Run(action);
  browser.Await("window.answeredMs > 0");
  return browser.Run("return window.answeredMs;").get<double>();
}

void InABrowser(Bench* bench, const WeekServed& week) {
  const auto browser = Browser::Start();
  if (!browser) {
    std::printf("chromium or chromium-driver is not here: nothing was measured in a browser\n");
    return;
  }
  browser->Look(1280, 800, false);
  constexpr int kLoads = 5;
  double slowest = 0, bytes = 0;
  for (int i = 0; i < kLoads; ++i) {
    browser->Open("about:blank");
    browser->Open(week.url());
    browser->Await(kFirstPaint);
    const auto paint = browser->Run(std::string("return ") + kFirstPaint + ".startTime;");
    slowest = std::max(slowest, paint.get<double>());
    bytes = std::max(bytes, browser->Run(kTransferred).get<double>());
  }
  bench->AtMost("first paint, the slowest of 5 loads", slowest, "ms", kPaintMsMax);
  bench->AtMost("transferred for it", 1e-3 * bytes, "KB", kTransferredKbMax);
  browser->Run(
      "window.tasks = []; new PerformanceObserver((list) => window.tasks.push("
      "...list.getEntries().map((e) => e.duration))).observe({ type: 'longtask' });");
  constexpr double kWatchedS = 10;
  Rest(kWatchedS);
  bench->AtMost("10 s live: the longest that the page is busy",
                browser->Run("return Math.max(0, ...window.tasks);").get<double>(), "ms",
                kHeldUpMsMax);
  bench->AtMost("search of nodes, until it is drawn", Act(*browser, kSearch), "ms", kHeldUpMsMax);
  double scrub_ms = 0;
  for (const char* share : {"0.5", "0.9", "0.1", "0.7", "0.3"})
    scrub_ms = std::max(scrub_ms, Act(*browser, absl::StrFormat(kScrub, share)));
  bench->AtMost("slider moved, until that moment is drawn, slowest of 5", scrub_ms, "ms",
                kLookBackMsMax);
}

void Cost(Bench* bench) {
  constexpr int kSeconds = 30;
  const SeeingCost cost = MeasureSeeing(kSeconds);
  bench->Record("a run of 4 nodes: steps watched", static_cast<double>(cost.steps), "");
  bench->Record("its step, processor time of all nodes", cost.step_ms, "ms");
  bench->Record("an event's line", cost.line_us, "us");
  bench->Record("a traced task, all its way", cost.task_us, "us");
  bench->Record("of the nodes' time: events", 100 * cost.lines_share, "%");
  bench->Record("of the nodes' time: traces", 100 * cost.tasks_share, "%");
  bench->Record("of the nodes' time: dashboard, one viewer", 100 * cost.dashboard, "%");
  bench->Record("beside it: all else that the coordinator does", 100 * cost.coordinator, "%");
  bench->AtMost("being seen costs a run",
                100 * (cost.lines_share + cost.tasks_share + cost.dashboard), "%", kCostPercentMax);
}

int Main(int argc, char** argv) {
  Bench bench("dashboard", argc, argv);
  {
    const WeekServed week(&bench);
    Answers(&bench, week);
    InABrowser(&bench, week);
  }
  Cost(&bench);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Main(argc, argv);
}
