// A host for one actor in tests: time stands still until told, effects are kept for inspection,
// jobs run when asked. As in the real host, effects count only once a handler has returned.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/actor.h"

namespace skerry::testing {

class FakeContext final : public Context {
 public:
  NodeId self() const override { return TestNodeId(0); }
  Instant now() const override { return now_; }
  Rng& rng() override { return rng_; }
  void Send(const NodeId& to, SharedMessage message) override { sends.emplace_back(to, *message); }
  TimerId StartTimer(Duration after) override {
    timers.insert({now_ + after, next_});
    return next_++;
  }
  void CancelTimer(TimerId id) override {
    std::erase_if(timers, [&](const auto& timer) { return timer.second == id; });
  }
  JobId Submit(Job job) override {
    jobs.emplace_back(next_, std::move(job));
    return next_++;
  }
  void Persist(std::string record) override { records.push_back(std::move(record)); }
  void Event(const std::string& kind, const std::string& json_fields) override {
    events.emplace_back(kind, json_fields);
  }
  void ConnectPeer(const NodeId& peer, const std::string&) override { connected.insert(peer); }
  void DisconnectPeer(const NodeId& peer) override { connected.erase(peer); }
  void Stop(int exit_code, const std::string& reason) override {
    stopped = true;
    stop_code = exit_code;
    stop_reason = reason;
  }

  void AdvanceTo(Instant when) { now_ = std::max(now_, when); }

  std::vector<std::pair<NodeId, Message>> sends;
  std::set<std::pair<Instant, TimerId>> timers;
  std::vector<std::pair<JobId, Job>> jobs;
  std::vector<std::string> records;
  std::vector<std::pair<std::string, std::string>> events;  // kind, fields
  std::set<NodeId> connected;
  bool stopped = false;
  int stop_code = 0;
  std::string stop_reason;

 private:
  Instant now_;
  Rng rng_{1};
  uint64_t next_ = 1;
};

}  // namespace skerry::testing
