#include "sim/snapshot_restart.h"

#include "common/check.h"
#include "coordinator/snapshot.h"

namespace skerry {

void BeginWithSnapshot(CoordinatorOptions& options) {
  constexpr size_t kSpread = 2654435761;
  const size_t folded = options.journal.size() * kSpread % (options.journal.size() + 1);
  const auto tail = options.journal.begin() + static_cast<std::ptrdiff_t>(folded);
  Snapshot snapshot;
  for (auto record = options.journal.begin(); record != tail; ++record) {
    SKERRY_CHECK(snapshot.state.Apply(*record).ok(), "a journal of our own making must load");
  }
  auto read = UnpackSnapshot(PackSnapshot(snapshot, {}), {});
  SKERRY_CHECK(read.ok() && read->state == snapshot.state, "a snapshot is the state");
  options.journal.erase(options.journal.begin(), tail);
  options.journal.insert(options.journal.begin(), StateEntry(read->state));
}

}  // namespace skerry
