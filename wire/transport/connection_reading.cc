#include "wire/transport/connection_reading.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

namespace skerry {

std::optional<ConnectionReading> ReadConnection(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  const int64_t segments =
      int64_t{info.tcpi_unacked} - info.tcpi_sacked - info.tcpi_lost + info.tcpi_retrans;
  const int64_t segment = info.tcpi_snd_mss;
  return ConnectionReading{std::max<int64_t>(segments, 0) * segment, info.tcpi_notsent_bytes,
                           info.tcpi_snd_cwnd * segment};
}

void AvoidPauses(int descriptor) {
  for (const std::string_view control : {"cubic", "reno"}) {
    const auto size = static_cast<socklen_t>(control.size());
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, control.data(), size) == 0) return;
  }
}

}  // namespace skerry
