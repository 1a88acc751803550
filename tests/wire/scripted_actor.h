// An actor made of lambdas, and a process made of a loop on its own thread.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "wire/event_loop.h"

namespace skerry {

// Every hook may be empty. A run that takes longer than kDeadline ends with exit code 99.
class ScriptedActor : public Actor {
 public:
  static constexpr Duration kDeadline = Duration::Seconds(60);

  NodeId coordinator;
  std::function<void(Context&)> on_start;
  std::function<void(Context&, const NodeId&, const Message&)> on_message;
  std::function<void(Context&, TimerId)> on_timer;
  std::function<void(Context&, JobId)> on_job;
  std::function<void(Context&, const NodeId&)> on_restart;

  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;

 private:
  TimerId deadline_ = 0;
};

// One process of a test: identity, loop, actor. Open, Start, then Join.
class Process {
 public:
  explicit Process(uint8_t seed) : identity(Identity::FromSeed({seed})) {}
  ~Process();

  // Defaults for a run of tests; the caller may set more before Open.
  EventLoopOptions Options(HostRole role = HostRole::kNode) const;
  void Open(EventLoopOptions options);
  void Start();
  // The exit code, or the error's text.
  std::string Join();

  PeerAddress address() const { return {identity.id(), loop->endpoint()}; }
  NodeId id() const { return identity.id(); }

  Identity identity;
  ScriptedActor actor;
  std::unique_ptr<EventLoop> loop;

 private:
  std::thread thread_;
  std::string result_;
};

RunId TestRun();

}  // namespace skerry
