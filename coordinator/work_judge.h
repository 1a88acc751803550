// What replicas found who computed each other's microbatches again, and whose work that condemns.
//
// Replicas drift apart from one round's end to the next, from nearly nothing to more than what the
// stage adds, so a distance (pipeline/exec/work_distance.h) says little by itself. A checker
// computes visits of several replicas of one step, and each of its findings is held to the others
// of that step: its own drift, and its lies, are in all of them alike. Nobody is condemned by one
// checker, nor by one neighbour on the path, whose word moves a mean of nine only so far.
//
// Pure and not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace skerry {

class WorkJudge {
 public:
  static constexpr size_t kFindings = 9;     // of a suspect by one checker: the last
  static constexpr size_t kFindingsMin = 3;  // before they are an opinion
  static constexpr size_t kTogether = 12;    // of all checkers, before anybody is put out
  static constexpr double kTimes = 1.8;      // what it finds of others, it may find of one
  static constexpr double kLeast = 0.1;      // less is never held against anybody
  static constexpr double kMost = 0.7;       // others further off: nothing can be said
  static constexpr double kFraming = 4;      // a finding counts for at most so many times
  // Of the only other replica, with which no third can be compared, in every one of its findings:
  // who passes on what came is at 1.
  static constexpr double kAlone = 0.9;

  static constexpr char kVerdict[] =
      "replicas of its stage make something else of its microbatches";

  struct Found {
    NodeId suspect;
    double forward = 0, backward = 0;
  };
  // Of one checker and one step. One finding alone counts where there are two replicas only.
  void Note(const NodeId& checker, const std::vector<Found>& comparison);
  void Forget(const NodeId& node);  // it is another's, or has another stage
  int64_t ChecksOf(const NodeId& suspect) const;

  struct Opinion {
    double times = 0;  // what is found of others, geometric mean
    double off = 0;    // as a share of what the stage adds, geometric mean
    size_t findings = 0;
    bool doubts = false;
  };
  // `replicas`: how many of the stage are live. nullopt: too few findings.
  std::optional<Opinion> OpinionOf(const NodeId& checker, const NodeId& suspect,
                                   size_t replicas) const;
  // Two checkers, most of those that have an opinion, and all their findings together doubt its
  // work: why, for people.
  std::optional<std::string> WhyOut(const NodeId& suspect,
                                    const std::vector<NodeId>& replicas) const;

 private:
  struct Finding {
    double log_times = 0, log_off = 0;
  };
  struct Findings {
    std::deque<Finding> forward, backward;  // beside others
    std::deque<Finding> ahead_alone, back_alone;
  };
  std::map<NodeId, std::map<NodeId, Findings>> found_;  // checker → suspect
  std::map<NodeId, int64_t> checks_;                    // of a suspect
};

}  // namespace skerry
