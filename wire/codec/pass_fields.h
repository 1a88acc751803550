// Reading and writing what belongs to passes of microbatches: hops, voids, who is late, checks of
// the work; part of Decode and Encode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/codec/write_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// `e` is one of activation, gradient, microbatchVoid, voidList, hopLate, detour, workCheck,
// workCopy, workChecked, boundarySizes.
Message ReadPass(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload);

void WritePass(WriteChecks& checks, const Detour& detour, schema::Detour::Builder b);
void WritePass(WriteChecks& checks, const VoidList& list, schema::VoidList::Builder b);
void WritePass(WriteChecks& checks, const WorkCheck& check, schema::WorkCheck::Builder b);
// Without its values.
void WritePass(WriteChecks& checks, const WorkCopy& copy, schema::WorkCopy::Builder b);
void WritePass(WriteChecks& checks, const WorkChecked& checked, schema::WorkChecked::Builder b);
void WritePass(WriteChecks& checks, const BoundarySizes& statistics,
               schema::BoundarySizes::Builder b);

}  // namespace skerry
