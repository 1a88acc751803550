#include "sim/flow_window.h"

#include <algorithm>
#include <cmath>

namespace skerry {
namespace {

constexpr double kCubicC = 0.4;  // segments per s³
constexpr double kCubicBeta = 0.7;
constexpr double kRenoSlope = 3 * (1 - kCubicBeta) / (1 + kCubicBeta);  // segments per round
constexpr double kSmallestWindow = 2 * kSegmentBytes;
constexpr double kLostRepetitionRounds = 1.25;
constexpr double kStartupPacing = 2.89;
constexpr double kBufferPerWindow = 1.2;  // measured: what is in flight at most while it grows
constexpr double kUnevenness = 0.2;
constexpr double kFirstRound = 1.4;  // of bbr, measured: 1 / 2.89 and what its quanta add

}  // namespace

double DrawSegmentsToLoss(double loss, Rng& rng) {
  return 1 + std::floor(std::log(1.0 - rng.Uniform()) / std::log1p(-loss));
}

FlowWindow::FlowWindow(CongestionControl control, double bytes_max)
    : control_(control),
      bytes_max_(std::max(bytes_max, kSegmentBytes)),
      bytes_(std::min(kInitialWindowBytes, bytes_max_)) {}

bool FlowWindow::FeelsLoss(double loss) const {
  return loss > 0 && (control_ == CongestionControl::kCubic || !MayGrow());
}

bool FlowWindow::IsFresh() const {
  return bytes_ <= kInitialWindowBytes && slow_start_until_ > 1e299;
}

double FlowWindow::PacingGain() const {
  if (control_ == CongestionControl::kCubic) return 0;
  return KnowsRate() ? 1 : kStartupPacing;
}

double FlowWindow::BurstShare() const {
  return control_ == CongestionControl::kCubic ? 1 : 1 - 1 / PacingGain();
}

int64_t FlowWindow::DrawWeight(Rng& rng) const {
  if (control_ == CongestionControl::kBbr) return kEvenWeight;
  const double weight = static_cast<double>(kEvenWeight) * std::exp(kUnevenness * rng.Normal());
  return std::max<int64_t>(1, std::llround(weight));
}

void FlowWindow::OnBurstLost() {
  full_rounds_ = kFullRoundsToKnow;
  if (control_ == CongestionControl::kCubic) OnLoss();
}

double FlowWindow::Stretch(double loss, Rng& rng) const {
  if (control_ == CongestionControl::kBbr && IsFresh()) return kFirstRound;
  if (loss <= 0 || control_ == CongestionControl::kCubic || MayGrow()) return 1;
  const double segments = bytes_ / kSegmentBytes;
  const double any = 1 - std::pow(1 - loss, segments);
  const double again = 1 - std::pow(1 - loss * loss, segments);
  const double u = rng.Uniform(), v = rng.Uniform();
  return 1 + (u < any ? 1 : 0) + (v < again ? kLostRepetitionRounds : 0);
}

bool FlowWindow::OnRound(Duration rtt, double sent, double loss, Rng& rng) {
  if (loss > 0 && control_ == CongestionControl::kCubic) {
    if (segments_to_loss_ < 0 || loss_drawn_for_ != loss) {
      segments_to_loss_ = DrawSegmentsToLoss(loss, rng);
      loss_drawn_for_ = loss;
    }
    const double before = segments_to_loss_;  // sent in this round ahead of the lost one
    segments_to_loss_ -= sent / kSegmentBytes;
    if (segments_to_loss_ <= 0) {
      // It is noticed a round trip later: until then slow start goes on, and what is lost
      // meanwhile belongs to the same repair.
      if (bytes_ < slow_start_until_)
        bytes_ = std::min(bytes_ + before * kSegmentBytes, bytes_max_);
      segments_to_loss_ = before + DrawSegmentsToLoss(loss, rng);
      OnLoss();
      return true;
    }
  }
  if (control_ == CongestionControl::kBbr && EntersRecovery(sent, loss, rng)) return false;
  Grow(rtt.seconds(), sent);
  return false;
}

bool FlowWindow::EntersRecovery(double sent, double loss, Rng& rng) {
  if (loss <= 0 || !MayGrow() || KnowsRate()) return false;
  const bool recovered_before = recovers_;
  recovers_ = rng.Uniform() < 1 - std::pow(1 - loss, sent / kSegmentBytes);
  return recovers_ && !recovered_before;
}

void FlowWindow::OnLoss() {
  const double segments = bytes_ / kSegmentBytes;
  // Fast convergence: a flow that lost before it got back leaves room for others.
  largest_ = segments < largest_ ? segments * (1 + kCubicBeta) / 2 : segments;
  bytes_ = std::max(bytes_ * kCubicBeta, kSmallestWindow);
  slow_start_until_ = bytes_;
  at_loss_ = bytes_ / kSegmentBytes;
  elapsed_s_ = 0;
  return_s_ = std::cbrt(std::max(largest_ - at_loss_, 0.0) / kCubicC);
}

double FlowWindow::CubicTarget(double elapsed_s) const {
  const double t = elapsed_s - return_s_;
  return kCubicC * t * t * t + largest_;
}

void FlowWindow::Grow(double rtt_s, double sent) {
  if (bytes_ < slow_start_until_) {
    const double grown = std::min({bytes_ + sent, 2 * sent, slow_start_until_});
    bytes_ = std::min(std::max(bytes_, grown), bytes_max_);
    return;
  }
  // What was not needed does not grow.
  if (sent < 0.9 * bytes_) return;
  elapsed_s_ += rtt_s;
  const double reno = at_loss_ + kRenoSlope * elapsed_s_ / rtt_s;
  const double target = std::max(CubicTarget(elapsed_s_), reno) * kSegmentBytes;
  bytes_ = std::min(std::clamp(target, bytes_, 1.5 * bytes_), bytes_max_);
}

bool FlowWindow::MayOvershoot(double bytes) const {
  return control_ == CongestionControl::kCubic && bytes_ < slow_start_until_ &&
         kBufferPerWindow * bytes_max_ > bytes;
}

bool FlowWindow::Overshoots(double sent, double bytes) {
  if (!MayOvershoot(bytes) || bytes_ + sent < std::min(bytes, bytes_max_)) return false;
  bytes_ = bytes;  // measured: it ends at 0.68 to 0.77 of that
  OnLoss();
  return true;
}

double FlowWindow::LeftInBuffer(double in_flight) const {
  return std::max(kBufferPerWindow * bytes_max_ - in_flight, kSegmentBytes);
}

void FlowWindow::Settle(double used, double bytes, Duration at_line) {
  const bool avoids = control_ == CongestionControl::kCubic && bytes_ >= slow_start_until_;
  bytes_ = std::min(std::max(bytes_, used), bytes_max_);
  if (avoids) Saw(bytes, at_line.seconds());
  bytes_ = std::max(std::min(bytes_, bytes), std::min(kSmallestWindow, bytes_max_));
}

// Up to what line and queue hold, down by a loss, and up again.
void FlowWindow::Saw(double bytes, double seconds) {
  elapsed_s_ += seconds;
  const double segments = bytes / kSegmentBytes;
  if (CubicTarget(elapsed_s_) >= segments) {
    const double after = elapsed_s_ - return_s_ - std::cbrt((segments - largest_) / kCubicC);
    bytes_ = bytes;
    OnLoss();
    if (return_s_ > 0) elapsed_s_ = std::fmod(std::max(after, 0.0), return_s_);
  }
  bytes_ =
      std::clamp(CubicTarget(elapsed_s_) * kSegmentBytes, bytes_, std::max(bytes_, bytes_max_));
}

void FlowWindow::OnIdle(Duration idle, Duration timeout) {
  if (control_ != CongestionControl::kCubic || timeout <= Duration()) return;
  const double initial = std::min(kInitialWindowBytes, bytes_max_);
  if (idle < timeout || bytes_ <= initial) return;
  slow_start_until_ = std::max(slow_start_until_, 0.75 * bytes_);
  const auto halvings = std::min<int64_t>(idle.nanos() / timeout.nanos(), 60);
  bytes_ = std::max(std::ldexp(bytes_, -static_cast<int>(halvings)), initial);
}

void FlowWindow::Restart() {
  if (control_ == CongestionControl::kCubic) {
    slow_start_until_ = std::max(bytes_ / 2, kInitialWindowBytes);
    largest_ = at_loss_ = slow_start_until_ / kSegmentBytes;
    elapsed_s_ = return_s_ = 0;
  }
  bytes_ = std::min(kInitialWindowBytes, bytes_max_);
}

}  // namespace skerry
