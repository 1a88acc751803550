// Carries out a list of faults (fault_plan.h) on a run in virtual time.
//
// Processes, clocks, disks and arithmetic are changed by scripts of the simulation. Ways are
// changed where the network is: a network of flows knows cuts itself, slower and lossier ways
// become changes of its paths, beforehand and between whole regions; a network of links is asked
// for every frame (DisturbedLink), and knows any end.
//
// `map` says which node is in which region.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "sim/fault_plan.h"
#include "sim/network_spec.h"
#include "sim/virtual_run.h"

namespace skerry {

// How long a coordinator is away when its fault does not say.
inline constexpr Duration kCoordinatorAway = Duration::Seconds(5);

// What has to be known before the run is made: who lies, at which records the coordinator dies, and
// how the paths of options.network change. InvalidArgument: a way that a network of flows cannot
// change, namely one between anything but two regions.
absl::Status PrepareFaults(const std::vector<Fault>& faults, const NetworkSpec& map,
                           VirtualRunOptions& options);

// All else, before VirtualRun::Run. A fault without end that must have one lasts until `horizon`.
void ScriptFaults(const std::vector<Fault>& faults, const NetworkSpec& map, Duration horizon,
                  VirtualRun& run);

// Two nodes that do not hear each other for so long find a relay (wire/transport; the last one is
// the coordinator, which this is): VirtualRunOptions::relays_cut_pairs.
inline constexpr Duration kRelayedAfter = Duration::Seconds(12);
bool IsRelayed(const Fault& fault);  // if it lasts
bool IsRelayedNow(const std::vector<Fault>& faults, int32_t from, int32_t to, Instant now);

// The link between two node numbers as the faults of ways that hold at `now` leave it.
SimLink DisturbedLink(SimLink link, const std::vector<Fault>& faults, const NetworkSpec& map,
                      int32_t from, int32_t to, Instant now);

// "12.500 s: node 3 crashes for good", for people.
std::string Told(const Fault& fault);

}  // namespace skerry
