#include "coordinator/snapshot.h"

#include <string>

#include "common/digest.h"
#include "common/status.h"
#include "coordinator/state_bytes.h"

namespace skerry {
namespace {

constexpr const char* kMagic = "skerry snapshot";
constexpr uint8_t kStateEntry = 1;  // records are JSON: they begin with a brace

// Before the state: whose it is.
struct Head {
  std::string magic = kMagic;
  SnapshotMaker by;
  JournalEnd end;
  Digest state;  // of the bytes that follow
};

auto Parts(auto& head) {
  return std::tie(head.magic, head.by.program, head.by.run, head.end.number, head.end.chain,
                  head.state);
}

Bytes PackHead(const Head& head) {
  StateWriter writer;
  std::apply([&](const auto&... part) { (writer.Put(part), ...); }, Parts(head));
  return writer.Take();
}

absl::Status Damaged(std::span<const uint8_t> bytes) {
  return DataLoss("its %d bytes are damaged, or no snapshot", bytes.size());
}

absl::StatusOr<Head> TakeHead(StateReader& reader, std::span<const uint8_t> bytes,
                              const SnapshotMaker& by) {
  Head head;
  Digest digest;
  std::apply([&](auto&... part) { (reader.Get(part), ...); }, Parts(head));
  reader.Get(digest);
  if (!reader.ok() || head.magic != kMagic || digest != DigestOf(PackHead(head))) {
    return Damaged(bytes);
  }
  if (head.by.run != by.run) {
    return FailedPrecondition("it is of run %s, not of %s", head.by.run.Short(), by.run.Short());
  }
  if (head.by.program != by.program) {
    return FailedPrecondition("another version of the program made it");
  }
  return head;
}

}  // namespace

std::string StateEntry(const RunState& state) {
  StateWriter writer;
  writer.Put(kStateEntry);
  writer.Put(state);
  const Bytes bytes = writer.Take();
  return std::string(bytes.begin(), bytes.end());
}

bool IsStateEntry(const std::string& entry) {
  return !entry.empty() && static_cast<uint8_t>(entry.front()) == kStateEntry;
}

absl::StatusOr<RunState> StateOfEntry(const std::string& entry) {
  StateReader reader(std::span(reinterpret_cast<const uint8_t*>(entry.data()), entry.size()));
  uint8_t kind = 0;
  RunState state;
  reader.Get(kind);
  reader.Get(state);
  if (!reader.ok() || !reader.AtEnd() || kind != kStateEntry) return DataLoss("damaged state");
  return state;
}

Bytes PackSnapshot(const Snapshot& snapshot, const SnapshotMaker& by) {
  StateWriter state;
  state.Put(snapshot.state);
  const Bytes folded = state.Take();
  Bytes bytes = PackHead({kMagic, by, snapshot.end, DigestOf(folded)});
  const Digest digest = DigestOf(bytes);
  bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.end());
  bytes.insert(bytes.end(), folded.begin(), folded.end());
  return bytes;
}

absl::StatusOr<Snapshot> UnpackSnapshot(std::span<const uint8_t> bytes, const SnapshotMaker& by) {
  StateReader reader(bytes);
  SKERRY_ASSIGN_OR_RETURN(const Head head, TakeHead(reader, bytes, by));
  if (DigestOf(reader.rest()) != head.state) return Damaged(bytes);
  Snapshot snapshot{head.end, {}};
  reader.Get(snapshot.state);
  if (!reader.ok() || !reader.AtEnd()) return Damaged(bytes);
  return snapshot;
}

absl::StatusOr<JournalEnd> EndOfSnapshot(std::span<const uint8_t> bytes, const SnapshotMaker& by) {
  StateReader reader(bytes);
  SKERRY_ASSIGN_OR_RETURN(const Head head, TakeHead(reader, bytes, by));
  return head.end;
}

}  // namespace skerry
