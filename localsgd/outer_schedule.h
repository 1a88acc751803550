// When a replica does what: the boundaries and landings of every fragment, as a pure function of
// the inner steps done. The same on all replicas, so nobody has to announce a boundary.
//
// Fragment f of P has its boundaries after inner steps τ·(f + 1)/P + k·τ, k = 0, 1, …; the commit
// of round k lands δ steps later. P = 1: boundaries after τ, 2τ, ….
//
//   overlap, δ = 1, τ = 4, P = 1          step  1  2  3  4  5  6  7  8  9
//                                                      E  A           E  A
//   streaming, the same, P = 2      f 0            E  A        E  A
//                                   f 1                E  A           E  A
//   co2 (δ = τ)                                        E,R         E,A      A at the end
//
// Within a step: what lands goes before what is encoded, as a message must contain what landed; in
// co2 the message first, against the base its round began from.
#pragma once

#include <cstdint>
#include <vector>

#include "localsgd/outer_law.h"

namespace skerry {

struct OuterAction {
  enum class Kind : uint8_t {
    kEncode,   // OuterReplica::Encode, send the message
    kApply,    // wait for the commit of `round`, OuterReplica::Apply
    kRestart,  // OuterReplica::Restart (co2, the first boundary)
  };
  Kind kind = Kind::kEncode;
  int32_t fragment = 0;
  int64_t round = 0;  // of this fragment, from 0
  bool operator==(const OuterAction&) const = default;
};

// An immutable value.
class OuterSchedule {
 public:
  explicit OuterSchedule(const OuterLaw& law);

  // What to do between inner step `steps_done` and the next, in order; steps_done ≥ 1.
  std::vector<OuterAction> After(int64_t steps_done) const;

  // What is still to do when training ends after `steps_done`, in order, so that all progress is in
  // the bases: what is in flight lands, and fragments with unsent steps have a last round.
  std::vector<OuterAction> AtEnd(int64_t steps_done) const;

 private:
  int64_t FirstBoundary(int32_t fragment) const {
    return inner_steps_ * (fragment + 1) / fragments_;
  }
  // The round whose boundary, `ago` steps ago, was exactly there; −1: none.
  int64_t RoundAt(int32_t fragment, int64_t steps) const;

  int64_t inner_steps_, overlap_steps_;
  int32_t fragments_;
  bool restart_;
};

}  // namespace skerry
