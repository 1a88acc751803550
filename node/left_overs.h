// What a reducer hands on when others sum its pieces, or when it leaves (node_left_overs.cc).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "pipeline/exec/pieces.h"
#include "wire/actor.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct LeftOver {  // of a round's fragment, cut into `count` pieces
  int64_t round = 0;
  int32_t count = 0;
  std::vector<Piece> pieces;
};

struct LeftOvers {  // of a stage that this node leaves
  int32_t stage = -1;
  SharedPlan plan;  // in which it has no part any more
  std::vector<LeftOver> made;
};

struct Farewell {
  std::string reason;
  TimerId deadline = 0;
  bool is_handed_on = false;
  std::set<Digest> unheld;  // nobody has said yet that it holds those
};

}  // namespace skerry
