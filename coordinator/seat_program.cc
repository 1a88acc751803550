#include "coordinator/seat_program.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/log_program.h"
#include "wire/config.h"
#include "wire/wakeup.h"

namespace skerry {
namespace {

constexpr Duration kAnnounceEvery = Duration::Seconds(3);

std::string Holder() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return absl::StrFormat("%s, process %d", host.data(), getpid());
}

Digest DataDigest(const std::vector<ShardName>& shards) {
  Bytes all;
  for (const ShardName& shard : shards) {
    all.insert(all.end(), shard.file.begin(), shard.file.end());
    all.push_back(0);
    all.insert(all.end(), shard.digest.bytes.begin(), shard.digest.bytes.end());
  }
  return DigestOf(all);
}

}  // namespace

CoordinatorSeat::CoordinatorSeat(std::unique_ptr<Journal> journal)
    : journal_(std::move(journal)), shared_(dynamic_cast<PostgresJournal*>(journal_.get())) {}

absl::StatusOr<std::unique_ptr<CoordinatorSeat>> CoordinatorSeat::Open(const JournalStore& store) {
  SKERRY_ASSIGN_OR_RETURN(auto journal, OpenJournal(store, JournalAccess::kWrite));
  return std::unique_ptr<CoordinatorSeat>(new CoordinatorSeat(std::move(journal)));
}

// Whoever takes over serves what nodes were told of.
absl::Status CoordinatorSeat::CheckData(const std::vector<ShardName>& shards, bool notes) {
  const std::string digest = DataDigest(shards).Hex();
  const auto known = shared_->Fact("data");
  if (absl::IsNotFound(known.status())) {
    return notes ? shared_->SetFact("data", digest) : absl::OkStatus();
  }
  SKERRY_RETURN_IF_ERROR(known.status());
  if (*known == digest) return absl::OkStatus();
  return FailedPrecondition(
      "the training data here is not that of the run; copy data/ from the directory of the "
      "coordinator that served it first [SK-data-other]");
}

absl::Status CoordinatorSeat::Take(const std::string& endpoint,
                                   const std::vector<ShardName>& shards) {
  if (shared_ == nullptr) return absl::OkStatus();
  endpoint_ = endpoint;
  SKERRY_RETURN_IF_ERROR(CheckData(shards, false));
  while (!TryToTake()) {
    TendEndpoints(BootTimeNow());
    SayWaiting();
    std::this_thread::sleep_for(std::chrono::nanoseconds(keeper_.terms().retry_after.nanos()));
  }
  SKERRY_RETURN_IF_ERROR(CheckData(shards, true));
  TendEndpoints(BootTimeNow());
  const std::string after = last_sign_
                                ? absl::StrFormat("; %.1f s after the last sign of the one before",
                                                  (BootTimeNow() - *last_sign_).seconds())
                                : "";
  LogLine(absl::StrFormat("leading in epoch %d%s", epoch(), after));
  return absl::OkStatus();
}

absl::Status CoordinatorSeat::NoteConfig(const RunConfig& config) {
  return journal_->SetFact("config", ConfigDigest(config).Hex());
}

// The lease is renewed with every page of the journal, but not while the snapshot is read, and the
// state made use of.
absl::StatusOr<FoldedJournal> CoordinatorSeat::Fold(const std::string& directory,
                                                    const RunId& run) {
  constexpr Duration kExtra = Duration::Seconds(10);
  if (shared_ != nullptr) SKERRY_RETURN_IF_ERROR(shared_->RenewLease(kExtra));
  const auto records = journal_->LastNumber();  // of a damaged one perhaps none
  ShareLine line("reading the journal");
  SKERRY_ASSIGN_OR_RETURN(auto folded, FoldJournal(*journal_, directory, run, [&](int64_t number) {
                            line.Show(number, records.value_or(0));
                          }));
  if (shared_ != nullptr) SKERRY_RETURN_IF_ERROR(shared_->RenewLease(kExtra));
  return folded;
}

bool CoordinatorSeat::TryToTake() {
  const Instant asked = BootTimeNow();
  const auto epoch = shared_->TakeLease(Holder(), endpoint_);
  if (!epoch.ok() || !*epoch) return false;
  keeper_.OnGranted(**epoch, asked);
  NoteTerm();
  return true;
}

void CoordinatorSeat::SayWaiting() {
  const auto lease = shared_->CurrentLease();
  std::string line;
  if (lease.ok()) {
    last_sign_ = BootTimeNow() - (keeper_.terms().lasts - Duration::Seconds(lease->left_s));
    line = absl::StrFormat("standing by: %s leads in epoch %d", lease->holder, lease->epoch);
  } else {
    line = "standing by: " + ErrorText(lease.status());
  }
  if (line == std::exchange(said_, line)) return;
  LogLine(line);
}

absl::Status CoordinatorSeat::Append(const std::vector<std::string>& records) {
  if (shared_ == nullptr) return journal_->Append(records);
  const Instant asked = BootTimeNow();
  const absl::Status durable = shared_->Append(records);
  if (durable.ok()) keeper_.OnRenewed(asked);
  if (absl::IsAborted(durable)) keeper_.OnRefused();
  NoteTerm();
  if (absl::IsUnavailable(durable)) return ResourceExhausted("%s", ErrorText(durable));
  return durable;
}

absl::Status CoordinatorSeat::Leads() {
  if (shared_ == nullptr) return absl::OkStatus();
  const Instant asked = BootTimeNow();
  if (keeper_.IsDue(asked)) {
    const absl::Status renewed = shared_->RenewLease();
    if (absl::IsAborted(renewed)) {
      keeper_.OnRefused();
      NoteTerm();
      return renewed;
    }
    if (renewed.ok()) {
      keeper_.OnRenewed(asked);
      NoteTerm();
      TendEndpoints(asked);
    } else {
      keeper_.OnUnanswered(BootTimeNow());
      said_ = ErrorText(renewed);
    }
  }
  if (keeper_.MayAct(BootTimeNow())) return absl::OkStatus();
  return ResourceExhausted("%s; whether this coordinator still leads is not known", said_);
}

bool CoordinatorSeat::MayAct() const {
  return shared_ == nullptr || BootTimeNow().nanos() < acts_until_;
}

// A failure shows elsewhere, and passes.
void CoordinatorSeat::TendEndpoints(Instant now) {
  if (announced_ && now < *announced_ + kAnnounceEvery) return;
  announced_ = now;
  if (!shared_->Announce(endpoint_).ok()) return;
  auto endpoints = shared_->Endpoints();
  if (!endpoints.ok()) return;
  std::erase(*endpoints, endpoint_);
  endpoints->insert(endpoints->begin(), endpoint_);
  if (endpoints->size() > kCoordinatorsMax) endpoints->resize(kCoordinatorsMax);
  const bool changed = *endpoints != endpoints_;
  endpoints_ = *std::move(endpoints);
  if (changed && changed_) changed_();
}

void CoordinatorSeat::Leave() {
  if (shared_ == nullptr || keeper_.state() != LeaseKeeper::State::kLeading) return;
  if (!std::exchange(has_left_, true)) {
    shared_->ReleaseLease().IgnoreError();  // else it ends by itself
  }
}

}  // namespace skerry
