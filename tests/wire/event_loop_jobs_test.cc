// The queues of jobs of a real host.
#include <catch2/catch.hpp>
#include <latch>

#include "scripted_actor.h"
#include "wire/event_loop.h"

namespace skerry {

TEST_CASE("EventLoop: a job beside the device does not wait for what the device has",
          "[wire][loop]") {
  Process process(1);
  process.Open(process.Options());
  std::latch beside_is_done(1);
  std::vector<JobId> done;
  JobId on_device = 0, beside = 0;
  process.actor.on_start = [&](Context& c) {
    on_device = c.Submit({"device", Duration(), [&] { beside_is_done.wait(); }});
    beside = c.Submit({"beside", Duration(), [&] {}, JobQueue::kBeside});
  };
  process.actor.on_job = [&](Context& c, JobId job) {
    done.push_back(job);
    if (job == beside) beside_is_done.count_down();
    if (done.size() == 2) c.Stop(0, "");
  };
  process.Start();
  CHECK(process.Join() == "0");
  CHECK(done == std::vector{beside, on_device});
}

}  // namespace skerry
