#include "sim/delivery_checker.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/rng.h"
#include "wire/message/traffic.h"

namespace skerry {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

template <typename M>
constexpr bool kIsOfMicrobatch = std::is_same_v<M, Activation> || std::is_same_v<M, Gradient>;

constexpr uint64_t kClassBits = 7;
static_assert(kTrafficClasses <= kClassBits);

// What tells one message of a kind from the next.
uint64_t FingerprintOf(const Message& message) {
  const uint64_t what = std::visit(
      Overloaded{
          [](const Heartbeat& m) {
            return static_cast<uint64_t>(m.step) << 40 ^ static_cast<uint64_t>(m.bytes_sent);
          },
          [](const StepReport& m) { return static_cast<uint64_t>(m.step); },
          [](const Ping& m) { return m.nonce; },
          [](const Pong& m) { return m.nonce; },
          [](const ObjectRequest& m) { return static_cast<uint64_t>(m.offset); },
          [](const ObjectChunk& m) { return static_cast<uint64_t>(m.offset); },
          [](const auto& m) {
            using M = std::decay_t<decltype(m)>;
            if constexpr (kIsOfMicrobatch<M>) {
              return static_cast<uint64_t>(m.step) << 32 ^
                     static_cast<uint64_t>(m.microbatch) << 16 ^
                     static_cast<uint64_t>(m.attempt) << 8 ^ static_cast<uint64_t>(m.hop);
            } else {
              return uint64_t{0};
            }
          },
      },
      message);
  const uint64_t mixed = Mix64(what ^ static_cast<uint64_t>(message.index()) << 56 ^
                               Mix64(static_cast<uint64_t>(WireSize(message))));
  return (mixed & ~kClassBits) | static_cast<uint64_t>(ClassOf(message));
}

}  // namespace

DeliveryChecker::Process& DeliveryChecker::ProcessOf(const NodeId& id) {
  const auto [it, added] = processes_.try_emplace(id);
  if (added) it->second.number = static_cast<int32_t>(processes_.size());
  return it->second;
}

DeliveryChecker::Fingerprints* DeliveryChecker::UnderWay(const NodeId& from, const NodeId& to) {
  const auto is_watched = [](const Process& process) {
    return process.started && !process.unwatched;
  };
  const Process sender = ProcessOf(from), receiver = ProcessOf(to);
  if (!is_watched(sender) || !is_watched(receiver)) return nullptr;
  return &under_way_[static_cast<uint64_t>(sender.number) << 32 |
                     static_cast<uint64_t>(receiver.number)];
}

void DeliveryChecker::OnSent(const NodeId& from, const NodeId& to, const Message& message) {
  if (auto* queue = UnderWay(from, to)) queue->push_back(FingerprintOf(message));
}

void DeliveryChecker::OnWithdrawn(const NodeId& from, const NodeId& to, const Message& message) {
  auto* queue = UnderWay(from, to);
  if (queue == nullptr) return;
  const auto last = std::find(queue->rbegin(), queue->rend(), FingerprintOf(message));
  if (last != queue->rend()) queue->erase(std::next(last).base());
}

std::string DeliveryChecker::OnDelivered(const NodeId& from, const NodeId& to,
                                         const Message& message) {
  auto* queue = UnderWay(from, to);
  if (queue == nullptr) return "";
  const uint64_t fingerprint = FingerprintOf(message);
  const auto next = std::find_if(queue->begin(), queue->end(), [&](uint64_t sent) {
    return (sent & kClassBits) == (fingerprint & kClassBits);
  });
  if (next != queue->end() && *next == fingerprint) {
    queue->erase(next);
    return "";
  }
  ProcessOf(to).unwatched = true;  // once is enough
  return absl::StrFormat("%s from %s reached %s, which is not what was sent next",
                         Describe(message), from.Short(), to.Short());
}

void DeliveryChecker::OnLife(const NodeId& node) {
  if (std::exchange(ProcessOf(node).started, true)) OnGone(node);
}

void DeliveryChecker::OnGone(const NodeId& node) {
  ProcessOf(node).unwatched = true;
}

}  // namespace skerry
