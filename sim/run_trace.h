// What a run in virtual time did, kept for its picture (sim/run_report.h): the work of devices and
// the bulk transfers of a few inner steps in the middle of the run, bytes per line over the whole
// of it, bytes from everybody to everybody, crashes and faults.
//
// Memory is bounded whatever the run: rows, bars and time bins have limits, the matrix is between
// regions when there are many nodes.
//
// A transfer begins when its message was handed to the connection and the one before it on that
// connection had arrived, and ends when it arrives; its bytes count as spread evenly in between.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulation_observer.h"
#include "sim/virtual_run.h"

namespace skerry {

enum class TraceWork : uint8_t { kForward, kLoss, kBackward, kOptimizer, kEncode, kApply, kOther };

struct TraceBar {
  double start_s = 0, end_s = 0;
  int32_t row = 0;
  TraceWork work = TraceWork::kOther;
  int64_t step = -1;        // −1: not of a microbatch
  int32_t microbatch = -1;  // likewise
};

enum class TraceCargo : uint8_t { kActivation, kGradient, kDelta };

struct TraceTransfer {
  double start_s = 0, end_s = 0;
  int32_t row = 0;  // the sender's
  int32_t to = 0;   // node number
  TraceCargo cargo = TraceCargo::kActivation;
  int64_t step = 0;        // of a delta: its round
  int32_t microbatch = 0;  // of a delta: its stage
  int64_t bytes = 0;
};

struct TraceMark {
  double at_s = 0;
  int32_t node = 0;  // number; 0 is the coordinator
  std::string what;  // "crash", "hang", …
};

// Bytes over time in kBins bins whose width doubles when time runs past them.
class ByteBins {
 public:
  static constexpr int kBins = 256;
  void Add(double start_s, double end_s, double bytes);
  double width_s() const { return width_s_; }
  const std::vector<double>& bytes() const { return bytes_; }  // [≤ kBins]
  double total() const { return total_; }

 private:
  double width_s_ = 0.25;
  double total_ = 0;
  std::vector<double> bytes_;
};

// One node that has a row of its own.
struct TraceRow {
  int32_t node = 0;  // number in the scenario, from 1
  int32_t stage = 0, replica = 0;
  ByteBins up, down;
};

struct RunTraceOptions {
  std::optional<int64_t> first_step;  // of the window; none: around the middle outer boundary
  int64_t steps = 4;                  // of the window
  size_t rows_max = 40;
  size_t bars_max = 8000;
  size_t transfers_max = 6000;
  size_t matrix_nodes_max = 24;  // with more nodes the matrix is between regions
};

// Watches one VirtualRun; must outlive it. Not thread-safe.
class RunTrace final : public SimulationObserver {
 public:
  // Call Watch before VirtualRun::Run.
  explicit RunTrace(const RunTraceOptions& options = {}) : options_(options) {}
  void Watch(VirtualRun& run);

  const std::vector<TraceRow>& rows() const { return rows_; }  // by stage, replica
  size_t nodes() const { return regions_.size(); }
  const std::vector<TraceBar>& bars() const { return bars_; }
  const std::vector<TraceTransfer>& transfers() const { return transfers_; }
  const std::vector<TraceMark>& marks() const { return marks_; }
  double window_start_s() const { return window_start_s_; }
  double window_end_s() const { return window_end_s_; }
  int64_t window_first_step() const { return window_first_; }
  bool is_truncated() const { return truncated_; }

  // Names along the matrix: nodes or regions; bytes[from][to]. The coordinator comes first.
  const std::vector<std::string>& matrix_names() const { return matrix_names_; }
  const std::vector<std::vector<double>>& matrix() const { return matrix_; }

  void OnJobStart(Instant at, const NodeId& process, JobId job, const std::string& name) override;
  void OnJobEnd(Instant at, const NodeId& process, JobId job) override;
  void OnSent(Instant at, const NodeId& from, const NodeId& to, const Message& message) override;
  void OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                   const Message& message) override;
  void OnEvent(Instant at, const NodeId& process, const std::string& kind,
               const std::string& fields) override;
  void OnCrash(Instant at, const NodeId& process) override;
  void OnFault(Instant at, const NodeId& process, const std::string& what) override;

 private:
  struct Running {
    Instant since;
    TraceWork work = TraceWork::kOther;
    int64_t step = -1;
    int32_t microbatch = -1;
  };
  struct Cargo {
    TraceCargo kind;
    int64_t step;
    int32_t microbatch, attempt, hop;
    auto operator<=>(const Cargo&) const = default;
  };
  static std::optional<Cargo> CargoOf(const Message& message);
  void OpenWindow(Instant at, int64_t first);
  void OnPlan(const std::string& fields);
  TraceRow* RowOf(int32_t node);
  void Mark(Instant at, const NodeId& process, const std::string& what);
  void AddToMatrix(int32_t from, int32_t to, double bytes);

  RunTraceOptions options_;
  int64_t middle_ = 0;                // first step of the window that is wanted
  std::vector<std::string> regions_;  // by node number − 1
  std::map<int32_t, int32_t> row_of_;
  std::vector<TraceRow> rows_;
  std::vector<TraceBar> bars_;
  std::vector<TraceTransfer> transfers_;
  std::vector<TraceMark> marks_;
  std::vector<std::string> matrix_names_;
  std::vector<int32_t> matrix_index_;  // by node number
  std::vector<std::vector<double>> matrix_;
  std::map<int32_t, Running> running_;  // by node number
  std::map<std::pair<int32_t, int32_t>, std::map<Cargo, Instant>> under_way_;
  std::map<std::pair<int32_t, int32_t>, Instant> last_arrival_;
  bool open_ = false;
  int64_t window_first_ = -1;
  double window_start_s_ = 0, window_end_s_ = 0;
  bool truncated_ = false;
};

}  // namespace skerry
