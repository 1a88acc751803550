// Nodes that follow docs/PROTOCOL.md without training: they step, exchange deltas among themselves,
// report, wait for commits, and on a restart of the coordinator say again what it may have missed.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/digest.h"
#include "tests/coordinator/served_run.h"

namespace skerry::testing {

inline Bytes FinalBase(int32_t stage) {
  return Bytes(1000, static_cast<uint8_t>(stage + 1));
}

class ScriptedFleet {
 public:
  ScriptedFleet(ServedRun& run, int nodes) : run_(run), life_(run.lives) {
    for (int i = 0; i < nodes; ++i) {
      members_[Node(i)].number = i;
      Say(Node(i), HelloOf(Node(i)));
    }
  }

  // Until the coordinator has stopped, or `seconds` have passed.
  void RunToTheEnd(int seconds) {
    for (int second = 0; second < seconds && !run_.context.stopped; ++second) {
      for (bool busy = true; busy && !run_.context.stopped;) busy = Exchange();
      run_.Pass(1);
      for (auto& [id, member] : members_) {
        if (member.welcomed) Say(id, BeatOf(member));
      }
    }
  }

 private:
  struct Member {
    int number = 0;
    bool welcomed = false;
    std::optional<PipelinePlan> plan;
    int32_t stage = -1;
    int64_t step = 0;
    int64_t base_version = 0;
    std::map<int64_t, std::set<NodeId>> held;  // round → senders
    std::map<int64_t, RoundCommit> commits;
    std::vector<Message> reports;  // everything, as a patient node would keep it
  };

  Hello HelloOf(const NodeId& id) {
    const Member& member = members_[id];
    Hello hello = ServedRun::HelloOf(member.number);
    hello.plan_version = member.plan ? member.plan->version : 0;
    hello.step = member.step;
    hello.base_version = member.base_version;
    return hello;
  }

  Heartbeat BeatOf(const Member& member) const {
    Heartbeat beat;
    beat.step = member.step;
    beat.base_version = member.base_version;
    beat.phase = !member.plan       ? Phase::kWaitingForPlan
                 : Finished(member) ? Phase::kFinished
                                    : Phase::kTraining;
    return beat;
  }

  bool Finished(const Member& member) const {
    return member.step == run_.config.steps &&
           member.base_version == run_.config.steps / run_.config.outer.inner_steps;
  }

  void Say(const NodeId& from, Message message) { said_.emplace_back(from, std::move(message)); }
  void Report(const NodeId& from, Message message) {
    members_[from].reports.push_back(message);
    Say(from, std::move(message));
  }

  bool Exchange() {
    NoticeRestart();
    bool busy = false;
    for (const auto& [to, message] : run_.TakeSends()) {
      busy = true;
      const auto member = members_.find(to);
      if (member != members_.end()) Hear(to, member->second, message);
    }
    if (!run_.context.jobs.empty()) {
      run_.RunJobs();
      busy = true;
    }
    if (!said_.empty()) {
      const auto [from, message] = std::move(said_.front());
      said_.pop_front();
      run_.From(from, message);
      busy = true;
    }
    for (auto& [id, member] : members_) busy = Advance(id, member) || busy;
    return busy;
  }

  // What was under way to the old process is lost, as the courier does it.
  void NoticeRestart() {
    if (life_ == run_.lives) return;
    life_ = run_.lives;
    said_.clear();
    for (auto& [id, member] : members_) {
      Say(id, HelloOf(id));
      for (const Message& report : member.reports) Say(id, report);
    }
  }

  void Hear(const NodeId& id, Member& member, const Message& message) {
    if (std::holds_alternative<Welcome>(message)) {
      member.welcomed = true;
    } else if (const auto* probe = std::get_if<ProbeRequest>(&message)) {
      Say(id, LinkReading{probe->target, 0.02, 2e7});
    } else if (const auto* update = std::get_if<PlanUpdate>(&message)) {
      if (member.plan && member.plan->version >= update->plan->version) return;
      CHECK(update->plan->dead.empty());
      member.plan = update->plan;
      for (size_t stage = 0; stage < update->plan->stages.size(); ++stage) {
        const auto& replicas = update->plan->stages[stage].replicas;
        if (std::count(replicas.begin(), replicas.end(), id) > 0) {
          member.stage = static_cast<int32_t>(stage);
        }
      }
      Say(id, BeatOf(member));
    } else if (const auto* commit = std::get_if<RoundCommit>(&message)) {
      const auto [it, fresh] = member.commits.emplace(commit->round, *commit);
      CHECK(it->second == *commit);  // never two sets for a round
    } else if (const auto* request = std::get_if<ObjectRequest>(&message)) {
      const Bytes base = FinalBase(member.stage);
      Say(id, Finished(member) ? ObjectChunk{request->object, 0, static_cast<int64_t>(base.size()),
                                             MakePayload(base)}
                               : ObjectChunk{request->object, 0, -1, nullptr});
    }
  }

  const std::vector<NodeId>& Replicas(const Member& member) const {
    return member.plan->stages[static_cast<size_t>(member.stage)].replicas;
  }

  bool Advance(const NodeId& id, Member& member) {
    if (!member.plan || Finished(member)) return false;
    const int64_t tau = run_.config.outer.inner_steps;
    if (member.step == (member.base_version + 1) * tau) {  // at the boundary: wait for the commit
      const int64_t round = member.base_version;
      const auto commit = member.commits.find(round);
      if (commit == member.commits.end()) return false;
      ++member.base_version;
      Report(id, RoundApplied{member.stage, round, DigestOf(FinalBase(member.stage)), 1, 0.5});
      if (Finished(member)) Say(id, BeatOf(member));
      return true;
    }
    if (member.stage == 0) ReportStep(id, member);
    ++member.step;
    if (member.step % tau == 0) {
      const int64_t round = member.step / tau - 1;
      for (const NodeId& holder : Replicas(member)) {
        if (members_[holder].held[round].insert(id).second) {
          Report(holder, Held(member.stage, round, id));
        }
      }
    }
    return true;
  }

  void ReportStep(const NodeId& id, const Member& member) {
    const auto& replicas = Replicas(member);
    StepReport report{member.step, {}};
    for (int32_t m = 0; m < run_.config.pipeline.microbatches_per_step; ++m) {
      if (replicas[static_cast<size_t>(m) % replicas.size()] != id) continue;
      report.losses.push_back({m, 10, 1.0f / static_cast<float>(1 + m + member.step)});
    }
    Report(id, report);
  }

  ServedRun& run_;
  int life_;
  std::map<NodeId, Member> members_;
  std::deque<std::pair<NodeId, Message>> said_;
};

}  // namespace skerry::testing
