#include "sim/run_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "pipeline/plan/outer_choice.h"

namespace skerry {
namespace {

constexpr size_t kMarksMax = 400;
constexpr size_t kUnderWayMax = 20000;  // of one pair

double Seconds(Instant at) {
  return (at - Instant()).seconds();
}

// Node numbers of a VirtualRun: 0 is the coordinator.
int32_t NumberOf(const NodeId& id) {
  int32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | id.bytes[i];
  return number;
}

TraceWork WorkOf(const std::string& job) {
  if (job == "start" || job == "forward") return TraceWork::kForward;
  if (job == "loss") return TraceWork::kLoss;
  if (job == "backward") return TraceWork::kBackward;
  if (job == "optimizer") return TraceWork::kOptimizer;
  if (job == "encode delta") return TraceWork::kEncode;
  if (job == "apply round") return TraceWork::kApply;
  return TraceWork::kOther;
}

}  // namespace

void ByteBins::Add(double start_s, double end_s, double bytes) {
  total_ += bytes;
  while (end_s >= width_s_ * kBins) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const double value = std::exchange(bytes_[i], 0);
      bytes_[i / 2] += value;
    }
    bytes_.resize((bytes_.size() + 1) / 2);
    width_s_ *= 2;
  }
  const double span = std::max(end_s - start_s, 1e-9);
  const auto first = static_cast<size_t>(std::max(start_s, 0.0) / width_s_);
  const auto last = static_cast<size_t>(end_s / width_s_);
  if (bytes_.size() <= last) bytes_.resize(last + 1);
  for (size_t i = first; i <= last; ++i) {
    const double from = std::max(start_s, width_s_ * static_cast<double>(i));
    const double to = std::min(end_s, width_s_ * static_cast<double>(i + 1));
    bytes_[i] += first == last ? bytes : bytes * std::max(to - from, 0.0) / span;
  }
}

void RunTrace::Watch(VirtualRun& run) {
  const RunConfig& config = run.options().config;
  const int64_t period = FirstOuter(config).inner_steps;  // the planner may choose another
  const int64_t boundary = std::max<int64_t>(config.steps / period / 2, 1) * period;
  const int64_t around = std::max<int64_t>(boundary - options_.steps / 2, 0);
  middle_ = std::clamp<int64_t>(options_.first_step.value_or(around), 0, config.steps - 1);
  std::set<std::string> places;
  for (const VirtualNode& node : run.options().nodes) {
    regions_.push_back(node.region);
    places.insert(node.region);
  }
  const bool by_node = regions_.size() <= options_.matrix_nodes_max;
  matrix_names_ = {"coordinator"};
  matrix_index_ = {0};
  if (!by_node) matrix_names_.insert(matrix_names_.end(), places.begin(), places.end());
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (by_node) {
      matrix_names_.push_back(absl::StrFormat("node%d", i + 1));
      matrix_index_.push_back(static_cast<int32_t>(i) + 1);
    } else {
      const auto place = std::distance(places.begin(), places.find(regions_[i]));
      matrix_index_.push_back(static_cast<int32_t>(place) + 1);
    }
  }
  matrix_.assign(matrix_names_.size(), std::vector<double>(matrix_names_.size()));
  run.simulation().Observe(this);
  run.WatchWork([this](const NodeId& node, int64_t step, int32_t microbatch) {
    const auto it = running_.find(NumberOf(node));
    if (it == running_.end()) return;
    it->second.step = step;
    it->second.microbatch = microbatch;
  });
}

TraceRow* RunTrace::RowOf(int32_t node) {
  const auto it = row_of_.find(node);
  return it == row_of_.end() ? nullptr : &rows_[static_cast<size_t>(it->second)];
}

void RunTrace::OnJobStart(Instant at, const NodeId& process, JobId, const std::string& name) {
  const int32_t node = NumberOf(process);
  if (open_ && row_of_.contains(node)) running_[node] = {at, WorkOf(name), -1, -1};
}

void RunTrace::OnJobEnd(Instant at, const NodeId& process, JobId) {
  const auto it = running_.find(NumberOf(process));
  if (it == running_.end()) return;
  const Running done = it->second;
  running_.erase(it);
  if (!open_) return;
  if (bars_.size() >= options_.bars_max) {
    truncated_ = true;
    return;
  }
  window_end_s_ = std::max(window_end_s_, Seconds(at));
  bars_.push_back({Seconds(done.since), Seconds(at), row_of_.at(NumberOf(process)), done.work,
                   done.step, done.microbatch});
}

std::optional<RunTrace::Cargo> RunTrace::CargoOf(const Message& message) {
  if (const auto* m = std::get_if<Activation>(&message))
    return Cargo{TraceCargo::kActivation, m->step, m->microbatch, m->attempt, m->hop};
  if (const auto* m = std::get_if<Gradient>(&message))
    return Cargo{TraceCargo::kGradient, m->step, m->microbatch, m->attempt, m->hop};
  if (const auto* m = std::get_if<Delta>(&message))
    return Cargo{TraceCargo::kDelta, m->round, m->stage, 0, 0};
  if (const auto* m = std::get_if<DeltaSum>(&message))
    return Cargo{TraceCargo::kDelta, m->round, m->stage, 0, 0};
  return std::nullopt;
}

