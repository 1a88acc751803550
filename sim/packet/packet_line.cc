#include "sim/packet/packet_line.h"

#include <algorithm>
#include <cmath>

namespace skerry {

PacketLine::PacketLine(double bytes_per_s, Duration queue) : queue_(queue) {
  SetRate(bytes_per_s);
}

void PacketLine::SetRate(double bytes_per_s) {
  nanos_per_byte_ = bytes_per_s > 0 ? 1e9 / bytes_per_s : 0;
}

Duration PacketLine::TimeFor(int64_t bytes) {
  const double nanos = static_cast<double>(bytes) * nanos_per_byte_ + owed_nanos_;
  const double whole = std::floor(nanos);
  owed_nanos_ = nanos - whole;
  return Duration::Nanos(static_cast<int64_t>(whole));
}

int32_t PacketLine::Send(int32_t count, int64_t segment_bytes, int64_t last_bytes,
                         Passage& passage) {
  if (nanos_per_byte_ == 0) return count;
  const Duration gap = count > 1 ? (passage.last - passage.first) / (count - 1) : Duration();
  Passage leaves;
  for (int32_t i = 0; i < count; ++i) {
    const Instant arrives = passage.first + gap * i;
    if (free_ - arrives > queue_) {
      passage = leaves;
      return i;
    }
    free_ = std::max(free_, arrives) + TimeFor(i + 1 < count ? segment_bytes : last_bytes);
    if (i == 0) leaves.first = free_;
    leaves.last = free_;
  }
  passage = leaves;
  return count;
}

}  // namespace skerry
