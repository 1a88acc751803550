// Reading and writing what members of a group say (wire/message/group_message.h); part of Decode
// and Encode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/codec/write_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// `e` is one of groupValues, groupSign, groupTrial, groupTried, cohortBroken.
Message ReadGroup(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload);

// Without its values.
void WriteGroup(WriteChecks& checks, const GroupValues& values, schema::GroupValues::Builder b);
void WriteGroup(WriteChecks& checks, const GroupSign& sign, schema::GroupSign::Builder b);
void WriteGroup(WriteChecks& checks, const GroupTrial& trial, schema::GroupTrial::Builder b);
void WriteGroup(WriteChecks& checks, const GroupTried& tried, schema::GroupTried::Builder b);
void WriteGroup(WriteChecks& checks, const CohortBroken& broken, schema::CohortBroken::Builder b);

}  // namespace skerry
