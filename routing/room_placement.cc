#include "routing/room_placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace skerry {
namespace {

constexpr size_t kGroupsMax = 12;

using Nodes = std::vector<int32_t>;

// Those of the placement, the largest first; nodes of a room in the order of their slots, which has
// the fast ones first.
std::vector<Nodes> RoomsOf(const PlacementProblem& problem, const Placement& placement) {
  const std::vector<int32_t> numbers = CohortNumbers(placement.size(), [&](size_t a, size_t b) {
    return problem.near.Are(problem.fleet, placement[a], placement[b]);
  });
  std::vector<Nodes> rooms;
  for (size_t slot = 0; slot < placement.size(); ++slot) {
    const auto room = static_cast<size_t>(numbers[slot]);
    if (room == rooms.size()) rooms.emplace_back();
    rooms[room].push_back(placement[slot]);
  }
  std::stable_sort(rooms.begin(), rooms.end(),
                   [](const Nodes& a, const Nodes& b) { return a.size() > b.size(); });
  return rooms;
}

double Between(const Fleet& fleet, const Nodes& a, const Nodes& b) {
  const double there = fleet.latency_s[fleet.Pair(a.front(), b.front())];
  return there + fleet.latency_s[fleet.Pair(b.front(), a.front())];
}

// Indices of rooms; the two groups that are nearest, by their farthest rooms, become one until
// there are `count`.
using Groups = std::vector<std::vector<size_t>>;
Groups GroupsOf(const Fleet& fleet, const std::vector<Nodes>& rooms, size_t count) {
  Groups groups;
  for (size_t room = 0; room < rooms.size(); ++room) groups.push_back({room});
  while (groups.size() > count) {
    double nearest = std::numeric_limits<double>::infinity();
    std::pair<size_t, size_t> pair = {0, 1};
    for (size_t a = 0; a < groups.size(); ++a) {
      for (size_t b = a + 1; b < groups.size(); ++b) {
        double farthest = 0;
        for (const size_t i : groups[a]) {
          for (const size_t j : groups[b])
            farthest = std::max(farthest, Between(fleet, rooms[i], rooms[j]));
        }
        if (farthest < nearest) nearest = farthest, pair = {a, b};
      }
    }
    auto& [into, from] = pair;
    groups[into].insert(groups[into].end(), groups[from].begin(), groups[from].end());
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(from));
  }
  return groups;
}

// [stage][group] replicas: of every stage a group's part by its nodes, whole ones.
std::vector<std::vector<size_t>> SharesOf(const std::vector<size_t>& stages,
                                          const std::vector<size_t>& group_nodes) {
  const auto all = static_cast<double>(std::accumulate(stages.begin(), stages.end(), size_t{0}));
  std::vector<std::vector<size_t>> shares;
  std::vector<size_t> used(group_nodes.size());
  size_t until = 0;
  for (const size_t replicas : stages) {
    until += replicas;
    std::vector<size_t>& of_groups = shares.emplace_back(group_nodes.size());
    for (size_t r = 0; r < replicas; ++r) {
      // To whom most is due; never more than it has, as then nothing is.
      size_t next = 0;
      double most = -std::numeric_limits<double>::infinity();
      for (size_t g = 0; g < group_nodes.size(); ++g) {
        const double due = static_cast<double>(group_nodes[g]) * static_cast<double>(until) / all -
                           static_cast<double>(used[g]);
        if (used[g] < group_nodes[g] && due > most) most = due, next = g;
      }
      ++used[next];
      ++of_groups[next];
    }
  }
  return shares;
}

// The nodes of rooms dealt to stages, each from as few rooms as can be: one that has just as many,
// else the smallest that has enough, else the largest. Rooms and stages that come first go first.
std::vector<Nodes> Deal(std::vector<Nodes> rooms, const std::vector<size_t>& order,
                        const std::vector<size_t>& wanted) {
  std::vector<Nodes> dealt(wanted.size());
  const auto wants = [&](size_t stage) { return wanted[stage] - dealt[stage].size(); };
  const auto give = [&](Nodes& room, size_t stage) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(room.size(), wants(stage)));
    dealt[stage].insert(dealt[stage].end(), room.begin(), room.begin() + count);
    room.erase(room.begin(), room.begin() + count);
  };
  for (const size_t stage : order) {
    const auto same = std::find_if(rooms.begin(), rooms.end(),
                                   [&](const Nodes& room) { return room.size() == wants(stage); });
    if (same != rooms.end()) give(*same, stage);
  }
  for (;;) {
    size_t stage = order.front();
    for (const size_t other : order) {
      if (wants(other) > wants(stage)) stage = other;
    }
    if (wants(stage) == 0) return dealt;
    const auto worth = [&](const Nodes& room) {  // less is better
      const bool is_enough = room.size() >= wants(stage);
      if (room.empty()) return std::pair(2, size_t{0});
      return is_enough ? std::pair(0, room.size()) : std::pair(1, ~room.size());
    };
    give(*std::min_element(rooms.begin(), rooms.end(),
                           [&](const Nodes& a, const Nodes& b) { return worth(a) < worth(b); }),
         stage);
  }
}

