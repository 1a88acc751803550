// What a member of a ring hears and tells beside values: who is there, and how far.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "pipeline/exec/transport_ring.h"

namespace skerry {

bool TransportRing::OnMessage(Context& context, const NodeId& from, const Message& message) {
  const auto* values = std::get_if<GroupValues>(&message);
  const auto* sign = std::get_if<GroupSign>(&message);
  const bool is_ours = (values != nullptr && values->group == options_.group) ||
                       (sign != nullptr && sign->group == options_.group);
  if (!is_ours) return false;
  const int32_t rank = RankOf(from);
  if (rank < 0 || rank == rank_ || !status_.ok()) return true;
  Hear(context, rank);
  if (values != nullptr) {
    OnValues(context, rank, *values);
  } else {
    OnSign(context, rank, *sign);
  }
  return true;
}

void TransportRing::Hear(Context& context, int32_t from) {
  Member& member = At(from);
  member.heard = context.now();
  if (std::exchange(member.met, true)) return;
  SendSign(context, from);  // what was said before it was there is lost
}

void TransportRing::OnValues(Context& context, int32_t from, const GroupValues& message) {
  Member& member = At(from);
  if (static_cast<int64_t>(member.waiting.size()) >= kWindow) {
    return Fail(context, Of(from, InvalidArgument("it sent more than %d pieces that are not used",
                                                  kWindow)));
  }
  ++member.came;
  member.lacks_since = context.now();
  member.waiting.push_back(message);
  GoOn(context);
}

void TransportRing::OnSign(Context& context, int32_t from, const GroupSign& sign) {
  Member& member = At(from);
  if (sign.ended) return Fail(context, Of(from, Aborted("%s", sign.why)));
  if (sign.taken > member.sent) {
    return Fail(context, Of(from, InvalidArgument("it used %d pieces, and was sent %d", sign.taken,
                                                  member.sent)));
  }
  member.used = std::max(member.used, sign.taken);
  if (member.came >= member.said_sent) member.lacks_since = context.now();
  member.said_sent = std::max(member.said_sent, sign.sent);
  GoOn(context);
}

void TransportRing::SendSign(Context& context, int32_t to) {
  Member& member = At(to);
  member.told = member.taken;
  Tell(context, to,
       GroupSign{options_.group, member.left, member.taken, !status_.ok(),
                 ErrorText(status_).substr(0, kWhyMax)});
}

void TransportRing::Tell(Context& context, int32_t to, Message message) const {
  const NodeId& member = options_.members[static_cast<size_t>(to)];
  if (options_.send) return options_.send(context, member, std::move(message));
  context.Send(member, std::move(message));
}

bool TransportRing::OnTimer(Context& context, TimerId timer) {
  if (timer != timer_ || timer_ == 0) return false;
  const Duration period = options_.patience / kSignsInPatience;
  const Duration stood = context.now() - timer_due_;
  if (stood > period) {
    for (Member& member : members_) {
      member.heard = member.heard + stood;
      member.lacks_since = member.lacks_since + stood;
    }
    last_job_end_ = last_job_end_ + stood;
  }
  timer_due_ = context.now() + period;
  timer_ = context.StartTimer(period);
  if (const absl::Status overdue = Overdue(context.now()); !overdue.ok()) {
    Fail(context, overdue);
    return true;
  }
  for (int32_t r = 0; r < size(); ++r) {
    if (r != rank_) SendSign(context, r);
  }
  return true;
}

absl::Status TransportRing::Overdue(Instant now) const {
  const auto late = [this](int32_t rank, const char* what) {
    return Of(rank, absl::DeadlineExceededError(
                        absl::StrFormat("%s for %g s", what, options_.patience.seconds())));
  };
  for (int32_t r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const Member& member = At(r);
    if (now - member.heard >= options_.patience) return late(r, "nothing was heard of it");
    if (member.came < member.said_sent && now - member.lacks_since >= options_.patience)
      return late(r, "nothing of what it sent has arrived");
  }
  if (!jobs_.empty() && now - last_job_end_ >= options_.patience)
    return late(rank_, "its device has finished nothing");
  return absl::OkStatus();
}

std::vector<NodeId> TransportRing::SilentFor(Instant now, Duration time) const {
  std::vector<NodeId> silent;
  for (int32_t r = 0; r < size(); ++r) {
    if (r != rank_ && now - At(r).heard >= time)
      silent.push_back(options_.members[static_cast<size_t>(r)]);
  }
  return silent;
}

void TransportRing::OnPeerRestarted(Context& context, const NodeId& peer) {
  const int32_t rank = RankOf(peer);
  if (rank < 0 || rank == rank_ || !status_.ok() || !At(rank).met) return;
  Fail(context, Of(rank, Aborted("its process was replaced by another")));
}

absl::Status TransportRing::Of(int32_t rank, const absl::Status& status) const {
  constexpr const char* kBegins = "member ";
  SKERRY_CHECK(!status.ok());
  if (ErrorText(status).rfind(kBegins, 0) == 0) return status;
  return Annotate(status, absl::StrFormat("%s%d of %d", kBegins, rank, size()));
}

// The text is what all members have of an error, wherever it began.
const NodeId& TransportRing::blamed() const {
  SKERRY_CHECK(!status_.ok());
  const std::string text = ErrorText(status_);
  const size_t number = text.find_first_of("0123456789");
  const int64_t rank =
      number == std::string::npos ? rank_ : std::strtoll(text.c_str() + number, nullptr, 10);
  return options_.members[static_cast<size_t>(rank >= 0 && rank < size() ? rank : rank_)];
}

int32_t TransportRing::RankOf(const NodeId& id) const {
  const auto found = std::find(options_.members.begin(), options_.members.end(), id);
  return found == options_.members.end() ? -1
                                         : static_cast<int32_t>(found - options_.members.begin());
}

int64_t TransportRing::PieceValues(int64_t part) const {
  if (options_.piece_values > 0) return options_.piece_values;
  const auto stood_for = static_cast<int64_t>(std::ceil(static_cast<double>(part) * stands_for_));
  const int64_t piece =
      std::clamp((stood_for + kPiecesOfPart - 1) / kPiecesOfPart, kPieceMin, kPieceMax);
  return std::max<int64_t>(1, std::llround(static_cast<double>(piece) / stands_for_));
}

int64_t TransportRing::PiecesOf(const GroupPart& part, int64_t piece) {
  return (part.size + piece - 1) / piece;
}

GroupPart TransportRing::PieceOf(const GroupPart& part, int64_t index, int64_t piece) {
  const int64_t begin = index * piece;
  return {part.first + begin, std::min(piece, part.size - begin)};
}

}  // namespace skerry
