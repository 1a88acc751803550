// `skerry-node join TICKET`: from a ticket to a node that trains, until the run ends or Ctrl-C.
#pragma once

#include <string>

#include "node/device_choice.h"

namespace skerry {

struct JoinOptions {
  std::string ticket;
  std::string home;                        // identity and data cache; "" for ~/.local/share/skerry
  std::string listen = "tcp://0.0.0.0:*";  // where peers reach this node
  std::string advertise;                   // what peers are told; "" for the listening endpoint
  std::string region;
  std::string shape_file;  // imitate this network (wire/shape_config.h); "" for none
  DeviceWish device = DeviceWish::kAuto;
  int threads = 0;  // 0: all that affinity and CPU quota leave
};

// Exit code: 0 done or left, 1 failed, 2 refused, 130 interrupted.
int Join(const JoinOptions& options);

}  // namespace skerry
