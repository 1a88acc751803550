// Reading who comes, who is here and who can be dialled off the wire; part of Decode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

// `e` is one of hello, peers, reachability, refused.
Message ReadJoining(ReadChecks& checks, schema::Envelope::Reader e);

}  // namespace skerry
