// `skerry-node join TICKET`: from a ticket to a node that trains, until the run ends or Ctrl-C.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_split.h"
#include "node/cache_program.h"
#include "node/device_choice.h"
#include "node/volunteer_limits.h"

namespace skerry {

// What an option said of the home's limits; the rest stays as it is.
struct LimitChange {
  std::optional<double> up_mbit, down_mbit, daily_gb;
  std::optional<std::string> hours;  // "" or "always": at all hours
  std::optional<bool> yields_gpu;
  bool IsEmpty() const { return !up_mbit && !down_mbit && !daily_gb && !hours && !yields_gpu; }
};

struct JoinOptions {
  std::string ticket;
  std::string home;  // identity and data cache; "" for ~/.local/share/skerry
  // On every address of this machine, IPv4 and IPv6; or some, with commas between.
  std::string listen = "tcp://*:*";
  std::string advertise;  // what peers are told; "" for the listening endpoint
  std::string region;
  std::string shape_file;  // imitate this network (wire/shape_config.h); "" for none
  LimitChange limits;      // kept in the home from now on
  bool relay = false;      // forward sealed frames of pairs that cannot reach each other
  DeviceWish device = DeviceWish::kAuto;
  std::string devices;  // several that are one replica (ChooseDevices); "" for `device`
  DeviceSplit split = DeviceSplit::kEither;  // what several share out
  bool nccl = false;      // sums of its cohort between GPUs, not sealed (kernels/plugin/gpu_lane.h)
  int threads = 0;        // 0: all that affinity and CPU quota leave
  std::string metrics;    // where /metrics is answered: host:port; "": nowhere
  double memory_gib = 0;  // what it offers at most; 0: all that is free
  double host_memory_gib = 0;  // the same of the host's, where it trains on GPUs
  std::string spill;           // a directory that activations may lie in; "": none is written
  double spill_gib = 0;        // of it at most; 0: half of what is free there
  CacheWish cache;
  bool no_traces = false;           // does not tell when its device did what
  std::string log_format = "text";  // or "json": lines for programs, and no screen
};

// Where identity, data and what was found of the network are kept; "" for ~/.local/share/skerry.
std::string NodeHome(const std::string& given);
inline constexpr char kNodeSoftware[] = "skerry-node 0.1.0";
inline constexpr char kReachFile[] = "reachability.txt";  // what Explain said last

// `skerry-node limit`: writes what is given to the home's limits, the rest stays; prints them.
absl::StatusOr<VolunteerLimits> ChangedLimits(const std::string& home, const LimitChange& change);
absl::Status ChangeLimits(const std::string& home, const LimitChange& change);

// Exit code: 0 done or left, 1 failed, 2 refused, 130 interrupted.
int Join(const JoinOptions& options);

}  // namespace skerry
