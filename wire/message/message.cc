#include "wire/message/message.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

bool SamePayload(const Payload& a, const Payload& b) {
  const auto x = View(a), y = View(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// Envelope, sequence numbers, authentication tag and TCP/IP headers of one message.
constexpr int64_t kFrameOverheadBytes = 160;

int64_t BytesOf(const SumStatement& m) {
  return 80 * static_cast<int64_t>(m.sent.size() + m.summed.size()) +
         72 * static_cast<int64_t>(m.states.size());
}

int64_t BytesOf(const PipelinePlan& plan) {
  int64_t bytes = 64 + 64 * static_cast<int64_t>(plan.joining.size()) +
                  64 * static_cast<int64_t>(plan.slow_links.size()) +
                  48 * static_cast<int64_t>(plan.absent.size());
  for (const auto& stage : plan.stages)
    bytes += 16 + 32 * static_cast<int64_t>(stage.replicas.size()) +
             4 * static_cast<int64_t>(stage.cohorts.size());
  for (const auto& path : plan.paths) bytes += 8 + 8 * static_cast<int64_t>(path.size());
  return bytes;
}

template <typename M>
std::string OfAttempt(const char* name, const M& m) {
  return absl::StrFormat("%s step %d microbatch %d.%d", name, m.step, m.microbatch, m.attempt);
}

template <typename M>
std::string OfHop(const char* name, const M& m) {
  return OfAttempt(name, m) + absl::StrFormat(" hop %d", m.hop);
}

std::string Count(const std::vector<Participant>& of) {
  return absl::StrFormat(" of %d", of.size());
}

std::string OfPiece(const GroupValues& m) {
  return absl::StrFormat("GroupValues operation %d step %d piece %d", m.operation, m.step, m.piece);
}

template <typename M>
std::string OfVisit(const char* name, const M& m) {
  return absl::StrFormat("%s step %d microbatch %d of %s", name, m.step, m.microbatch,
                         m.suspect.Short());
}

template <typename M>
std::string OfRound(const char* kind, const M& m) {
  return absl::StrFormat("%s stage %d round %d", kind, m.stage, m.round);
}

template <typename M>
std::string OfObject(const char* kind, const M& m) {
  return absl::StrFormat("%s %s@%d", kind, m.object, m.offset);
}

std::string LateRound(const RoundLate& m) {
  std::string text = OfRound("RoundLate", m);
  for (const NodeId& node : m.deltas_of) text += " without " + node.Short();
  for (const NodeId& node : m.sums_of) text += " without the sum of " + node.Short();
  return text;
}

}  // namespace

bool Activation::operator==(const Activation& o) const {
  return step == o.step && microbatch == o.microbatch && attempt == o.attempt && hop == o.hop &&
         plan_version == o.plan_version && path == o.path && codec == o.codec &&
         SamePayload(values, o.values);
}
bool Gradient::operator==(const Gradient& o) const {
  return step == o.step && microbatch == o.microbatch && attempt == o.attempt && hop == o.hop &&
         plan_version == o.plan_version && codec == o.codec && SamePayload(values, o.values);
}
bool Delta::operator==(const Delta& o) const {
  return stage == o.stage && round == o.round && tokens == o.tokens && digest == o.digest &&
         plan_version == o.plan_version && sender == o.sender && SamePayload(payload, o.payload);
}
bool DeltaSum::operator==(const DeltaSum& o) const {
  return stage == o.stage && round == o.round && shape == o.shape && tokens == o.tokens &&
         digest == o.digest && plan_version == o.plan_version && sender == o.sender &&
         SamePayload(payload, o.payload);
}
bool SumShown::operator==(const SumShown& o) const {
  return stage == o.stage && round == o.round && SamePayload(payload, o.payload);
}
bool WorkCopy::operator==(const WorkCopy& o) const {
  return step == o.step && microbatch == o.microbatch && attempt == o.attempt &&
         suspect == o.suspect && part == o.part && codec == o.codec &&
         SamePayload(values, o.values);
}
bool GroupValues::operator==(const GroupValues& o) const {
  return group == o.group && operation == o.operation && step == o.step && piece == o.piece &&
         SamePayload(values, o.values);
}
bool ObjectChunk::operator==(const ObjectChunk& o) const {
  return object == o.object && offset == o.offset && total_bytes == o.total_bytes &&
         SamePayload(values, o.values);
}

Message::Message() = default;
Message::Message(const Message&) = default;
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(const Message&) = default;
Message& Message::operator=(Message&&) noexcept = default;
Message::~Message() = default;
bool Message::operator==(const Message& o) const {
  return static_cast<const MessageVariant&>(*this) == static_cast<const MessageVariant&>(o);
}

int64_t WireSize(const Message& message) {
  const int64_t body = std::visit(
      Overloaded{
          [](const Ping& m) { return m.padding_bytes; },
          [](const Activation& m) {
            return SizeOf(m.values) + 8 * static_cast<int64_t>(m.path.size());
          },
          [](const Gradient& m) { return SizeOf(m.values); },
          [](const WorkCopy& m) { return SizeOf(m.values) + 40; },
          [](const WorkCheck&) { return int64_t{160}; },
          [](const BoundarySizes& m) { return 16 + 48 * static_cast<int64_t>(m.sides.size()); },
          [](const GroupValues& m) { return SizeOf(m.values) + 40; },
          [](const GroupTrial& m) { return 48 + 32 * static_cast<int64_t>(m.members.size()); },
          [](const Delta& m) { return SizeOf(m.payload) + 32; },
          [](const DeltaSum& m) { return SizeOf(m.payload) + 40; },
          [](const SumsHeld& m) {
            return 80 * static_cast<int64_t>(m.sums.size()) + BytesOf(m.statement);
          },
          [](const SumCheck& m) {
            return 128 + 80 * static_cast<int64_t>(m.summed.size()) +
                   72 * static_cast<int64_t>(m.states.size());
          },
          [](const SumShown& m) { return SizeOf(m.payload) + 32; },
          [](const LeftOverSent& m) { return 64 + 4 * static_cast<int64_t>(m.pieces.size()); },
          [](const DeltaStatistics& m) { return 16 * static_cast<int64_t>(m.bytes.size()); },
          [](const RoundLate& m) {
            return 32 * static_cast<int64_t>(m.deltas_of.size() + m.sums_of.size());
          },
          [](const CheckpointState& m) { return 32 * static_cast<int64_t>(m.chunks.size()) + 32; },
          [](const StateRefuted&) { return int64_t{128}; },
          [](const StepTrace& m) { return 24 + 40 * static_cast<int64_t>(m.tasks.size()); },
          [](const Acquaint& m) { return 32 * static_cast<int64_t>(m.nodes.size()); },
          [](const RoundApplied& m) { return 96 + 32 * static_cast<int64_t>(m.screened.size()); },
          [](const ObjectChunk& m) {
            return SizeOf(m.values) + static_cast<int64_t>(m.object.size());
          },
          [](const Peers& m) {
            return 96 * static_cast<int64_t>(m.peers.size()) +
                   32 * static_cast<int64_t>(m.gone.size());
          },
          [](const Welcome& m) { return 256 + 96 * static_cast<int64_t>(m.shards.size()); },
          [](const StepReport& m) { return 12 * static_cast<int64_t>(m.losses.size()); },
          [](const RoundCommit& m) {
            return 80 * static_cast<int64_t>(m.participants.size()) +
                   32 * static_cast<int64_t>(m.messages.size()) +
                   static_cast<int64_t>(m.table.size());
          },
          [](const PlanUpdate& m) { return BytesOf(m.plan); },
          [](const VoidList& m) { return 16 + 16 * static_cast<int64_t>(m.microbatches.size()); },
          [](const auto&) { return int64_t{96}; },
      },
      message);
  return kFrameOverheadBytes + body;
}

std::string Describe(const Message& message) {
  using absl::StrFormat;
  return std::visit(
      Overloaded{
          [](const Hello& m) { return StrFormat("Hello step %d", m.step); },
          [](const Welcome&) { return std::string("Welcome"); },
          [](const Refused& m) { return "Refused " + m.reason; },
          [](const Peers& m) { return StrFormat("Peers %d", m.peers.size()); },
          [](const ProbeRequest& m) { return "ProbeRequest " + m.target.Short(); },
          [](const Ping& m) { return StrFormat("Ping %d bytes", m.padding_bytes); },
          [](const Pong&) { return std::string("Pong"); },
          [](const LinkReading& m) { return "LinkReading " + m.target.Short(); },
          [](const PlanUpdate& m) { return StrFormat("PlanUpdate %d", m.plan->version); },
          [](const Heartbeat& m) { return StrFormat("Heartbeat step %d", m.step); },
          [](const StepReport& m) { return StrFormat("StepReport %d", m.step); },
          [](const Leave& m) { return "Leave " + m.reason; },
          [](const Shutdown& m) { return "Shutdown " + m.reason; },
          [](const Activation& m) { return OfHop("Activation", m); },
          [](const Gradient& m) { return OfHop("Gradient", m); },
          [](const MicrobatchVoid& m) { return OfAttempt("MicrobatchVoid", m); },
          [](const Delta& m) { return OfRound("Delta", m); },
          [](const DeltaSum& m) { return OfRound("DeltaSum", m); },
          [](const SumsHeld& m) { return OfRound("SumsHeld", m); },
          [](const SumCheck& m) { return OfRound("SumCheck", m) + " of " + m.reducer.Short(); },
          [](const SumShown& m) { return OfRound("SumShown", m); },
          [](const SumChecked& m) { return OfRound("SumChecked", m) + " of " + m.reducer.Short(); },
          [](const LeftOverSent& m) { return OfRound("LeftOverSent", m); },
          [](const WorkCheck& m) { return OfVisit("WorkCheck", m); },
          [](const WorkCopy& m) { return OfVisit("WorkCopy", m); },
          [](const WorkChecked& m) { return OfVisit("WorkChecked", m); },
          [](const BoundarySizes& m) { return StrFormat("BoundarySizes step %d", m.first_step); },
          [](const RoundLate& m) { return LateRound(m); },
          [](const DeltaHeld& m) { return OfRound("DeltaHeld", m) + " of " + m.sender.Short(); },
          [](const RoundCommit& m) { return OfRound("RoundCommit", m) + Count(m.participants); },
          [](const RoundApplied& m) { return OfRound("RoundApplied", m); },
          [](const DeltaStatistics& m) { return OfRound("DeltaStatistics", m); },
          [](const CheckpointRequest& m) { return OfRound("CheckpointRequest", m); },
          [](const CheckpointState& m) { return OfRound("CheckpointState", m); },
          [](const StateRoot& m) { return OfRound("StateRoot", m); },
          [](const StateRefuted& m) { return OfRound("StateRefuted", m); },
          [](const ObjectRequest& m) { return OfObject("ObjectRequest", m); },
          [](const ObjectChunk& m) { return OfObject("ObjectChunk", m); },
          [](const HopLate& m) { return OfHop("HopLate", m); },
          [](const Detour& m) {
            return StrFormat("Detour step %d microbatch %d around %s", m.step, m.microbatch,
                             m.around.Short());
          },
          [](const VoidList& m) { return StrFormat("VoidList of %d", m.microbatches.size()); },
          [](const Reachability& m) { return "Reachability of " + m.node.Short(); },
          [](const StepTrace& m) { return StrFormat("StepTrace step %d", m.step); },
          [](const Standing& m) { return StrFormat("Standing %d of %d", m.rank, m.nodes); },
          [](const Acquaint& m) { return StrFormat("Acquaint with %d", m.nodes.size()); },
          [](const GroupValues& m) { return OfPiece(m); },
          [](const GroupSign& m) { return (m.ended ? "GroupSign ended: " : "GroupSign") + m.why; },
          [](const GroupTrial& m) { return StrFormat("GroupTrial of %d", m.members.size()); },
          [](const GroupTried& m) { return "GroupTried " + m.failed; },
          [](const CohortBroken& m) { return "CohortBroken by " + m.about.Short(); },
      },
      message);
}

bool OutlivesSession(const Message& message) {
  return std::holds_alternative<Activation>(message) || std::holds_alternative<Gradient>(message) ||
         std::holds_alternative<MicrobatchVoid>(message) ||
         std::holds_alternative<VoidList>(message) || std::holds_alternative<Delta>(message) ||
         std::holds_alternative<DeltaSum>(message);
}

bool IsBulk(const Message& message) {
  if (const auto* ping = std::get_if<Ping>(&message)) return ping->padding_bytes > 0;
  return std::holds_alternative<Activation>(message) || std::holds_alternative<Gradient>(message) ||
         std::holds_alternative<WorkCopy>(message) || std::holds_alternative<Delta>(message) ||
         std::holds_alternative<DeltaSum>(message) || std::holds_alternative<SumShown>(message) ||
         std::holds_alternative<GroupValues>(message) ||
         std::holds_alternative<ObjectChunk>(message);
}

}  // namespace skerry
