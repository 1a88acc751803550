#include "sim/soak_leg.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "common/status.h"
#include "sim/soak_progress.h"
#include "wire/wakeup.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(15);
constexpr Duration kEndPatience = Duration::Seconds(6);
// Of the pause after a fault is over: most faults come alone, some on the heels of another.
constexpr double kOverlapChance = 0.2;
constexpr size_t kAtOnceMax = 2;

// Follows a file that grows.
class Tail {
 public:
  explicit Tail(std::string path) : path_(std::move(path)) {}
  std::string Read() {
    std::ifstream in(path_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset_));
    std::ostringstream text;
    text << in.rdbuf();
    offset_ += text.str().size();
    return text.str();
  }

 private:
  std::string path_;
  size_t offset_ = 0;
};

class Leg {
 public:
  Leg(const SoakLegOptions& options, EmulatedNetwork& network, const volatile bool& interrupted)
      : options_(options),
        interrupted_(interrupted),
        processes_(options.fleet, network),
        events_(processes_.RunDirectory() + "/events.jsonl"),
        rng_(options.seed, "soak", static_cast<uint64_t>(options.number)) {
    result_.number = options.number;
  }

  absl::StatusOr<SoakLeg> Run();

 private:
  struct Active {
    size_t index;  // of result_.events
    SoakEvent event;
    Instant until;
  };
  void Turn(Instant now);
  void HealDue(Instant now);
  void MaybeDisturb(Instant now);
  void Measure(Instant now, bool all);
  void Conclude(Instant now);
  void FindLeftovers();
  void Evaluate();
  void AuditJournal();
  void KeepWhatTells();
  void Complain(const std::string& text);
  double Since(Instant at) const { return (at - began_).seconds(); }

  const SoakLegOptions& options_;
  const volatile bool& interrupted_;
  SoakProcesses processes_;
  Tail events_;
  SoakProgress progress_;
  Rng rng_;
  SoakLeg result_;
  Instant began_;
  std::optional<Instant> trained_;  // when the last step was over
  bool spares_started_ = false;
  std::vector<Active> active_;
  std::vector<Instant> begins_, ends_;  // of result_.events
  size_t measured_ = 0;                 // events whose gap is known
  Instant next_;                        // not before then the next event
  Instant healed_;
  bool overlap_ = false;
};

void Leg::Complain(const std::string& text) {
  result_.complaints.push_back(text);
  if (!options_.quiet) std::printf("      ! %s\n", text.c_str());
  std::fflush(stdout);
}

void Leg::HealDue(Instant now) {
  for (auto it = active_.begin(); it != active_.end();) {
    if (it->until > now) {
      ++it;
      continue;
    }
    processes_.Heal(it->event, now);
    ends_[it->index] = healed_ = now;
    it = active_.erase(it);
  }
}

void Leg::MaybeDisturb(Instant now) {
  const bool scripted = !options_.script.empty();
  if (scripted && (result_.events.size() == options_.script.size() || !progress_.has_begun())) {
    return;
  }
  if (!scripted && options_.number == 0) return;
  if (now < next_ || active_.size() >= kAtOnceMax) return;
  const bool settled =
      active_.empty() && (!progress_.has_begun() || progress_.FirstMarkAfter(healed_, now) < now);
  if (!overlap_ && !settled) return;
  const auto event = scripted ? std::optional(options_.script[result_.events.size()])
                              : DrawSoakEvent(rng_, processes_.Look(now));
  if (!event) {
    next_ = now + Duration::Millis(300);
    return;
  }
  if (const absl::Status status = processes_.Disturb(*event, now); !status.ok()) {
    Complain("harness: " + ErrorText(status));
  }
  result_.events.push_back({options_.number, *event, Since(now), {}, {}});
  begins_.push_back(now);
  ends_.push_back(now + event->lasts);
  active_.push_back({result_.events.size() - 1, *event, now + event->lasts});
  overlap_ = !scripted && rng_.Uniform() < kOverlapChance;
  const double pause = scripted ? 0 : -std::log(1 - rng_.Uniform()) * (overlap_ ? 1.0 : 4.0);
  next_ = now + (overlap_ ? Duration() : event->lasts) + Duration::Seconds(std::min(pause, 15.0));
}

// An event is measured when the next one begins, or the training is over.
void Leg::Measure(Instant now, bool all) {
  for (; measured_ < result_.events.size(); ++measured_) {
    const bool is_last = measured_ + 1 == result_.events.size();
    if (is_last && !all && !trained_) return;
    const Instant from = begins_[measured_];
    const Instant to = is_last ? trained_.value_or(now) : begins_[measured_ + 1];
    SoakEventResult& result = result_.events[measured_];
    const bool in_training =
        progress_.FirstMarkAfter(Instant(), from) < from && (!trained_ || from < *trained_);
    if (in_training) {
      // A gap that the next event finds open is that one's too.
      if (!is_last && progress_.FirstMarkAfter(to, now) == now && !all) return;
      result.gap_s = progress_.LongestGap(from, std::min(to, trained_.value_or(to))).seconds();
    }
    const SoakFault fault = result.event.fault;
    if (in_training &&
        (fault == SoakFault::kKillCoordinator || fault == SoakFault::kPauseServing)) {
      const Instant back = from + result.event.lasts;
      result.back_s = (progress_.FirstMarkAfter(back, now) - back).seconds();
    }
    if (options_.quiet) continue;
    std::printf(
        "%6.1f s  %-44s gap %s%s\n", result.at_s, TextOf(result.event).c_str(),
        result.gap_s ? absl::StrFormat("%5.2f s", *result.gap_s).c_str() : "    –",
        result.back_s ? absl::StrFormat(", back after %.2f s", *result.back_s).c_str() : "");
    std::fflush(stdout);
  }
}

