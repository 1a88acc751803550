#include "sim/chrome_trace.h"

#include "absl/strings/str_format.h"
#include "model/file_io.h"

namespace skerry {
namespace {

double Micros(Instant at) {
  return static_cast<double>(at.nanos()) * 1e-3;
}

}  // namespace

void ChromeTrace::Add(const std::string& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += event;
}

int32_t ChromeTrace::RowOf(const NodeId& process) {
  const auto [it, is_new] = rows_.emplace(process, static_cast<int32_t>(rows_.size()));
  if (is_new) {
    Add(absl::StrFormat(R"({"ph":"M","name":"thread_name","pid":0,"tid":%d,"args":{"name":"%s"}})",
                        it->second, process.Short()));
  }
  return it->second;
}

void ChromeTrace::OnJobStart(Instant at, const NodeId& process, JobId job,
                             const std::string& name) {
  running_[{process, job}] = {at, name};
}

void ChromeTrace::OnJobEnd(Instant at, const NodeId& process, JobId job) {
  const auto it = running_.find({process, job});
  if (it == running_.end()) return;
  const double start = Micros(it->second.since);
  Add(absl::StrFormat(R"({"ph":"X","name":"%s","pid":0,"tid":%d,"ts":%.3f,"dur":%.3f})",
                      it->second.name, RowOf(process), start, Micros(at) - start));
  running_.erase(it);
}

void ChromeTrace::OnCrash(Instant at, const NodeId& process) {
  Mark(at, process, "crash");
}

void ChromeTrace::OnFault(Instant at, const NodeId& process, const std::string& what) {
  Mark(at, process, what);
}

void ChromeTrace::Mark(Instant at, const NodeId& process, const std::string& what) {
  Add(absl::StrFormat(R"({"ph":"i","name":"%s","pid":0,"tid":%d,"ts":%.3f,"s":"t"})", what,
                      RowOf(process), Micros(at)));
}

absl::Status ChromeTrace::Write(const std::string& path) const {
  return ReplaceText(path, "[\n" + events_ + "\n]\n");
}

}  // namespace skerry
