// What a replica remembers of sums that are checked (docs/PROTOCOL.md, "A sum is checked"): what it
// said of its own, and what it is to check of others'.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/exec/stage_work.h"
#include "wire/actor.h"

namespace skerry {

struct SumChecks {
  static constexpr size_t kAwaitedMax = 16;  // as a checker, each with the sums of a part

  struct Reduced {  // what is stated of a sum
    std::vector<Participant> summed;
    std::vector<PieceState> states;
  };
  struct Awaited {
    SumCheck check;
    std::vector<int32_t> own;  // the pieces that its reducer sums
    Payload sums;              // of its DeltaSum, as it came here
  };
  struct Shown {
    int32_t stage = 0;
    int64_t round = 0;
    Payload payload;    // without its sums
    Payload sums = {};  // the own ones
  };
  struct Job {
    SumCheck check;
    std::shared_ptr<Payload> shown;       // of the own sum, for whoever checks it, or
    std::shared_ptr<SumVerdict> verdict;  // of another's
    Payload sums;  // of the own: what is shown is to be kept with them, for who asks again
  };

  std::map<int64_t, std::vector<Digest>> sent;  // by round: of the pieces of the own delta
  std::map<std::pair<int64_t, uint64_t>, Reduced> reduced;  // by round and shape
  std::deque<Awaited> awaited;
  std::deque<Shown> shown;        // the last kSumsShownMax
  std::map<NodeId, Shown> early;  // by reducer: its last, before the SumCheck came
  std::map<JobId, Job> jobs;

  void ForgetBelow(int64_t round) {
    sent.erase(sent.begin(), sent.lower_bound(round));
    reduced.erase(reduced.begin(), reduced.lower_bound({round, 0}));
  }
};

// What was summed, ordered by node: PartDigest of each participant's pieces.
std::vector<Participant> SummedOf(const StageWork::Reduction& reduction);

}  // namespace skerry
