#include "coordinator/run_trace.h"

#include <algorithm>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "coordinator/report_events.h"
#include "coordinator/step_paths.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr std::pair<int, const char*> kMeasured = {0, "as measured"};
constexpr std::pair<int, const char*> kPredicted = {1, "as predicted"};

double Micros(double seconds) {
  return 1e6 * seconds;
}

class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out) : out_(out) {
    out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  }
  ~TraceWriter() { out_ << "\n]}\n"; }

  void Add(const TracedStep& step, double began_s) {
    AddTasks(kMeasured, step, step.tasks, began_s);
    AddTasks(kPredicted, step, step.predicted, began_s);
  }

 private:
  void AddTasks(const std::pair<int, const char*>& group, const TracedStep& step,
                const std::vector<PathTask>& tasks, double began_s) {
    for (const PathTask& task : tasks) {
      Json args = {{"step", step.step}, {"plan", step.plan_version}};
      if (task.microbatch >= 0) {
        args["microbatch"] = task.microbatch;
        args["attempt"] = task.attempt;
        args["hop"] = task.hop;
        args["input_waited_us"] = Micros(task.start_s - task.ready_s);
      }
      Event({{"ph", "X"},
             {"name", TaskName(task.kind)},
             {"pid", group.first},
             {"tid", RowOf(group, task.node)},
             {"ts", Micros(began_s + task.start_s)},
             {"dur", Micros(task.end_s - task.start_s)},
             {"args", std::move(args)}});
    }
  }

  // Named when it is first used.
  int RowOf(const std::pair<int, const char*>& group, const std::string& node) {
    const auto [row, is_new] =
        rows_.try_emplace({group.first, node}, static_cast<int>(rows_.size()));
    if (!is_new) return row->second;
    if (groups_named_.insert(group.first).second) {
      Event({{"ph", "M"},
             {"name", "process_name"},
             {"pid", group.first},
             {"args", {{"name", group.second}}}});
    }
    Event({{"ph", "M"},
           {"name", "thread_name"},
           {"pid", group.first},
           {"tid", row->second},
           {"args", {{"name", node}}}});
    return row->second;
  }

  void Event(const Json& event) {
    out_ << (std::exchange(is_first_, false) ? "\n" : ",\n")
         << event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  std::ostream& out_;
  bool is_first_ = true;
  std::set<int> groups_named_;
  std::map<std::pair<int, std::string>, int> rows_;
};

}  // namespace

absl::StatusOr<int64_t> WriteRunTrace(std::istream& log, const TraceWindow& window,
                                      std::ostream& out,
                                      const std::function<void(int64_t)>& on_read) {
  EventFold clock(EventFold::Keeps::kRecent);
  int64_t steps = 0, read = 0;
  {
    TraceWriter writer(out);
    for (std::string line; std::getline(log, line);) {
      clock.OnLine(line);
      read += std::ssize(line) + 1;
      if (on_read) on_read(read);
      if (line.find("\"kind\":\"trace\"") == std::string::npos) continue;
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object()) continue;
      const TracedStep step = TraceOf(event);
      if (step.step < window.first_step || step.step > window.last_step) continue;
      // The line was written when the last node had sent its part.
      writer.Add(step, std::max(0.0, clock.now_s() - step.measured_s()));
      ++steps;
    }
  }
  if (clock.understood() == 0) {
    return InvalidArgument("no line of it is an event; want a coordinator's events.jsonl");
  }
  out.flush();
  if (!out) return Unavailable("the trace cannot be written; is the disk full?");
  return steps;
}

}  // namespace skerry
