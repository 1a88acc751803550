// Placements that keep the replicas of a stage in few rooms, and the move that leads from one of
// them to another: where cohorts count (stage_traffic.h), exchanges of two nodes find these hardly,
// since each of them alone parts a cohort.
//
// A room is nodes that are all near each other. Rooms near each other make groups, of every number
// from one to as many as there are rooms; each group holds its part of every stage, and inside a
// group a stage is in as few rooms as can be. So with one group pipelines cross between rooms and
// few speak, with as many groups as rooms pipelines stay inside, and between these pipelines cross
// inside a continent, say, and deltas between continents.
#pragma once

#include <cstdint>
#include <vector>

#include "common/rng.h"
#include "routing/placement.h"

namespace skerry {

// At most `most`, one of each number of groups first, then with rooms in another order. None where
// nobody is near. All fit the memory, and hold the nodes of `start`.
std::vector<Placement> RoomPlacements(const PlacementProblem& problem, const Placement& start,
                                      uint64_t seed, size_t most);

// Rooms of the nodes of a placement.
class Rooms {
 public:
  Rooms(const PlacementProblem& problem, const Placement& placement);
  bool Any() const { return rooms_ > 1; }  // there are some to exchange
  // What a stage has in a room for what another has in another, both drawn; as many nodes as the
  // smaller part has. False: the two drawn were of one stage or room, and nothing has changed.
  bool Exchange(Rng& rng, Placement& placement) const;

 private:
  int32_t RoomAt(const Placement& placement, size_t slot) const {
    return room_of_[static_cast<size_t>(placement[slot])];
  }
  const Workload& workload_;
  std::vector<int32_t> room_of_;  // [nodes]
  int32_t rooms_ = 0;
};

}  // namespace skerry
