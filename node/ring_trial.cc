#include "node/ring_trial.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

namespace {

double ToMib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

int64_t RingTrialBytes(int64_t values) {
  return values < INT64_MAX / 16 ? values * 3 * static_cast<int64_t>(sizeof(float)) : INT64_MAX;
}

RingTrialMember::RingTrialMember(Options options)
    : options_(std::move(options)),
      part_([this](Context& context, const RingTrialPart::Outcome& outcome) {
        if (leaves_) return;
        context.Send(options_.host,
                     GroupTried{part_.group(), outcome.digest, ErrorText(outcome.status)});
      }) {}

void RingTrialMember::OnStart(Context& context) {
  context.Send(options_.host, options_.hello);
  heard_ = context.now();
  watch_ = context.StartTimer(kHostSilent / 6);
}

void RingTrialMember::OnMessage(Context& context, const NodeId& from, const Message& message) {
  if (part_.OnMessage(context, from, message)) {
    if (from == options_.host) heard_ = context.now();
    return;
  }
  if (from != options_.host) return;
  heard_ = context.now();
  if (const auto* peers = std::get_if<Peers>(&message)) {
    for (const Peer& peer : peers->peers) {
      if (peer.id != context.self()) context.ConnectPeer(peer.id, peer.endpoint);
    }
  } else if (const auto* trial = std::get_if<GroupTrial>(&message)) {
    const auto& members = trial->members;
    const bool is_mine = std::count(members.begin(), members.end(), context.self()) == 1;
    if (!is_mine || trial->times <= 0 || part_.busy()) return;
    if (RingTrialBytes(trial->values) > options_.memory_bytes) {
      const std::string why = absl::StrFormat(
          "the ring wants %.0f MiB of memory on every machine, and %.0f MiB are free here: fewer "
          "--mib would do",
          ToMib(RingTrialBytes(trial->values)), ToMib(options_.memory_bytes));
      leaves_ = true;
      context.Send(options_.host, skerry::Leave{why});
      return context.Stop(1, why);
    }
    part_.Begin(context, *trial);
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    context.Stop(1, refused->reason);
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message)) {
    context.Stop(0, shutdown->reason);
  }
}

void RingTrialMember::OnTimer(Context& context, TimerId timer) {
  if (part_.OnTimer(context, timer) || timer != watch_) return;
  if (context.now() - heard_ > kHostSilent) return context.Stop(1, "the host is silent");
  watch_ = context.StartTimer(kHostSilent / 6);
}

void RingTrialMember::OnJobDone(Context& context, JobId job) {
  part_.OnJobDone(context, job);
}

void RingTrialMember::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (peer == options_.host) return context.Stop(1, "the host was started again");
  part_.OnPeerRestarted(context, peer);
}

void RingTrialMember::Leave(Context& context) {
  leaves_ = true;
  part_.Abort(context, Aborted("it has left"));
  context.Send(options_.host, skerry::Leave{"interrupted"});
  context.Stop(1, "interrupted");
}

RingTrialHost::RingTrialHost(Options options)
    : options_(std::move(options)),
      part_([this](Context& context, const RingTrialPart::Outcome& outcome) {
        own_ = outcome;
        context.CancelTimer(deadline_);
        const Duration patience = outcome.status.ok() ? kAnswersAfterEnd : kAnswersAfterError;
        deadline_ = context.StartTimer(patience + kAnswersPerValue * trial_.values);
        if (HaveAllAnswered()) Judge(context);
      }),
      group_(options_.first_group) {
  SKERRY_CHECK(options_.members >= 2 && !options_.tasks.empty());
}

void RingTrialHost::OnStart(Context& context) {
  remind_ = context.StartTimer(kRemindEvery);
}

void RingTrialHost::OnMessage(Context& context, const NodeId& from, const Message& message) {
  if (part_.OnMessage(context, from, message)) return;
  if (const auto* hello = std::get_if<Hello>(&message)) return OnHello(context, from, *hello);
  if (const auto* found = std::get_if<Reachability>(&message); found && from == context.self())
    return Settle(context, found->node, ReachableAt(*found));
  if (std::holds_alternative<Leave>(message)) return OnLeave(context, from);
  const auto member = members_.find(from);
  const auto* tried = std::get_if<GroupTried>(&message);
  if (member == members_.end() || tried == nullptr || tried->group != trial_.group) return;
  member->second.tried = *tried;
  if (begun_ && own_ && HaveAllAnswered()) Judge(context);
}

void RingTrialHost::OnHello(Context& context, const NodeId& from, const Hello& hello) {
  if (members_.contains(from)) return;
  const auto refuse = [&](const char* why) { context.Send(from, Refused{why}); };
  if (hello.ticket != options_.ticket) return refuse("the ticket is of another ring");
  const bool is_full = static_cast<int32_t>(members_.size()) + 1 >= options_.members;
  if (begun_ || is_full) return refuse("all members of this ring are here already");
  members_[from] = {};
  context.ConnectPeer(from, "");
  options_.say(absl::StrFormat("member %s is here: %d of %d", from.Short(), members_.size() + 1,
                               options_.members));
  if (!options_.dials_back) return Settle(context, from, hello.endpoint);
  std::vector<std::string> listens = {hello.endpoint};
  listens.insert(listens.end(), hello.listens.begin(), hello.listens.end());
  context.TryReach(from, listens);
}

