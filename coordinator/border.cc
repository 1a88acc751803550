#include "coordinator/border.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace skerry {
namespace {

constexpr double kSecondsMax = 1e9;
constexpr double kGflopsMax = 1e9;
constexpr double kDiskRateMax = 1e15;  // bytes/s

// Bytes of the well-formed UTF-8 character at `at` (RFC 3629); 0 if there is none.
size_t CharacterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0;
    const bool surrogate = first == 0xed && second > 0x9f;
    return !overlong && !surrogate && follows(at + 1) && follows(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90;
    const bool beyond = first == 0xf4 && second > 0x8f;
    return !overlong && !beyond && follows(at + 1) && follows(at + 2) && follows(at + 3) ? 4 : 0;
  }
  return 0;
}

// C0, DEL and C1: the last are terminal commands too.
bool IsControl(const std::string& text, size_t at, size_t bytes) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (bytes == 1) return first < 0x20 || first == 0x7f;
  return bytes == 2 && first == 0xc2 && static_cast<uint8_t>(text[at + 1]) < 0xa0;
}

double InRange(double value, double max) {
  return std::isfinite(value) && value >= 0 && value <= max ? value : 0;
}

bool IsDuration(double seconds) {
  return std::isfinite(seconds) && seconds >= 0 && seconds <= kSecondsMax;
}

}  // namespace

std::string CleanText(const std::string& text, size_t bytes_max) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() <= bytes_max && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    const bool shown = bytes > 0 && !IsControl(text, at, bytes);
    const std::string piece = shown ? text.substr(at, bytes) : "?";
    if (clean.size() + piece.size() > bytes_max) break;
    clean += piece;
    at += std::max<size_t>(bytes, 1);
  }
  return clean;
}

Hello CleanHello(Hello hello) {
  hello.endpoint = CleanText(hello.endpoint);
  for (std::string& listens : hello.listens) listens = CleanText(listens);
  hello.region = CleanText(hello.region);
  hello.software = CleanText(hello.software);
  hello.device.name = CleanText(hello.device.name);
  hello.device.numeric_profile = CleanText(hello.device.numeric_profile);
  hello.device.network = CleanText(hello.device.network);
  hello.device.gflops = InRange(hello.device.gflops, kGflopsMax);
  hello.device.bf16_gflops = InRange(hello.device.bf16_gflops, kGflopsMax);
  hello.device.memory_bytes = std::max<int64_t>(hello.device.memory_bytes, 0);
  hello.device.host_bytes = std::max<int64_t>(hello.device.host_bytes, 0);
  hello.device.spill_bytes = std::max<int64_t>(hello.device.spill_bytes, 0);
  hello.device.spill_bytes_per_s = InRange(hello.device.spill_bytes_per_s, kDiskRateMax);
  hello.plan_version = std::max<int64_t>(hello.plan_version, 0);
  hello.step = std::max<int64_t>(hello.step, 0);
  hello.base_version = std::max<int64_t>(hello.base_version, 0);
  return hello;
}

Heartbeat CleanHeartbeat(Heartbeat heartbeat) {
  constexpr int64_t kBytesMax = int64_t{1} << 48;  // sums over a fleet cannot overflow
  heartbeat.waiting_for = CleanText(heartbeat.waiting_for);
  for (int64_t* count :
       {&heartbeat.step, &heartbeat.base_version, &heartbeat.tokens, &heartbeat.bytes_sent,
        &heartbeat.bytes_received, &heartbeat.memory_bytes, &heartbeat.backwards}) {
    *count = std::clamp<int64_t>(*count, 0, kBytesMax);
  }
  for (double* seconds : {&heartbeat.busy_s, &heartbeat.round_wait_s, &heartbeat.round_transfer_s,
                          &heartbeat.backward_s}) {
    *seconds = InRange(*seconds, kSecondsMax);
  }
  return heartbeat;
}

bool IsSane(const LinkReading& reading) {
  return IsDuration(reading.rtt_s) && std::isfinite(reading.bytes_per_s) && reading.bytes_per_s > 0;
}

bool IsSane(const MicrobatchLoss& loss, int32_t microbatches_per_step) {
  return loss.microbatch >= 0 && loss.microbatch < microbatches_per_step && loss.tokens >= 0 &&
         std::isfinite(loss.loss);
}

bool IsSane(const RoundApplied& applied) {
  constexpr int64_t kBytesMax = int64_t{1} << 48;
  return applied.round >= 0 && IsDuration(applied.transfer_s) && IsDuration(applied.wait_s) &&
         applied.bytes_sent >= 0 && applied.bytes_sent <= kBytesMax &&
         applied.bytes_received >= 0 && applied.bytes_received <= kBytesMax;
}

bool IsSane(const BoundarySizes& sizes, const RunConfig& config) {
  // Each microbatch of the period once, and those that were sent again.
  const int64_t count_max =
      8 * kBoundaryPeriodSteps * int64_t{config.pipeline.microbatches_per_step};
  if (sizes.first_step < 0 || sizes.first_step >= config.steps ||
      sizes.first_step % kBoundaryPeriodSteps != 0 || sizes.sides.size() > kBoundarySidesMax) {
    return false;
  }
  std::set<std::tuple<NodeId, bool, bool>> known;
  return std::all_of(sizes.sides.begin(), sizes.sides.end(), [&](const BoundarySide& side) {
    return side.count > 0 && side.count <= count_max && side.log2_rms >= kBoundaryLog2Min &&
           side.log2_rms <= kBoundaryLog2Max &&
           known.insert({side.other, side.is_gradient, side.was_sent}).second;
  });
}

RoundApplied CleanApplied(RoundApplied applied, const RoundCommit& commit, OuterRobust robust) {
  std::set<NodeId> screened;
  for (const Participant& p : commit.participants) {
    const bool named = std::find(applied.screened.begin(), applied.screened.end(), p.node) !=
                       applied.screened.end();
    if (named && robust != OuterRobust::kNone) screened.insert(p.node);
  }
  applied.screened.assign(screened.begin(), screened.end());
  return applied;
}

std::string EventFields(const nlohmann::json& object) {
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() < 2 ? "" : text.substr(1, text.size() - 2);
}

}  // namespace skerry
