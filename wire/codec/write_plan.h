// Parts of messages, written: a stage of a plan (PlanUpdate), a device (Hello).
#pragma once

#include "wire/codec/write_checks.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

void WriteStage(WriteChecks& checks, const StageAssignment& stage,
                schema::StageAssignment::Builder b);

void WriteDevice(WriteChecks& checks, const DeviceProfile& device,
                 schema::DeviceProfile::Builder b);

void WriteSettings(const PlannedSettings& s, schema::Settings::Builder b);

}  // namespace skerry