void RunTrace::OnSent(Instant at, const NodeId& from, const NodeId& to, const Message& message) {
  const auto cargo = CargoOf(message);
  if (!cargo) return;
  const int32_t sender = NumberOf(from), receiver = NumberOf(to);
  if (!row_of_.contains(sender) && !row_of_.contains(receiver)) return;
  auto& pair = under_way_[{sender, receiver}];
  if (pair.size() < kUnderWayMax) pair.insert_or_assign(*cargo, at);
}

void RunTrace::OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                           const Message& message) {
  const int32_t sender = NumberOf(from), receiver = NumberOf(to);
  const int64_t bytes = WireSize(message);
  AddToMatrix(sender, receiver, static_cast<double>(bytes));
  const auto cargo = CargoOf(message);
  const auto pair = under_way_.find({sender, receiver});
  if (!cargo || pair == under_way_.end()) return;
  const auto sent = pair->second.find(*cargo);
  if (sent == pair->second.end()) return;
  Instant& last = last_arrival_[{sender, receiver}];
  const double start_s = Seconds(std::max(sent->second, last)), end_s = Seconds(at);
  last = at;
  pair->second.erase(sent);
  if (TraceRow* row = RowOf(receiver)) row->down.Add(start_s, end_s, static_cast<double>(bytes));
  TraceRow* row = RowOf(sender);
  if (row == nullptr) return;
  row->up.Add(start_s, end_s, static_cast<double>(bytes));
  if (!open_ || start_s < window_start_s_) return;
  if (transfers_.size() >= options_.transfers_max) {
    truncated_ = true;
    return;
  }
  transfers_.push_back({start_s, end_s, row_of_.at(sender), receiver, cargo->kind, cargo->step,
                        cargo->microbatch, bytes});
}

void RunTrace::AddToMatrix(int32_t from, int32_t to, double bytes) {
  const auto row = static_cast<size_t>(matrix_index_[static_cast<size_t>(from)]);
  matrix_[row][static_cast<size_t>(matrix_index_[static_cast<size_t>(to)])] += bytes;
}

void RunTrace::OpenWindow(Instant at, int64_t first) {
  bars_.clear();
  transfers_.clear();
  running_.clear();
  truncated_ = false;
  open_ = true;
  window_first_ = first;
  window_start_s_ = window_end_s_ = Seconds(at);
}

// The first steps are kept until those of the middle come: a run may end early.
void RunTrace::OnEvent(Instant at, const NodeId& process, const std::string& kind,
                       const std::string& fields) {
  if (process != VirtualRun::coordinator()) return;
  if (kind == "plan" && rows_.empty()) {
    OnPlan(fields);
    OpenWindow(at, 0);
  }
  if (kind != "step" || window_first_ < 0) return;
  const int64_t step =
      nlohmann::json::parse("{" + fields + "}", nullptr, false).value("step", int64_t{-1});
  if (step == middle_ - 1 && window_first_ != middle_) {
    OpenWindow(at, middle_);
  } else if (open_ && step >= window_first_ + options_.steps - 1) {
    open_ = false;
    window_end_s_ = Seconds(at);
  }
}

void RunTrace::OnPlan(const std::string& fields) {
  const auto plan = nlohmann::json::parse("{" + fields + "}", nullptr, false);
  if (!plan.is_object() || !plan.contains("stages")) return;
  size_t replicas_max = 0;
  for (const auto& stage : plan["stages"])
    replicas_max = std::max(replicas_max, stage["replicas"].size());
  std::vector<TraceRow> rows;
  for (size_t replica = 0; replica < replicas_max; ++replica) {
    for (size_t stage = 0; stage < plan["stages"].size(); ++stage) {
      const auto& replicas = plan["stages"][stage]["replicas"];
      if (replica >= replicas.size() || rows.size() >= options_.rows_max) continue;
      // NodeId::Short of a test's id is its number.
      const auto number = static_cast<int32_t>(
          std::strtoul(replicas[replica].get<std::string>().c_str(), nullptr, 16));
      rows.push_back({number, static_cast<int32_t>(stage), static_cast<int32_t>(replica), {}, {}});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.stage < b.stage; });
  for (size_t i = 0; i < rows.size(); ++i) row_of_[rows[i].node] = static_cast<int32_t>(i);
  rows_ = std::move(rows);
}

void RunTrace::Mark(Instant at, const NodeId& process, const std::string& what) {
  if (marks_.size() < kMarksMax) marks_.push_back({Seconds(at), NumberOf(process), what});
}

void RunTrace::OnCrash(Instant at, const NodeId& process) {
  Mark(at, process, "crash");
  const int32_t node = NumberOf(process);
  running_.erase(node);
  for (auto& [pair, cargo] : under_way_) {
    if (pair.first == node || pair.second == node) cargo.clear();
  }
}

void RunTrace::OnFault(Instant at, const NodeId& process, const std::string& what) {
  Mark(at, process, what);
}

}  // namespace skerry
