// Time as integers: nanoseconds, so that virtual and real time order events alike on every machine.
#pragma once

#include <compare>
#include <cstdint>

namespace skerry {

// A span of time; may be negative. A value type.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration Nanos(int64_t n) { return Duration(n); }
  static constexpr Duration Micros(int64_t n) { return Duration(n * 1000); }
  static constexpr Duration Millis(int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration Seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

  constexpr int64_t nanos() const { return nanos_; }
  constexpr double seconds() const { return static_cast<double>(nanos_) * 1e-9; }
  constexpr double millis() const { return static_cast<double>(nanos_) * 1e-6; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return Duration(nanos_ + other.nanos_); }
  constexpr Duration operator-(Duration other) const { return Duration(nanos_ - other.nanos_); }
  constexpr Duration operator*(int64_t factor) const { return Duration(nanos_ * factor); }
  constexpr Duration operator/(int64_t divisor) const { return Duration(nanos_ / divisor); }
  constexpr Duration& operator+=(Duration other) {
    nanos_ += other.nanos_;
    return *this;
  }

 private:
  constexpr explicit Duration(int64_t n) : nanos_(n) {}
  int64_t nanos_ = 0;
};

// A point on the host's clock. Only differences mean anything; the zero is the host's start.
class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant FromNanos(int64_t n) { return Instant(n); }
  constexpr int64_t nanos() const { return nanos_; }

  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return Instant(nanos_ + d.nanos()); }
  constexpr Instant operator-(Duration d) const { return Instant(nanos_ - d.nanos()); }
  constexpr Duration operator-(Instant other) const {
    return Duration::Nanos(nanos_ - other.nanos_);
  }

 private:
  constexpr explicit Instant(int64_t n) : nanos_(n) {}
  int64_t nanos_ = 0;
};

}  // namespace skerry