void RingTrialHost::Settle(Context& context, const NodeId& member, const std::string& endpoint) {
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.endpoint) return;
  found->second.endpoint = endpoint;
  if (endpoint.empty()) {
    options_.say(absl::StrFormat(
        "member %s cannot be dialled: two such members have no way to each other", member.Short()));
  }
  const bool are_settled = std::all_of(members_.begin(), members_.end(),
                                       [](const auto& m) { return m.second.endpoint.has_value(); });
  const auto here = static_cast<int32_t>(members_.size()) + 1;
  if (begun_ || here < options_.members || !are_settled) return;
  begun_ = true;
  Introduce(context);
  BeginTask(context);
}

void RingTrialHost::Introduce(Context& context) {
  Peers peers;
  peers.peers.push_back({context.self(), options_.endpoint, ""});
  for (const auto& [id, member] : members_)
    peers.peers.push_back({id, member.endpoint.value_or(""), ""});
  for (const auto& [id, member] : members_) context.Send(id, peers);
}

void RingTrialHost::BeginTask(Context& context) {
  const RingTask& task = options_.tasks[task_];
  ranks_ = {context.self()};
  for (auto& [id, member] : members_) {
    ranks_.push_back(id);
    member.tried.reset();
  }
  own_.reset();
  lost_ = false;
  trial_ = {group_++, ranks_, task.operation, task.values, task.times};
  for (const auto& [id, member] : members_) context.Send(id, trial_);
  part_.Begin(context, trial_);
}

bool RingTrialHost::HaveAllAnswered() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& m) { return m.second.tried.has_value(); });
}

void RingTrialHost::PutOut(Context& context, const NodeId& member, const char* why) {
  options_.say(absl::StrFormat("member %s %s: it is out", member.Short(), why));
  context.DisconnectPeer(member);
  members_.erase(member);
  lost_ = true;
}

void RingTrialHost::OnLeave(Context& context, const NodeId& from) {
  if (!members_.contains(from)) return;
  PutOut(context, from, "has left");
  if (begun_ && own_ && comparing_ == 0 && HaveAllAnswered()) Judge(context);
}

// The trial is over: with figures, or with somebody out, or it is made again.
void RingTrialHost::Judge(Context& context) {
  context.CancelTimer(deadline_);
  std::string failed = ErrorText(own_->status);
  for (const NodeId& id : std::vector<NodeId>(ranks_.begin() + 1, ranks_.end())) {
    const auto member = members_.find(id);
    if (member == members_.end()) continue;
    if (!member->second.tried) {
      PutOut(context, id, "does not answer");
    } else if (failed.empty()) {
      failed = member->second.tried->failed;
    }
  }
  if (failed.empty() && !lost_) return Compare(context);
  options_.say("the ring broke: " + (failed.empty() ? "a member was lost" : failed));
  failures_ = lost_ ? 0 : failures_ + 1;
  if (members_.empty()) return Stop(context, 1, "nobody else is left");
  if (failures_ >= kFailuresMax)
    return Stop(context, 1, absl::StrFormat("the ring broke %d times in a row", failures_));
  options_.say(absl::StrFormat("the ring is formed again, of %d", members_.size() + 1));
  BeginTask(context);
}

void RingTrialHost::Compare(Context& context) {
  failures_ = 0;
  expected_ = std::make_shared<std::vector<Digest>>();
  comparing_ = context.Submit(
      {"expected", Duration::Nanos(4 * trial_.values),
       [expected = expected_, trial = trial_] { *expected = ExpectedDigests(trial); }});
}

void RingTrialHost::Report(Context& context) {
  bool is_right = own_->digest == expected_->front();
  for (size_t r = 1; r < ranks_.size(); ++r) {
    const auto member = members_.find(ranks_[r]);  // it may have left since
    if (member != members_.end())
      is_right = is_right && member->second.tried->digest == (*expected_)[r];
  }
  const RingTask& task = options_.tasks[task_];
  const double seconds = own_->seconds / task.times;
  options_.on_figures(
      {task, static_cast<int32_t>(ranks_.size()), seconds, WireBytes(trial_) / seconds, is_right});
  if (++task_ == options_.tasks.size()) return Stop(context, 0, "done");
  if (members_.empty()) return Stop(context, 1, "nobody else is left");
  BeginTask(context);
}

void RingTrialHost::OnTimer(Context& context, TimerId timer) {
  if (part_.OnTimer(context, timer)) return;
  if (timer == deadline_ && own_) return Judge(context);
  if (timer != remind_) return;
  // They wait for a word of this one.
  for (const auto& [id, member] : members_) context.Send(id, Peers{});
  remind_ = context.StartTimer(kRemindEvery);
}

void RingTrialHost::OnJobDone(Context& context, JobId job) {
  if (part_.OnJobDone(context, job) || job != comparing_ || job == 0) return;
  comparing_ = 0;
  Report(context);
}

void RingTrialHost::OnPeerRestarted(Context& context, const NodeId& peer) {
  part_.OnPeerRestarted(context, peer);
}

void RingTrialHost::Stop(Context& context, int exit_code, const std::string& why) {
  for (const auto& [id, member] : members_) context.Send(id, Shutdown{why});
  context.Stop(exit_code, why);
}

}  // namespace skerry
