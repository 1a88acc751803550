#include "routing/line_sharing.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "routing/node_lines.h"

namespace skerry {

LineSharing::LineSharing(const Fleet& fleet, const NodeLines& lines,
                         std::vector<std::pair<int32_t, int32_t>> ways)
    : fleet_(fleet), lines_of_(lines), slots_of_way_(std::move(ways)) {}

LineSharing::Own LineSharing::OwnLine(End end, size_t pair, bool shares) {
  const auto [known, added] = own_.try_emplace(2 * pair + (end.sends ? 0 : 1));
  if (!added) return known->second;
  const auto link = [&](int32_t other) {
    return end.sends ? fleet_.Pair(end.node, other) : fleet_.Pair(other, end.node);
  };
  double line_s = (end.sends ? lines_of_.up_s : lines_of_.down_s)[pair];
  double latency_least = kLineReach * fleet_.latency_s[pair];
  double fastest_s = line_s;
  for (int32_t other = 0; other < fleet_.size(); ++other)
    if (other != end.node) fastest_s = std::min(fastest_s, fleet_.wire_s[link(other)]);
  if (shares) {  // a port of the switch that is behind the shared one
    latency_least = 0;
    line_s = fastest_s;
  }
  int32_t alike = 0;
  for (int32_t other = 0; other < fleet_.size(); ++other) {
    if (other == end.node || fleet_.latency_s[link(other)] < latency_least) continue;
    alike += fleet_.wire_s[link(other)] <= kAlike * line_s ? 1 : 0;
  }
  const bool is_shown = alike * kShownBy >= fleet_.size() - 1;
  return known->second = {is_shown ? line_s : 0, line_s > kFar * fastest_s};
}

void LineSharing::Cross(Way& way, int32_t line, double keeps_s) {
  if (keeps_s <= 0) return;
  way.lines[way.line_count] = line;
  way.keeps_s[way.line_count++] = keeps_s;
}

// The lines at one end of a way: the node's own, and the one that it shares.
void LineSharing::CrossAt(End end, int32_t slot, Way& way) {
  const int32_t side = end.sends ? 0 : 1;
  const int32_t line = fleet_.LineOf(end.node, end.other);
  const bool shares = line >= 0 && fleet_.line_s[static_cast<size_t>(line)] > 0;
  const Own own = OwnLine(end, way.pair, shares);
  const int32_t far = slots_ + static_cast<int32_t>(fleet_.line_s.size());
  Cross(way, 2 * (slot + (own.is_far ? far : 0)) + side, own.seconds);
  const double keeps_s = (end.sends ? lines_of_.up_s : lines_of_.down_s)[way.pair];
  // A near message that is so much faster than the line goes another way.
  if (!shares || fleet_.line_s[static_cast<size_t>(line)] > kFar * keeps_s) return;
  Cross(way, 2 * (slots_ + line) + side, keeps_s);
}

void LineSharing::Reset(const Placement& placement) {
  slots_ = static_cast<int32_t>(placement.size());
  ways_.assign(slots_of_way_.size(), {});
  senders_.assign(placement.size(), {});
  lines_.resize(2 * (2 * placement.size() + fleet_.line_s.size()));
  for (Line& line : lines_) line.ways.clear();
  messages_.clear();
  free_messages_.clear();
  leading_.clear();
  FindNext();
  for (size_t w = 0; w < ways_.size(); ++w) {
    const auto [from_slot, to_slot] = slots_of_way_[w];
    if (from_slot == to_slot) continue;
    const int32_t from = placement[static_cast<size_t>(from_slot)];
    const int32_t to = placement[static_cast<size_t>(to_slot)];
    Way& way = ways_[w];
    way.pair = fleet_.Pair(from, to);
    way.sender = from_slot;
    way.link_s = fleet_.wire_s[way.pair];
    CrossAt({from, to, true}, from_slot, way);
    CrossAt({to, from, false}, to_slot, way);
  }
}

void LineSharing::Send(double now, int32_t way, double share, uint32_t tag, bool yields) {
  if (free_messages_.empty()) {
    free_messages_.push_back(static_cast<int32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const int32_t message = free_messages_.back();
  free_messages_.pop_back();
  messages_[static_cast<size_t>(message)] = {share, tag, yields, -1};
  Way& w = At(way);
  if (w.first >= 0) {
    messages_[static_cast<size_t>(w.last)].next = message;
    w.last = message;
    return;
  }
  w.first = w.last = message;
  Lead(now, way);
  w.payload_s = kNever;
  leading_.push_back(way);
  for (size_t i = 0; i < w.line_count; ++i) LineAt(w.lines[i]).ways.push_back(way);
  Gather(way);
  Share(now);
}

// The first message of the way begins to leave.
void LineSharing::Lead(double now, int32_t way) {
  Way& w = At(way);
  const Message& message = messages_[static_cast<size_t>(w.first)];
  w.left = message.share;
  w.since = now;
  w.yields = message.yields;
  ++senders_[static_cast<size_t>(w.sender)].Of(w.yields);
}

LineSharing::Left LineSharing::Leave() {
  const double now = next_end_;
  const int32_t way = next_way_;
  SKERRY_CHECK(way >= 0, "a message is under way");
  Way& w = At(way);
  const int32_t message = w.first;
  const Left left{way, messages_[static_cast<size_t>(message)].tag};
  w.first = messages_[static_cast<size_t>(message)].next;
  free_messages_.push_back(message);
  const bool yielded = w.yields;
  --senders_[static_cast<size_t>(w.sender)].Of(yielded);
  if (w.first >= 0) {
    Lead(now, way);
    w.end = now + w.left * w.payload_s;  // as fast as the one before
    if (w.yields != yielded) {
      Gather(way);
      Share(now);
    }
    FindNext();
    return left;
  }
  Gather(way);
  for (size_t i = 0; i < w.line_count; ++i) std::erase(LineAt(w.lines[i]).ways, way);
  std::erase(leading_, way);
  std::erase(set_ways_, way);
  w.in_set = false;
  w.end = kNever;
  Share(now);
  return left;
}

bool LineSharing::MayBeFull(const Line& line) const {
  double most = 0;
  for (const int32_t number : line.ways) {
    const Way& way = ways_[static_cast<size_t>(number)];
    for (size_t i = 0; i < way.line_count; ++i) {
      if (&lines_[static_cast<size_t>(way.lines[i])] == &line) most += way.keeps_s[i] / way.link_s;
    }
  }
  return most > 1;
}

void LineSharing::Join(int32_t way) {
  if (!std::exchange(At(way).in_set, true)) set_ways_.push_back(way);
}

// The ways, and the lines that may be full, whom a change of this way reaches: those of its sender
// that yield, too, as their weights may change.
void LineSharing::Gather(int32_t way) {
  set_ways_.clear();
  set_lines_.clear();
  Join(way);
  if (senders_[static_cast<size_t>(At(way).sender)].yielding > 0) {
    for (const int32_t other : leading_)
      if (At(other).yields && At(other).sender == At(way).sender) Join(other);
  }
  for (size_t next = 0; next < set_ways_.size(); ++next) {
    const Way& w = At(set_ways_[next]);
    for (size_t i = 0; i < w.line_count; ++i) {
      Line& line = LineAt(w.lines[i]);
      if (line.in_set || !MayBeFull(line)) continue;
      line.in_set = true;
      set_lines_.push_back(w.lines[i]);
      for (const int32_t other : line.ways) Join(other);
    }
  }
}

void LineSharing::Share(double now) {
  next_s_.resize(ways_.size());
  Fill();
  for (const int32_t way : set_ways_) {
    Way& w = At(way);
    w.in_set = w.frozen = false;
    const double payload_s = next_s_[static_cast<size_t>(way)];
    if (payload_s == w.payload_s) continue;
    if (now > w.since) w.left = std::max(0.0, w.left - (now - w.since) / w.payload_s);
    w.since = now;
    w.payload_s = payload_s;
    w.end = now + w.left * payload_s;
  }
  for (const int32_t line : set_lines_) LineAt(line).in_set = false;
  FindNext();
}

void LineSharing::Freeze(int32_t way, double payload_s) {
  Way& w = At(way);
  w.frozen = true;
  next_s_[static_cast<size_t>(way)] = payload_s;
  for (size_t i = 0; i < w.line_count; ++i) {
    Line& line = LineAt(w.lines[i]);
    if (!line.in_set) continue;
    --line.active;
    line.left -= w.keeps_s[i] / payload_s;
    line.keeps -= w.weight * w.keeps_s[i];
  }
}

// The slowest first: what its link holds back, or all that a full line does.
void LineSharing::Fill() {
  for (const int32_t number : set_lines_) {
    Line& line = LineAt(number);
    line.left = 1;
    line.keeps = 0;
    line.active = static_cast<int32_t>(line.ways.size());
  }
  for (const int32_t way : set_ways_) {
    Way& w = At(way);
    const Sender& sender = senders_[static_cast<size_t>(w.sender)];
    w.weight = w.yields && sender.urgent > 0 ? kYieldingShare / sender.yielding : 1;
    for (size_t i = 0; i < w.line_count; ++i) {
      if (LineAt(w.lines[i]).in_set) LineAt(w.lines[i]).keeps += w.weight * w.keeps_s[i];
    }
  }
  // The level, of seconds for weight 1, at which its link holds a way back.
  const auto link_level = [&](int32_t way) { return At(way).weight * At(way).link_s; };
  by_link_ = set_ways_;
  std::stable_sort(by_link_.begin(), by_link_.end(),
                   [&](int32_t a, int32_t b) { return link_level(a) > link_level(b); });
  size_t next = 0;
  double level = kNever;  // rounding must not make it rise
  while (true) {
    while (next < by_link_.size() && At(by_link_[next]).frozen) ++next;
    if (next == by_link_.size()) return;
    double slowest = 0;
    int32_t fullest = -1;
    for (const int32_t number : set_lines_) {
      const Line& line = LineAt(number);
      if (line.active == 0) continue;
      const double line_s = line.left > 0 ? line.keeps / line.left : kNever;
      if (line_s > slowest) slowest = line_s, fullest = number;
    }
    level = std::min(level, std::max(slowest, link_level(by_link_[next])));
    if (fullest < 0 || link_level(by_link_[next]) >= slowest) {
      Freeze(by_link_[next], At(by_link_[next]).link_s);
      continue;
    }
    for (const int32_t way : LineAt(fullest).ways) {
      if (!At(way).frozen) Freeze(way, std::max(level / At(way).weight, At(way).link_s));
    }
  }
}

void LineSharing::FindNext() {
  next_end_ = kNever;
  next_way_ = -1;
  for (const int32_t way : leading_) {
    if (At(way).end < next_end_) next_end_ = At(way).end, next_way_ = way;
  }
}

}  // namespace skerry
