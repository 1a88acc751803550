// Reading and writing the messages that say how steps went; part of Decode and Encode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/codec/write_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// `e` is one of stepReport, stepTrace, standing.
Message ReadInsight(ReadChecks& checks, schema::Envelope::Reader e);

void WriteInsight(WriteChecks& checks, const StepTrace& trace, schema::StepTrace::Builder b);
void WriteInsight(WriteChecks& checks, const Standing& standing, schema::Standing::Builder b);

}  // namespace skerry
