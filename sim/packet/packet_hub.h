// The packet shaper: one thread that takes packets out of every node's namespace, keeps them as
// long as the network would (packet_router.h), and puts them into the namespace of their receiver.
//
// The thread has real-time priority where the system allows it, sleeps until the next due time to
// the microsecond, and spins for the last few. It keeps a histogram of its own lateness: of
// every delivery against its due time, and of every batch of reading, during which what was due or
// came in had to wait.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/packet/lateness.h"
#include "sim/packet/packet_port.h"
#include "sim/packet/packet_router.h"

namespace skerry {

struct HubReport {
  PacketCounters packets;
  WakeLateness lateness;
  int64_t refused = 0;   // pieces that the receiving kernel did not take
  int64_t overruns = 0;  // packets that the hub did not read in time
  bool real_time = false;
  double processor_s = 0;  // of the hub's thread

  // FailedPrecondition if this run of the network was not what was asked for: late, or packets went
  // missing that no line dropped.
  absl::Status Verdict() const;
};

class PacketHub {
 public:
  // Port i is that of node i of the plan.
  static absl::StatusOr<std::unique_ptr<PacketHub>> Start(PacketPlan plan, uint64_t seed,
                                                          std::vector<PacketPort> ports);

  ~PacketHub();  // stops
  PacketHub(const PacketHub&) = delete;
  PacketHub& operator=(const PacketHub&) = delete;

  // What happened since the start, or since the last TakeReport. From one thread at a time.
  HubReport TakeReport();

  // While cut, what `from` sends to `to` is dropped as it leaves, and counted as nothing. From any
  // thread.
  void SetCut(int32_t from, int32_t to, bool cut);

 private:
  PacketHub(PacketPlan plan, uint64_t seed, std::vector<PacketPort> ports, int wake);
  void Loop();
  void Deliver();
  void Collect();
  bool IsCut(int32_t from, const Packet& packet) const;
  void Wait();
  void NoteSleep(Duration too_long);
  void Answer();
  void WakeUp();

  PacketRouter router_;
  std::vector<PacketPort> ports_;
  int wake_ = -1;  // eventfd: stop
  std::atomic<bool> stop_{false};

  // Set by TakeReport, fulfilled by the thread: it shares no lock with slower threads.
  std::atomic<std::promise<HubReport>*> asked_{nullptr};

  std::vector<std::atomic<bool>> cut_;  // [nodes, nodes], row = from
  std::atomic<int32_t> cuts_{0};        // how many of them

  HubReport report_;
  PacketCounters reported_;
  double reported_processor_s_ = 0;

  std::vector<PacketPiece> due_;
  std::vector<pollfd> ends_;   // wake_, then the ports
  std::vector<int> readable_;  // ports
  bool slept_ = true;
  Instant collected_;  // when everything readable had been read last
  // How late a sleep ends here, on average. So much earlier it wakes for what is due, and so long
  // ago came the packet that woke it.
  Duration oversleep_;
  Instant entered_;  // time of the last call of router_
  std::thread thread_;
};

}  // namespace skerry
