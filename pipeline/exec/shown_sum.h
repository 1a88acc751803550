// The payload of SumShown: what a reducer shows of its sums, as pieces numbered from 0 on
// (pipeline/exec/pieces.h):
//
//   sums · the parts of P participants · for each drawn piece: left-over, P messages
//
// A replica that checks has the sums already: to it they are sent empty.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "wire/message/sum_message.h"

namespace skerry {

Payload PackShown(const ShownSum& shown);

// Total: any bytes give what can be looked at, or an error. InvalidArgument: it is not of so many
// participants and pieces.
absl::StatusOr<ShownSum> UnpackShown(const Payload& packed, size_t participants, size_t drawn);

// The same with these sums, for who has not heard them as a replica of the stage has. What cannot
// be unpacked is returned as it is.
Payload WithSums(const Payload& packed, size_t participants, size_t drawn, const Payload& sums);

// Its sums by piece; those that cannot be unpacked are not there.
std::map<int32_t, Payload> SumsOf(const ShownSum& shown);

}  // namespace skerry
