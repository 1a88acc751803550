// Messages under way that share lines as TCP's do: in equal parts, max-min fair.
//
// A way leads from a slot to another and carries its messages one after another. Those that lead on
// their ways are under way at once; each crosses the sender's line, the receiver's, and where its
// ends are behind shared ones (Fleet::line_of) those, too, and none is faster than its link. Rates
// are filled up together until a line is full or a link's own rate is reached (Bertsekas and
// Gallager, Data Networks, section 6.5.2). With s_f seconds for a whole payload of message f, and
// a_fl seconds for which that would keep line l alone:
//
//   s_f ≥ its link's own      Σ_f a_fl / s_f ≤ 1 of every line
//
// and whoever is slower than its link crosses a full line on which nobody is slower than it. So two
// equal messages over one line both take 2 a, and one that meets nobody what its link says, to the
// bit. A change is worked out anew only among those that it reaches over lines that may be full.
//
// Deltas of a round (`yields`) have together weight 1/16 while their sender has another message
// under way: the transport lets them give way (wire/transport/sender_line.h). With weight w a
// message's s_f is what others' would be, divided by w.
//
// A node's line is as fast as its fastest reading (node_lines.h), which says how fast it is at
// least. It is believed to be in the way only where enough links read alike: windows of TCP and
// providers' caps make every link slow by itself, and of such nodes nobody knows the line. What is
// far slower to far nodes than to near ones is full elsewhere than at the node's port, or is
// another line than what a house carries inside: neither is in the way of messages to near nodes.
//
// Pure: depends on the order of calls only. Not thread-safe. A change costs the messages that it
// reaches times their lines: 0.1 to 0.7 µs for each task of the evaluator with 8 to 1,000 nodes.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "routing/evaluator.h"

namespace skerry {

// Owns scratch memory.
class LineSharing {
 public:
  // `ways`: slots from, to. References are kept.
  LineSharing(const Fleet& fleet, const NodeLines& lines,
              std::vector<std::pair<int32_t, int32_t>> ways);

  // From now on nodes are so placed, and nothing is under way. A line's seconds must not have
  // changed since the first call.
  void Reset(const Placement& placement);

  // Hands over `share` > 0 of a boundary payload; `tag` is what Leave gives back. Times do not
  // decrease, and are not beyond NextEnd(). `yields`: to what its sender has else.
  void Send(double now, int32_t way, double share, uint32_t tag, bool yields = false);

  // When the next message has left its sender; infinite: none is under way.
  double NextEnd() const { return next_end_; }
  // That message: its way and tag. Of those that end together the one whose way has led first.
  struct Left {
    int32_t way = 0;
    uint32_t tag = 0;
  };
  Left Leave();

  size_t PairOf(int32_t way) const { return ways_[static_cast<size_t>(way)].pair; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr size_t kLinesPerWayMax = 4;
  // What shows a line: of so many links of its node one at least takes at most so many times as
  // long as the fastest.
  static constexpr double kAlike = 1.5;
  static constexpr int32_t kShownBy = 4;
  // A line that takes so many times as long as the node's fastest link is another.
  static constexpr double kFar = 2;
  static constexpr double kYieldingShare = 1.0 / 16;  // as the simulator has it

  struct Message {
    double share = 0;
    uint32_t tag = 0;
    bool yields = false;
    int32_t next = -1;  // on its way
  };
  struct Way {
    std::array<int32_t, kLinesPerWayMax> lines{};
    std::array<double, kLinesPerWayMax> keeps_s{};  // a
    size_t line_count = 0;
    size_t pair = 0;  // of nodes
    int32_t sender = 0;
    double link_s = 0;
    int32_t first = -1, last = -1;  // of messages_
    double left = 0;                // of the first, as of `since`
    double since = 0;
    double payload_s = 0;  // s
    double end = kNever;
    bool yields = false;  // its first message
    double weight = 1;
    bool in_set = false;
    bool frozen = false;
  };
  struct Line {
    std::vector<int32_t> ways;  // with a message under way, in the order in which they led
    bool in_set = false;
    double left = 0;     // while filling: 1 − what the frozen keep
    double keeps = 0;    // w · a of those that are not
    int32_t active = 0;  // how many those are
  };

  // Of a sender's ways with a message, those whose first yields, and others.
  struct Sender {
    int32_t urgent = 0, yielding = 0;
    int32_t& Of(bool yields) { return yields ? yielding : urgent; }
  };

  // One end of a way: the node and whom it sends to or gets from.
  struct End {
    int32_t node = 0;
    int32_t other = 0;
    bool sends = false;
  };
  // What a payload keeps the node's own line, or another, which far messages take; 0 seconds: no
  // readings show one that is in the way.
  struct Own {
    double seconds = 0;
    bool is_far = false;
  };
  Own OwnLine(End end, size_t pair, bool shares);
  void CrossAt(End end, int32_t slot, Way& way);
  Way& At(int32_t way) { return ways_[static_cast<size_t>(way)]; }
  Line& LineAt(int32_t line) { return lines_[static_cast<size_t>(line)]; }
  void Cross(Way& way, int32_t line, double keeps_s);
  void Lead(double now, int32_t way);
  void Join(int32_t way);
  void Gather(int32_t way);
  bool MayBeFull(const Line& line) const;
  void Share(double now);
  void Fill();
  void Freeze(int32_t way, double payload_s);
  void FindNext();

  const Fleet& fleet_;
  const NodeLines& lines_of_;
  const std::vector<std::pair<int32_t, int32_t>> slots_of_way_;
  std::unordered_map<size_t, Own> own_;  // of a pair's two ends; looked up, never iterated
  int32_t slots_ = 0;
  std::vector<Way> ways_;
  std::vector<Line> lines_;  // of slots, shared ones, of slots to far nodes: each out and in
  std::vector<Message> messages_;
  std::vector<int32_t> free_messages_;
  std::vector<int32_t> leading_;  // ways with a message, in the order in which they led
  std::vector<Sender> senders_;   // by slot
  std::vector<int32_t> set_ways_, set_lines_;  // that a change reaches
  std::vector<int32_t> by_link_;               // those, slowest links first
  std::vector<double> next_s_;                 // [ways]
  double next_end_ = kNever;
  int32_t next_way_ = -1;
};

}  // namespace skerry
