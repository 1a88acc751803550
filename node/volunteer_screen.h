// What a volunteer sees of the node: one screen, one line, or JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "node/node_look.h"
#include "wire/message/insight_message.h"

namespace skerry {

using ClassRates = std::array<double, kTrafficClasses>;  // Mbit/s, by TrafficClass

struct VolunteerView {
  std::string node;    // NodeId::Short()
  std::string device;  // its name
  NodeLook look;
  Standing standing;
  ClassRates up = {}, down = {};  // of the last seconds
  double peak_up = 0, peak_down = 0;
  double busy_share = 0;            // of the last seconds, of the device
  int32_t relayed = 0;              // peers that are reached through a relay
  int32_t punched = 0;              // and those through both routers, directly
  std::string limits;               // in words
  std::string resting;              // why it rests; "" when it does not
  double since_s = 0;               // this stay
  double coordinator_silent_s = 0;  // that it should have said something; 0: it does
};

// "training", "waits for a round", … as a volunteer understands it.
std::string PhaseText(const VolunteerView& view);
// What it waits for, and why; "" when it is at work.
std::string WaitText(const VolunteerView& view);
// "1.2 million tokens (12 %), rank 3 of 8, in 16 rounds"
std::string ContributionText(const VolunteerView& view);

// At most `rows` lines of at most `columns` characters; the newest of `log` where room is left.
std::vector<std::string> ScreenLines(const VolunteerView& view, const std::vector<std::string>& log,
                                     int columns, int rows);

// One line, for a log.
std::string PlainLine(const VolunteerView& view);

nlohmann::json StatusJson(const VolunteerView& view);
// Of that JSON, as `skerry-node status` shows it.
std::string StatusText(const nlohmann::json& status);
// For Prometheus.
std::string NodeMetrics(const nlohmann::json& status);

}  // namespace skerry
