// The seat of the coordinator that leads. With SQLite the run's directory has one and whoever
// locked it sits there. With PostgreSQL several processes share the database; one holds the lease
// (coordinator/lease.h), the others wait for it here.
//
// Used on the event loop's thread. Calls block within the bounds of journal_connection.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/journal_store.h"
#include "coordinator/lease.h"
#include "coordinator/snapshot_file.h"
#include "wire/message/message.h"

namespace skerry {

class CoordinatorSeat {
 public:
  static absl::StatusOr<std::unique_ptr<CoordinatorSeat>> Open(const JournalStore& store);

  // Waits until this process leads, for as long as that takes, and says on stdout what it waits
  // for. `endpoint`: where it will listen. FailedPrecondition: its training data is not the run's.
  absl::Status Take(const std::string& endpoint, const std::vector<ShardName>& shards);

  // The run's state, of a seat that was taken (coordinator/snapshot_file.h).
  absl::StatusOr<FoldedJournal> Fold(const std::string& directory, const RunId& run);
  // Of a run that nobody has joined: from now on its configuration is this one.
  absl::Status NoteConfig(const RunConfig& config);
  int64_t epoch() const { return keeper_.epoch(); }  // 0: SQLite, there is none

  // For EventLoopOptions::journal and ::leads: what may pass by itself is ResourceExhausted, and
  // Aborted means that another coordinator leads.
  absl::Status Append(const std::vector<std::string>& records);
  absl::Status Leads();

  // Whether this process may change what coordinators share, by what the last answer said. From any
  // thread.
  bool MayAct() const;

  // All coordinators' endpoints as last heard, this one first; none: SQLite. `changed` is called
  // from Leads() when there are others.
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  void OnEndpoints(std::function<void()> changed) { changed_ = std::move(changed); }

  // Lets a standby lead at once, or `mend` begin; the end does so, too, however it comes.
  void Leave();
  ~CoordinatorSeat() { Leave(); }

 private:
  explicit CoordinatorSeat(std::unique_ptr<Journal> journal);
  absl::Status CheckData(const std::vector<ShardName>& shards, bool notes);
  bool TryToTake();
  void NoteTerm() { acts_until_ = keeper_.ActsUntil().nanos(); }
  void SayWaiting();
  void TendEndpoints(Instant now);

  std::unique_ptr<Journal> journal_;
  PostgresJournal* shared_ = nullptr;  // the same journal, if it is that
  LeaseKeeper keeper_;
  std::atomic<int64_t> acts_until_{0};  // of keeper_, for other threads; nanoseconds
  std::string endpoint_;
  std::vector<std::string> endpoints_;
  std::function<void()> changed_;
  std::optional<Instant> announced_;
  std::string said_;                  // last, while it waited
  std::optional<Instant> last_sign_;  // of the one that leads
  bool has_left_ = false;
};

}  // namespace skerry