void Leg::Turn(Instant now) {
  progress_.Feed(now, events_.Read());
  if (progress_.finished() && !trained_) trained_ = now;
  processes_.Tend(now);
  if (!spares_started_ && progress_.has_begun()) {
    spares_started_ = true;
    processes_.StartSpares(now);
  }
  HealDue(now);
  MaybeDisturb(now);
  Measure(now, false);
  for (const std::string& complaint : processes_.TakeComplaints()) Complain(complaint);
  for (const SoakReaction& reaction : processes_.TakeReactions()) {
    result_.leave_s.push_back(reaction.took.seconds());
  }
}

absl::StatusOr<SoakLeg> Leg::Run() {
  began_ = MonotonicNow();
  SKERRY_RETURN_IF_ERROR(processes_.Start(began_));
  next_ = began_;  // of a script: as soon as the training has begun
  if (options_.script.empty()) next_ = began_ + Duration::Seconds(2 + 6 * rng_.Uniform());
  Instant now = began_;
  while (!processes_.CoordinatorIsDone()) {
    if (interrupted_) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(kPoll);
    now = MonotonicNow();
    Turn(now);
    if (now - began_ > options_.limit) {
      Complain(absl::StrFormat("the run is stuck: not over after %.0f s, at step %d", Since(now),
                               progress_.steps()));
      break;
    }
  }
  Conclude(now);
  return std::move(result_);
}

void Leg::Conclude(Instant now) {
  for (const Active& active : active_) processes_.Heal(active.event, now);
  active_.clear();
  processes_.End(kEndPatience);
  progress_.Feed(now, events_.Read());
  Measure(now, true);
  for (const std::string& complaint : processes_.TakeComplaints()) Complain(complaint);
  for (const std::string& complaint : progress_.complaints()) Complain(complaint);
  result_.seconds = Since(now);
  result_.checkpoints = options_.fleet.run.checkpoint.every_rounds > 0;
  if (trained_) {
    result_.training_s = (*trained_ - progress_.FirstMarkAfter(Instant(), *trained_)).seconds();
  }
  result_.steps = progress_.steps();
  result_.rounds = progress_.rounds();
  result_.digests = progress_.digests();
  FindLeftovers();
  Evaluate();
  AuditJournal();
  KeepWhatTells();
}

// What lies on a small disk goes with it, and the next leg takes this one's place.
void Leg::KeepWhatTells() {
  std::error_code error;
  const fs::path leg = options_.fleet.directory, logs = leg / "logs";
  for (const char* file : {"events.jsonl", "status.json", "journal.sqlite", "run.toml"}) {
    fs::copy_file(fs::path(processes_.RunDirectory()) / file, logs / file,
                  fs::copy_options::overwrite_existing, error);
  }
  const bool is_worse = options_.loss_goal > 0 && result_.loss > options_.loss_goal;
  if (result_.complaints.empty() && !is_worse) return;
  const fs::path kept = leg.parent_path() / absl::StrFormat("complaints-of-leg-%d", result_.number);
  fs::remove_all(kept, error);
  fs::copy(logs, kept, fs::copy_options::recursive, error);
}

void Leg::Evaluate() {
  const std::string run = processes_.RunDirectory();
  const auto text = RunAndCapture({options_.fleet.programs_dir + "/skerry-node", "evaluate",
                                   "--config", run + "/run.toml", "--data", run + "/data",
                                   "--model", run + "/model", "--json"});
  const auto json = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  result_.loss = json.is_object() ? json.value("loss", 0.0) : 0.0;
  if (result_.loss <= 0) Complain("no model came out that can be evaluated");
}

void Leg::AuditJournal() {
  const auto text = RunAndCapture({options_.fleet.programs_dir + "/skerry-coordinator", "audit",
                                   processes_.RunDirectory(), "--json"});
  if (!text.ok()) Complain("audit: " + ErrorText(text.status()));
}

void Leg::FindLeftovers() {
  std::error_code error;
  const std::string root = options_.fleet.directory;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool temporary = name.ends_with(".partial") || name.ends_with(".tmp") ||
                           name.ends_with("-wal") || name.ends_with("-shm") ||
                           name.ends_with("-journal");
    if (temporary) Complain("left behind: " + it->path().lexically_relative(root).string());
  }
  // Children that outlived theirs come to this process (PR_SET_CHILD_SUBREAPER).
  std::ifstream in(absl::StrFormat("/proc/self/task/%d/children", getpid()));
  for (pid_t pid = 0; in >> pid;) {
    if (waitpid(pid, nullptr, WNOHANG) == pid) continue;  // it has ended with its parent
    std::ifstream name(absl::StrFormat("/proc/%d/comm", pid));
    std::string comm;
    std::getline(name, comm);
    Complain(absl::StrFormat("left behind: process %d (%s)", pid, comm));
  }
}

}  // namespace

absl::StatusOr<SoakLeg> RunSoakLeg(const SoakLegOptions& options, EmulatedNetwork& network,
                                   const volatile bool& interrupted) {
  return Leg(options, network, interrupted).Run();
}

}  // namespace skerry
