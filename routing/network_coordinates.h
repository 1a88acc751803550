// Where nodes are on a map on which distance is delay: predicts round trips that nobody measured.
//
// Vivaldi (Dabek, Cox, Kaashoek, Morris, SIGCOMM 2004, sections 2.4 and 5.4): nodes are bodies in
// three dimensions, and each has a height, the delay of its own access line, that every way to it
// pays. Readings are springs; they are relaxed all together, with a step that falls geometrically,
// so the fit is a function of the readings alone. On published matrices of the Internet the median
// error of such maps is about a tenth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace skerry {

struct RoundTrip {
  int32_t a = 0, b = 0;
  double rtt_s = 0;  // ≥ 0
};

class NetworkCoordinates {
 public:
  // `nodes` ≥ 0; readings name nodes below it.
  NetworkCoordinates(int32_t nodes, const std::vector<RoundTrip>& readings);

  // Seconds, ≥ 0. Meaningless for a node without readings.
  double Predict(int32_t a, int32_t b) const;

 private:
  static constexpr size_t kDimensions = 3;
  struct Body {
    std::array<double, kDimensions> at{};
    double height = 0;
  };
  void Relax(const RoundTrip& reading, double step);

  std::vector<Body> bodies_;
};

}  // namespace skerry
