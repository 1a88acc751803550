// Runs the tests of who shares a line (routing/access_lines.h): which transfers are to be asked for
// now, and what came of them.
//
// A test is all together, then, if somebody carried less than its links promise, each alone and all
// together once more: the first transfers found windows closed, or were slow for another reason. Of
// one node that sends to several nobody asks how much each way carries alone.
// One test at a time, as targets may share lines, too. A transfer that is not answered ends its
// test without a finding, and the test is not made again; nor, of one that sends to several, are
// the others of that kind, which come last.
//
// Pure: no clock, no messages. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "routing/access_lines.h"

namespace skerry {

class LineTesting {
 public:
  static constexpr Duration kPatience = Duration::Seconds(10);
  // A fleet of more houses than fit into this goes on without knowing of the rest.
  static constexpr Duration kLongest = Duration::Seconds(30);
  static constexpr Duration kSoon = Duration::Seconds(60);

  struct Transfer {
    NodeId from, target;
    int64_t bytes = 0;
    bool operator==(const Transfer&) const = default;
  };

  // All that these links, and at which address nodes were seen, give cause to test, but what has
  // been begun before. Who is found to share a line is a worse target from then on. Only when the
  // last tests are over, and for other nodes: an estimate of the links of a thousand takes a
  // second, and in a large fleet somebody always comes or goes. What begins soon after others are
  // over has the time that they left. `fans_out`: as LineTestsOf.
  void Begin(LinkMatrix links, std::map<NodeId, std::string> addresses, Instant now,
             bool fans_out = false);
  bool HasBegun(const std::vector<NodeId>& nodes) const { return nodes == nodes_; }
  // These tests, in this order, as Begin makes them.
  void Set(const std::vector<LineTest>& tests, Instant now);
  bool IsOver() const { return tests_.empty(); }
  // This house is tested, an earlier life has found it.
  void NoteFound(const LineFinding& finding) { begun_.insert(finding.members); }
  // To ask for now: the next of those that were added.
  std::vector<Transfer> Next(Instant now);
  // True: this was asked for. What is found once all of a test are answered waits in TakeFinding.
  bool Answered(const NodeId& from, const NodeId& target, double bytes_per_s);
  std::optional<LineFinding> TakeFinding();

 private:
  enum class Part { kFirst, kAlone, kAgain };
  bool IsBetweenTests() const { return awaited_.empty() && part_ == Part::kFirst; }
  std::vector<Transfer> Ask(size_t first, size_t last, Instant now);
  bool IsSlow() const;
  LineFinding Finding() const;
  void EndTest();

  bool fans_out_ = false;
  std::vector<NodeId> nodes_;
  std::optional<LinkMatrix> links_;  // with the lines found so far; while there are tests
  std::map<NodeId, std::string> addresses_;
  std::deque<LineTest> tests_;  // the first one is under way, or next
  std::set<std::vector<NodeId>> begun_;
  Part part_ = Part::kFirst;
  size_t alone_ = 0;          // the member that is, in kAlone
  std::set<size_t> awaited_;  // numbers of targets
  Instant asked_;
  std::optional<Instant> began_;                      // the first of those that there is time for
  std::vector<double> alone_rates_, together_rates_;  // by target
  std::optional<LineFinding> found_;
};

}  // namespace skerry
