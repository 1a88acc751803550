#include "scripted_actor.h"

#include <catch2/catch.hpp>

namespace skerry {

RunId TestRun() {
  RunId run;
  run.bytes.fill(5);
  return run;
}

void ScriptedActor::OnStart(Context& context) {
  deadline_ = context.StartTimer(kDeadline);
  if (on_start) on_start(context);
}
void ScriptedActor::OnMessage(Context& context, const NodeId& from, const Message& message) {
  if (on_message) on_message(context, from, message);
}
void ScriptedActor::OnTimer(Context& context, TimerId timer) {
  if (timer == deadline_) {
    context.Stop(99, "the test took too long");
  } else if (on_timer) {
    on_timer(context, timer);
  }
}
void ScriptedActor::OnJobDone(Context& context, JobId job) {
  if (on_job) on_job(context, job);
}
void ScriptedActor::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (on_restart) on_restart(context, peer);
}

Process::~Process() {
  if (!thread_.joinable()) return;
  loop->Post([](Context& context) { context.Stop(98, "the test is over"); });
  thread_.join();
}

EventLoopOptions Process::Options(HostRole role) const {
  return EventLoopOptions{.identity = identity, .run = TestRun(), .role = role};
}

void Process::Open(EventLoopOptions options) {
  auto opened = EventLoop::Open(std::move(options));
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  loop = *std::move(opened);
}

void Process::Start() {
  thread_ = std::thread([this] {
    const auto exit_code = loop->Run(actor);
    result_ =
        exit_code.ok() ? std::to_string(*exit_code) : std::string(exit_code.status().message());
  });
}

std::string Process::Join() {
  if (thread_.joinable()) thread_.join();
  return result_;
}

}  // namespace skerry
