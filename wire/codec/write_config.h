// The configuration of a run, written (Welcome).
#pragma once

#include "common/run_config.h"
#include "wire/codec/write_checks.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

void WriteConfig(WriteChecks& checks, const RunConfig& c, schema::RunConfig::Builder b);

}  // namespace skerry
