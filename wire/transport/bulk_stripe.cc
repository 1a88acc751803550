#include "wire/transport/bulk_stripe.h"

#include <algorithm>

#include "wire/transport/window.h"

namespace skerry {

void BulkStripe::OnPut(Instant now, int64_t bytes) {
  if (is_empty()) heard_ = now;
  ++chunks_;
  bytes_ += bytes;
  since_ += bytes;
  put_ = now;
}

void BulkStripe::OnFreed(int64_t bytes) {
  --chunks_;
  bytes_ -= bytes;
}

void BulkStripe::OnHeard(Instant now) {
  heard_ = now;
  patience_ = kPatienceLeast;
}

void BulkStripe::OnReading(Instant now, std::optional<ConnectionReading> reading) {
  const bool knows_all = since_ == 0 || now - put_ >= kReachesKernel;
  if (!knows_all && reading_) return;
  reading_ = reading;
  if (!knows_all) return;
  since_ = 0;
}

Instant BulkStripe::SilentAt(Duration usual) const {
  return heard_ + std::clamp(std::max(patience_, usual), kPatienceLeast, kPatienceMost);
}

bool BulkStripe::GivesNoSign(Instant now, Duration usual) {
  if (is_empty() || now < SilentAt(usual)) return false;
  heard_ = now;
  patience_ = std::min(patience_ * 2, kPatienceMost);
  return true;
}

int64_t BulkStripe::InLine() const {
  if (!reading_) return bytes_;
  const int64_t room = std::max<int64_t>(reading_->window - reading_->in_flight, 0);
  return std::min(bytes_, reading_->in_flight + std::min(room, reading_->unsent + since_));
}

int64_t BulkStripe::TakesBytes(int64_t usual) const {
  return reading_ ? std::clamp(reading_->window, CongestionWindow::kChunkLeast, usual) : usual;
}

bool BulkStripe::TakesMore(int64_t usual) const {
  if (chunks_ >= kChunksMost) return false;
  if (!reading_) return true;
  const int64_t waits = std::min(bytes_, reading_->unsent + since_);
  if (reading_->window < CongestionWindow::kChunkLeast)
    return waits == 0 && reading_->in_flight < reading_->window;
  return waits < TakesBytes(usual) / 2;
}

}  // namespace skerry