template <typename T>
void Shuffle(Rng& rng, std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng.Below(i)]);
}

class ByRooms {
 public:
  ByRooms(const PlacementProblem& problem, const Placement& start)
      : problem_(problem), rooms_(RoomsOf(problem, start)) {
    for (const auto& slots : SlotsByStage(problem.workload)) stages_.push_back(slots.size());
  }

  size_t rooms() const { return rooms_.size(); }

  // `rng` nullptr: rooms and stages in their own order.
  Placement In(size_t groups, Rng* rng) const {
    Groups grouped = GroupsOf(problem_.fleet, rooms_, groups);
    if (rng != nullptr) Shuffle(*rng, grouped);
    std::vector<size_t> group_nodes;
    for (const auto& group : grouped) {
      size_t nodes = 0;
      for (const size_t room : group) nodes += rooms_[room].size();
      group_nodes.push_back(nodes);
    }
    const auto shares = SharesOf(stages_, group_nodes);
    std::vector<Nodes> stages(stages_.size());
    for (size_t g = 0; g < grouped.size(); ++g) {
      std::vector<Nodes> rooms;
      for (const size_t room : grouped[g]) rooms.push_back(rooms_[room]);
      std::vector<size_t> order(stages_.size()), wanted;
      std::iota(order.begin(), order.end(), size_t{0});
      if (rng != nullptr) Shuffle(*rng, rooms), Shuffle(*rng, order);
      for (const auto& of_groups : shares) wanted.push_back(of_groups[g]);
      const std::vector<Nodes> dealt = Deal(std::move(rooms), order, wanted);
      for (size_t s = 0; s < stages.size(); ++s)
        stages[s].insert(stages[s].end(), dealt[s].begin(), dealt[s].end());
    }
    Placement placement;
    for (const Nodes& nodes : stages) placement.insert(placement.end(), nodes.begin(), nodes.end());
    return placement;
  }

 private:
  const PlacementProblem& problem_;
  std::vector<Nodes> rooms_;
  std::vector<size_t> stages_;  // replicas
};

}  // namespace

std::vector<Placement> RoomPlacements(const PlacementProblem& problem, const Placement& start,
                                      uint64_t seed, size_t most) {
  std::vector<Placement> placements;
  if (!problem.near.IsOn()) return placements;
  const ByRooms by_rooms(problem, start);
  if (by_rooms.rooms() < 2 || by_rooms.rooms() == start.size()) return placements;
  Rng rng(seed, "room placement");
  const size_t groups_max = std::min(by_rooms.rooms(), kGroupsMax);
  for (size_t i = 0; i < most; ++i) {
    const size_t groups = 1 + i % groups_max;
    const Placement next = by_rooms.In(groups, i < groups_max ? nullptr : &rng);
    const bool is_known = std::find(placements.begin(), placements.end(), next) != placements.end();
    if (!is_known && Fits(problem, next)) placements.push_back(next);
  }
  return placements;
}

Rooms::Rooms(const PlacementProblem& problem, const Placement& placement)
    : workload_(problem.workload), room_of_(static_cast<size_t>(problem.fleet.size())) {
  if (!problem.near.IsOn()) return;
  const std::vector<Nodes> rooms = RoomsOf(problem, placement);
  if (rooms.size() == placement.size()) return;
  rooms_ = static_cast<int32_t>(rooms.size());
  for (size_t room = 0; room < rooms.size(); ++room) {
    for (const int32_t node : rooms[room])
      room_of_[static_cast<size_t>(node)] = static_cast<int32_t>(room);
  }
}

bool Rooms::Exchange(Rng& rng, Placement& placement) const {
  const auto one = static_cast<size_t>(rng.Below(placement.size()));
  const auto other = static_cast<size_t>(rng.Below(placement.size()));
  const auto stage_at = [&](size_t slot) { return workload_.stage_of_slot[slot]; };
  const int32_t room = RoomAt(placement, one), other_room = RoomAt(placement, other);
  if (stage_at(one) == stage_at(other) || room == other_room) return false;
  std::vector<size_t> ours, theirs;
  for (size_t slot = 0; slot < placement.size(); ++slot) {
    if (stage_at(slot) == stage_at(one) && RoomAt(placement, slot) == room) ours.push_back(slot);
    if (stage_at(slot) == stage_at(other) && RoomAt(placement, slot) == other_room)
      theirs.push_back(slot);
  }
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    std::swap(placement[ours[i]], placement[theirs[i]]);
  return true;
}

}  // namespace skerry
