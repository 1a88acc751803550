// Which nodes leave through one line: the machines of a home or a laboratory behind one uplink.
//
// Readings of links cannot tell, as each is made while the others are silent. So nodes that may
// share a line send to far ones, each alone and then all at once, the same bytes the same way: who
// carries less than kAlone of what it carried alone shares with the others of whom that is true.
// What else slows a transfer (a window that opens, a busy machine) slows both. Measured is what the
// way carries, so where all targets are behind one line that counts as the members' own.
//
// Nor can they tell a node whose line is as fast as one of its links from one that carries as much
// to several at once, where TCP's windows or a provider's caps hold each flow back. Who speaks for
// a room in outer rounds sends to all other rooms at once, so of each group one sends alone to a
// node of each other group: together they carry what its own line does, at least.
//
// Pure. Bounds: kLineMembersMax per test.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/ids.h"
#include "routing/topology.h"

namespace skerry {

// members[i] sends to targets[i], a way that was read as rates[i], bytes/s; of one member it sends
// to all of them. Members ascending, targets all different and no members.
struct LineTest {
  std::vector<NodeId> members;
  std::vector<NodeId> targets;
  std::vector<double> rates;
  bool FansOut() const { return members.size() == 1; }
  const NodeId& SenderTo(size_t target) const { return members[FansOut() ? 0 : target]; }
  bool operator==(const LineTest&) const = default;
};

// What members[i] carried, bytes/s. One member: to the target that it was read to reach fastest,
// and to all at once.
struct LineFinding {
  std::vector<NodeId> members;  // ascending
  std::vector<double> alone;
  std::vector<double> together;

  static constexpr double kAlone = 0.75;  // two that share a line carry half

  bool IsWhole() const;  // as many of each, finite and positive
  bool FansOut() const { return members.size() == 1; }
  // Of members: those who share one line; empty: all have lines of their own.
  std::vector<size_t> Sharing() const;
  // That the sharing carry together, and no less than most of them alone; 0: nobody shares. Of one
  // member what it carries to several.
  double bytes_per_s() const;
  bool operator==(const LineFinding&) const = default;
};

inline constexpr size_t kLineMembersMax = 8;
// Seen at one public address, which is one router; by radio a home is no nearer than that.
inline constexpr double kOneRouterRttS = 0.030;
inline constexpr double kOneNetworkRttS = 0.001;
// A transfer lasts so long on a line of one's own, within these bounds: long beside what machines
// do with a message, and beside the differences of when a request comes.
inline constexpr double kLineTransferS = 0.5;
inline constexpr int64_t kLineBytesMin = 64 << 10, kLineBytesMax = 6 << 20;
int64_t LineBytes(double bytes_per_s);

// Of each group of nodes that may share a line: those seen at one address (`addresses`, as far as
// known), of the others those of one local network, of what is left those nearer to each other than
// LinkEstimator::kRttFloor; step by step. The targets are those that each reaches fastest, of
// different groups where that costs nothing: who is sent to slowly shares nothing. No two of those
// that are known to share a line, if others are not far slower. Large groups first, for that.
// None for a group that has no two members with targets. If it `fans_out`, after all of them: of
// each group, if there are three or more, one that is not known to share a line to one of each
// other group, the fastest of them.
std::vector<LineTest> LineTestsOf(const LinkMatrix& links,
                                  const std::map<NodeId, std::string>& addresses,
                                  bool fans_out = false);

// Tells the matrix what was found (LinkMatrix::LineOf); of a node of several findings the last
// counts. What one carries to several at once is taken to be what those near it (kRttFloor) do
// that were found to have lines of their own.
void SetLines(const std::vector<LineFinding>& findings, LinkMatrix* links);

}  // namespace skerry
