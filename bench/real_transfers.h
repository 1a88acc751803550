// Sockets in the namespaces of a packet world, and how long transfers over them take.
//
// Every function may be called from several threads, for different nodes. Failures of the sockets
// end the program: a benchmark has nobody to report them to.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/packet/packet_world.h"

namespace skerry::bench {

double WallSeconds();  // monotonic

// The calling thread runs before ordinary ones, and after the shaper, where the system allows it.
void PreferThisThread();

// A TCP connection from node `from` to node `to`, established.
class TcpPath {
 public:
  TcpPath(const PacketWorld& world, int32_t from, int32_t to);
  ~TcpPath();
  TcpPath(const TcpPath&) = delete;
  TcpPath& operator=(const TcpPath&) = delete;

  // From the first byte written to the one-byte answer.
  double TransferSeconds(int64_t bytes);

  int client() const { return client_; }
  int server() const { return server_; }

 private:
  int client_ = -1, server_ = -1;
};

// Round trips of `probes` small UDP packets, one every `every_s`, in seconds.
std::vector<double> UdpRoundTrips(const PacketWorld& world, int32_t from, int32_t to, int probes,
                                  double every_s);
inline constexpr int kProbeBytes = 64;  // with headers

struct UdpCount {
  int64_t sent = 0, received = 0;
  double bytes_per_s = 0;  // from the first to the last that came, headers included
};

// Sends UDP packets of `packet_bytes` (headers included) at `bytes_per_s` for `seconds`.
UdpCount UdpStream(const PacketWorld& world, int32_t from, int32_t to, int packet_bytes,
                   double bytes_per_s, double seconds);

// What `flows` connections together deliver, in payload bytes per second, over `seconds` after a
// start of `warm_up_s`.
double TcpGoodput(const PacketWorld& world, int32_t from, int32_t to, int flows, double warm_up_s,
                  double seconds);

// Calls work(0) … work(count − 1), each on a thread of its own.
void AtOnce(int count, const std::function<void(int)>& work);

}  // namespace skerry::bench
