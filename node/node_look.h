// A node as it is at a moment, for screens and status files. A value; nothing is decided by it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "wire/message/message.h"
#include "wire/message/traffic.h"

namespace skerry {

using ClassBytes = std::array<int64_t, kTrafficClasses>;  // by TrafficClass

struct NodeLook {
  Phase phase = Phase::kJoining;
  std::string run;  // its name; "" before the coordinator answered
  int64_t step = 0;
  int64_t steps = 0;
  int64_t base_version = 0;
  int64_t inner_steps = 0;  // of a round
  int32_t stage = -1;       // −1: it has none
  int32_t stages = 0;
  int32_t first_layer = 0, last_layer = 0;  // [first, last)
  int32_t replicas = 0;                     // of its stage, itself too
  int32_t peers = 0;
  int64_t tokens = 0;  // accumulated in this life
  double busy_s = 0;   // of its device
  int64_t memory_bytes = 0;
  int64_t memory_offered = 0;
  ClassBytes sent = {}, received = {};
  bool is_reachable = true;
  bool is_paused = false;        // by the run's operator
  bool awaits_approval = false;  // of the run's operator, to be let in
  double heartbeat_s = 0;        // how often it tells the coordinator of itself
  std::string waiting_for;       // "" when it is at work
};

}  // namespace skerry
