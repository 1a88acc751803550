// Reading and writing what checks of sums say (wire/message/sum_message.h); part of Decode and
// Encode (codec.h).
#pragma once

#include <vector>

#include "wire/codec/read_checks.h"
#include "wire/codec/write_checks.h"
#include "wire/message/message.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

std::vector<Participant> ReadParticipants(ReadChecks& checks,
                                          capnp::List<schema::Participant>::Reader list);
// At least 1 each; as many as there are participants, or none.
std::vector<int32_t> ReadCovered(ReadChecks& checks, capnp::List<int32_t>::Reader list,
                                 size_t participants);
SumsHeld ReadSumsHeld(ReadChecks& checks, schema::SumsHeld::Reader r);
// `e` is one of sumCheck, sumShown, sumChecked, leftOverSent.
Message ReadSumMessage(ReadChecks& checks, schema::Envelope::Reader e, const Payload& payload);

void WriteSum(WriteChecks& checks, const SumsHeld& held, schema::SumsHeld::Builder b);
void WriteSum(WriteChecks& checks, const RoundCommit& commit, schema::RoundCommit::Builder b);
void WriteSum(WriteChecks& checks, const SumCheck& check, schema::SumCheck::Builder b);
void WriteSum(WriteChecks& checks, const SumChecked& checked, schema::SumChecked::Builder b);
void WriteSum(WriteChecks& checks, const LeftOverSent& sent, schema::LeftOverSent::Builder b);

}  // namespace skerry
