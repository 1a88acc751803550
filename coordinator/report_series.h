// The steps of a run as the report keeps them: an entry a step; where asked for, one for several
// when they become many. Internal to the report.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace skerry {

class StepSeries {
 public:
  struct Entry {
    int64_t first = 0, step = 0;  // the first and the last that it stands for
    int64_t steps = 1;            // how many: some in between may be missing
    int64_t tokens = 0;
    int64_t finite = 0;  // of its steps, those with a loss
    double loss = 0;     // the mean of these
    double ended_s = 0;  // when the last was known first
  };
  static constexpr size_t kMost = 16'384;  // entries, when bounded
  static constexpr size_t kFine = 256;     // the newest are left alone

  explicit StepSeries(bool bounded) : bounded_(bounded) {}

  // A step that is known already: its loss and its tokens are replaced.
  void Add(const Entry& entry);
  // The run goes on at `step` again: what was from there on is void.
  void Rewind(int64_t step);

  const std::vector<Entry>& entries() const { return entries_; }  // in order of steps
  int64_t steps() const { return steps_; }
  int64_t tokens() const { return tokens_; }

 private:
  void Thin();

  bool bounded_;
  std::vector<Entry> entries_;
  int64_t steps_ = 0, tokens_ = 0;
};

}  // namespace skerry
