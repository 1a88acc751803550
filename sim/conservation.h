// The law of outer rounds (localsgd/replica.h) as seen from outside a replica: what it has learnt
// is handed over exactly once.
//
// P = base − live + residual is the progress that no round has taken yet. A round takes what the
// replica's own accepted message decodes to, D, and nothing else: P_after = P_before − D, to
// rounding. A residual that is dropped, progress that is counted twice or overwritten, all break
// it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace skerry {

// Of one replica, [n] each; `residual` may be empty.
struct ReplicaVectors {
  std::vector<float> base, live, residual;
};

// The largest |P_after − (P_before − taken)|, in units of what rounding to float32 may do: up to 1
// is all right. `taken` [n]: D of the own message, zeros if it was not accepted.
double ConservationError(const ReplicaVectors& before, const ReplicaVectors& after,
                         std::span<const float> taken);

// The downlink's half: what a reducer has left over (localsgd/piece_reducer.h), by piece.
using LeftOverPieces = std::map<int32_t, std::vector<float>>;

// It changes by what is added, piece by piece, and by nothing else: the largest |after − (before +
// added)|, in units as above. A piece that is missing is zero; what is below `rounding` may be
// forgotten.
double LeftOverError(const LeftOverPieces& before, const LeftOverPieces& after,
                     const LeftOverPieces& added, double rounding);

}  // namespace skerry
