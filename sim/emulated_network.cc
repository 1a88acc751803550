#include "sim/emulated_network.h"

#include <unistd.h>

#include "common/status.h"
#include "model/file_io.h"
#include "sim/emulator_delay.h"
#include "sim/packet/packet_plan.h"
#include "sim/scenario_emulate.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<EmulatedNetwork>> EmulatedNetwork::Create(
    const Scenario& scenario, EmulateShaper shaper, const std::string& wan_file) {
  std::unique_ptr<EmulatedNetwork> network(new EmulatedNetwork(wan_file));
  if (shaper == EmulateShaper::kAuto) {
    const bool packets = CanEmulatePackets(scenario).ok() && ProbePacketPlatform().Best().ok();
    shaper = packets ? EmulateShaper::kPackets : EmulateShaper::kInProcess;
  }
  if (shaper == EmulateShaper::kPackets) {
    SKERRY_RETURN_IF_ERROR(CanEmulatePackets(scenario));
    PacketWorldOptions options{.seed = scenario.run.seed};
    for (size_t i = 0; i < scenario.nodes.size(); ++i) {
      if (scenario.nodes[i].nat) options.behind_routers.insert(static_cast<int32_t>(i) + 1);
    }
    SKERRY_ASSIGN_OR_RETURN(network->world_, PacketWorld::Create(scenario.network, options));
    return network;
  }
  SKERRY_ASSIGN_OR_RETURN(const WanShape wanted, WanShapeOf(scenario));
  SKERRY_ASSIGN_OR_RETURN(network->own_delay_, MeasureEmulatorDelay());
  const WanShape shape = Without(wanted, network->own_delay_);
  SKERRY_RETURN_IF_ERROR(ReplaceText(wan_file, FormatWanShape(shape)));
  return network;
}

std::string EmulatedNetwork::Name() const {
  if (!is_packets()) {
    return absl::StrFormat("shaped in-process; lines are %.2f ms shorter, which this machine takes",
                           own_delay_.millis());
  }
  return "kernel TCP, packets shaped between namespaces (" + NameOf(world_->way()) + ")";
}

std::string EmulatedNetwork::Host(int32_t process) const {
  return is_packets() ? PacketAddressText(process) : "127.0.0.1";
}

int EmulatedNetwork::NetNamespace(int32_t process) const {
  return is_packets() ? world_->node(process).fd() : -1;
}

CommandLine EmulatedNetwork::ShapeArguments() const {
  if (is_packets()) return {};
  return {"--shape", wan_file_};
}

CommandLine EmulatedNetwork::EnterCommand(int32_t process) const {
  if (!is_packets()) return {};
  const std::string self = absl::StrFormat("/proc/%d", getpid());
  CommandLine command = {"nsenter"};
  if (world_->way().user_namespace)
    command.insert(command.end(), {"--preserve-credentials", "--user=" + self + "/ns/user"});
  command.push_back(absl::StrFormat("--net=%s/fd/%d", self, NetNamespace(process)));
  return command;
}

void EmulatedNetwork::SetCut(int32_t a, int32_t b, bool cut) {
  if (!is_packets()) return;
  world_->hub().SetCut(a, b, cut);
  world_->hub().SetCut(b, a, cut);
}

absl::Status EmulatedNetwork::Verdict(std::string& summary) {
  if (!is_packets()) return absl::OkStatus();
  const HubReport report = world_->hub().TakeReport();
  const PacketCounters& packets = report.packets;
  summary = absl::StrFormat(
      "network: %d packets, %d lost at random, %d at full queues; the shaper was late by %.0f µs "
      "on "
      "average, p99 %.0f µs, at most %.1f ms, and used %.1f s of processor%s",
      packets.segments, packets.lost, packets.dropped, report.lateness.mean().seconds() * 1e6,
      report.lateness.Quantile(0.99).seconds() * 1e6, report.lateness.most().millis(),
      report.processor_s, report.real_time ? "" : ", without real-time priority");
  return report.Verdict();
}

}  // namespace skerry
