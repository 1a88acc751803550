// How anybody follows what a reducer shows of its sums (docs/PROTOCOL.md, "A sum is checked";
// docs/decisions/0048-checked-sums.md).
//
// A sum is a function of what it was made of: the participants' messages, their weights, and what
// the reducer had left over before (piece_reducer.h). All of that is named by digests that were
// said before anybody knew which sums would be checked. What is shown are the bytes behind the
// digests; whoever follows them makes the sum again, bit for bit, and what is left over after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/bytes.h"
#include "localsgd/piece_reducer.h"
#include "wire/message/sum_message.h"

namespace skerry {

// So many of its last showings a reducer keeps, for whoever wants to see one again. The coordinator
// asks before that many further ones have been drawn.
inline constexpr size_t kSumsShownMax = 4;

// What follows from what was shown.
//
//   own    the pieces that the reducer sums, ascending
//   sums   what `shown.sums` is unpacked, by piece
//   fresh  a reducer of the same stage and fragment that has nothing left over
//
// Any bytes may be shown. Takes as long as to sum the drawn pieces twice.
SumVerdict CheckShownSum(const SumCheck& check, const std::vector<int32_t>& own,
                         const ShownSum& shown, const std::map<int32_t, Payload>& sums,
                         PieceReducer fresh);

}  // namespace skerry
