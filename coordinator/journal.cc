#include "coordinator/journal.h"

#include "common/bytes.h"
#include "common/digest.h"
#include "common/status.h"

namespace skerry {

absl::Status Journal::Read(const std::function<void(const std::string&)>& with) {
  return ReadAfter({}, with).status();
}

absl::StatusOr<std::vector<std::string>> Journal::Load() {
  std::vector<std::string> records;
  SKERRY_RETURN_IF_ERROR(Read([&](const std::string& record) { records.push_back(record); }));
  return records;
}

JournalEnd Extended(const JournalEnd& end, const std::string& body) {
  Bytes bytes(end.chain.bytes.begin(), end.chain.bytes.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return {end.number + 1, DigestOf(bytes)};
}

absl::Status DamagedRecord(const std::string& store, int64_t number) {
  return DataLoss(
      "%s: record %d is damaged or missing; restore the journal from a copy, or cut it there: "
      "skerry-coordinator mend DIR [SK-journal-damaged]",
      store, number);
}

absl::Status NoSuchRecord(const std::string& store, const JournalEnd& after) {
  return NotFound("%s: has no record %d of chain %s", store, after.number, after.chain.Short());
}

}  // namespace skerry
