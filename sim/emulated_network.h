// How the processes of an emulation reach each other: over the loopback device, each shaping what
// it sends (wire/shaper.h), or over real TCP whose packets are shaped between network namespaces
// (sim/packet/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/child_process.h"
#include "sim/packet/packet_world.h"
#include "sim/scenario.h"

namespace skerry {

enum class EmulateShaper : uint8_t {
  kInProcess,
  kPackets,
  kAuto,  // packets where machine and scenario allow it
};

// Process 0 is the coordinator, process n the scenario's node n.
class EmulatedNetwork {
 public:
  // `wan_file`: where the in-process shaper's network is written. FailedPrecondition if the
  // scenario or the machine does not allow it, saying what stands in the way. May move this process
  // into a user namespace (PacketWorld::Create).
  static absl::StatusOr<std::unique_ptr<EmulatedNetwork>> Create(const Scenario& scenario,
                                                                 EmulateShaper shaper,
                                                                 const std::string& wan_file);

  bool is_packets() const { return world_ != nullptr; }
  std::string Name() const;  // for people
  std::string Host(int32_t process) const;
  int NetNamespace(int32_t process) const;  // for ChildProcess::Start
  CommandLine ShapeArguments() const;       // of skerry-node and skerry-coordinator serve

  // What to put before a command to run it where `process` lives, from another shell.
  CommandLine EnterCommand(int32_t process) const;

  // While cut, nothing travels between two processes, either way. Packets only.
  void SetCut(int32_t a, int32_t b, bool cut);

  // Whether the network was what the scenario says, since Create or the last call; a sentence about
  // it for people in `summary`. The in-process shaper says nothing and is believed.
  absl::Status Verdict(std::string& summary);

 private:
  explicit EmulatedNetwork(std::string wan_file) : wan_file_(std::move(wan_file)) {}

  std::string wan_file_;
  Duration own_delay_;                  // of a round trip; in-process
  std::unique_ptr<PacketWorld> world_;  // nullptr: in-process
};

}  // namespace skerry
