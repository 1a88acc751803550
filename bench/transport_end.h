// One end of a pair that `./dev bench transport` measures: a real process with an event loop and a
// small actor. The sender measures the link, as a node does when it joins, then keeps bulk under
// way and, beside it, pings and activations; the receiver answers. Each prints one line of JSON
// when it is done.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace skerry::bench {

struct EndOptions {
  bool sends = false;
  std::string endpoint;       // own
  std::string peer_endpoint;  // of the other end
  bool measures = true;       // the link, first; else its connections are cold
  double idle_s = 3;          // pings alone
  double load_s = 30;         // with bulk, from its first byte
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
