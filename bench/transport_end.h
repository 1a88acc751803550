// One end of what `./dev bench transport` measures: a real process with an event loop and a small
// actor. The sender measures its links, as a node does when it joins, then keeps bulk under way to
// its receivers and, beside it, pings them and sends the first one activations; a receiver answers.
// Each prints one line of JSON when it is done.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace skerry::bench {

struct EndOptions {
  int seat = 0;                             // 0: the sender
  std::string endpoint;                     // own
  std::vector<std::string> peer_endpoints;  // of the sender's receivers, or of its sender
  int deltas_from = 0;                      // the first of its receivers that gets bulk
  bool measures = true;                     // the links, first; else its connections are cold
  double idle_s = 3;                        // pings alone
  double load_s = 30;                       // with bulk, from its first byte
  double ping_every_s = 0.05;
  double activation_every_s = 0;  // 0: none
  int64_t activation_bytes = 0;
  int64_t message_bytes = 0;  // of one delta; 0: no bulk
  int64_t under_way = 0;      // deltas not yet answered
};

nlohmann::json ToJson(const EndOptions& options);
// Runs the end that `json` describes; the program's exit code.
int RunEnd(const std::string& json);

}  // namespace skerry::bench
