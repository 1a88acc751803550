// Reading who comes, who is here and who can be dialled off the wire; part of Decode (codec.h).
#pragma once

#include "wire/codec/read_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

Hello ReadHello(ReadChecks& checks, schema::Hello::Reader r);
Peers ReadPeers(ReadChecks& checks, schema::Peers::Reader r);
Reachability ReadReachability(ReadChecks& checks, schema::Reachability::Reader r);

}  // namespace skerry
