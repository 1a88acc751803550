// Reading the messages of outer rounds off the wire; part of Decode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// `e` is one of delta, deltaHeld, roundCommit, deltaSum, sumsHeld, roundApplied.
Message ReadRoundMessage(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload);

}  // namespace skerry
