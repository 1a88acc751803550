#include "pipeline/exec/transport_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr double kModelledBytesPerS = 4e9;

void Use(std::span<float> own, std::span<const uint8_t> came, bool adds) {
  if (!adds) {
    std::memcpy(own.data(), came.data(), came.size());
    return;
  }
  for (size_t i = 0; i < own.size(); ++i) {
    float value = 0;
    std::memcpy(&value, came.data() + i * sizeof value, sizeof value);
    own[i] += value;
  }
}

}  // namespace

struct TransportRing::Work {
  enum class Kind { kNothing, kUse, kMake };
  Kind kind = Kind::kNothing;
  std::span<float> values = {};  // the piece, where it is
  Payload came = {};             // kUse
  Take take = {};                // kUse
  Bytes made = {};               // kMake
  int32_t step = 0;              // kMake: as the receiver counts
  int64_t piece = 0;
};

TransportRing::TransportRing(TransportRingOptions options, OnEnd on_end)
    : options_(std::move(options)), on_end_(std::move(on_end)), members_(options_.members.size()) {
  SKERRY_CHECK(!members_.empty() && options_.patience > Duration());
}

void TransportRing::Start(Context& context) {
  rank_ = RankOf(context.self());
  SKERRY_CHECK(rank_ >= 0, "no member of its own group");
  if (size() == 1) return;
  for (int32_t r = 0; r < size(); ++r) {
    At(r).heard = context.now();
    if (r != rank_) SendSign(context, r);
  }
  timer_due_ = context.now() + options_.patience / kSignsInPatience;
  timer_ = context.StartTimer(options_.patience / kSignsInPatience);
}

TransportRing::Operation TransportRing::Ring(std::span<float> values) const {
  Operation operation;
  operation.values = values;
  const auto part = (static_cast<int64_t>(values.size()) + size() - 1) / size();
  operation.piece = PieceValues(part);
  operation.to = (rank_ + 1) % size();
  operation.from = (rank_ + size() - 1) % size();
  return operation;
}

void TransportRing::AddPass(Operation& operation, std::vector<Give>& gives, RingPass pass) const {
  const auto part = [&](int32_t p) {
    return PartOf(static_cast<int64_t>(operation.values.size()), size(), p);
  };
  for (int32_t step = 0; step + 1 < size(); ++step) {
    const RingStep parts = RingStepOf(pass, size(), rank_, step);
    if (operation.takes.empty()) {
      gives.push_back({0, part(parts.give), 0, PiecesOf(part(parts.give), operation.piece)});
    } else {
      operation.takes.back().passes_on_as = static_cast<int32_t>(operation.takes.size());
    }
    operation.takes.push_back({part(parts.take), pass == RingPass::kReduce, -1});
  }
}

void TransportRing::AllReduce(Context& context, std::span<float> values) {
  Operation operation = Ring(values);
  std::vector<Give> gives;
  AddPass(operation, gives, RingPass::kReduce);
  AddPass(operation, gives, RingPass::kGather);
  Begin(context, std::move(operation), std::move(gives));
}

void TransportRing::ReduceScatter(Context& context, std::span<float> values) {
  Operation operation = Ring(values);
  std::vector<Give> gives;
  AddPass(operation, gives, RingPass::kReduce);
  Begin(context, std::move(operation), std::move(gives));
}

void TransportRing::AllGather(Context& context, std::span<float> values) {
  Operation operation = Ring(values);
  std::vector<Give> gives;
  AddPass(operation, gives, RingPass::kGather);
  Begin(context, std::move(operation), std::move(gives));
}

void TransportRing::Broadcast(Context& context, std::span<float> values, int32_t root) {
  SKERRY_CHECK(root >= 0 && root < size());
  const GroupPart whole{0, static_cast<int64_t>(values.size())};
  const int32_t next = (rank_ + 1) % size(), previous = (rank_ + size() - 1) % size();
  Operation operation;
  operation.values = values;
  operation.piece = PieceValues(whole.size);
  if (next != root && size() > 1) operation.to = next;
  if (rank_ != root) {
    operation.from = previous;
    operation.takes = {{whole, false, next == root ? -1 : 0}};
  }
  std::vector<Give> gives;
  if (rank_ == root && size() > 1) gives = {{0, whole, 0, PiecesOf(whole, operation.piece)}};
  Begin(context, std::move(operation), std::move(gives));
}

void TransportRing::Send(Context& context, std::span<float> values, int32_t to) {
  SKERRY_CHECK(to >= 0 && to < size() && to != rank_);
  const GroupPart whole{0, static_cast<int64_t>(values.size())};
  Operation operation;
  operation.values = values;
  operation.piece = PieceValues(whole.size);
  operation.to = to;
  Begin(context, operation, {{0, whole, 0, PiecesOf(whole, operation.piece)}});
}

void TransportRing::Receive(Context& context, std::span<float> values, int32_t from) {
  SKERRY_CHECK(from >= 0 && from < size() && from != rank_);
  Operation operation;
  operation.values = values;
  operation.piece = PieceValues(static_cast<int64_t>(values.size()));
  operation.from = from;
  operation.takes = {{{0, static_cast<int64_t>(values.size())}, false, -1}};
  Begin(context, std::move(operation), {});
}

void TransportRing::Begin(Context& context, Operation operation, std::vector<Give> gives) {
  SKERRY_CHECK(!operation_.has_value(), "one operation at a time");
  if (operation.to >= 0) operation.to_number = At(operation.to).sends++;
  if (operation.from >= 0) operation.from_number = At(operation.from).receives++;
  operation_ = std::move(operation);
  gives_.assign(gives.begin(), gives.end());
  // Ends in a later handler also where nothing is to be done.
  Submit(context, std::make_shared<Work>());
  if (status_.ok()) GoOn(context);
}

void TransportRing::GoOn(Context& context) {
  if (const absl::Status used = UseWhatCame(context); !used.ok()) return Fail(context, used);
  GiveWhatMay(context);
}

// Whether all that is to come has come, and its use has begun.
bool TransportRing::HasAll() {
  Operation& operation = *operation_;
  while (operation.step < operation.takes.size() &&
         operation.next_piece == PiecesOf(operation.takes[operation.step].part, operation.piece)) {
    ++operation.step;
    operation.next_piece = 0;
  }
  return operation.step == operation.takes.size();
}

absl::Status TransportRing::UseWhatCame(Context& context) {
  if (!operation_.has_value()) return absl::OkStatus();
  Operation& operation = *operation_;
  while (!HasAll() && !At(operation.from).waiting.empty()) {
    std::deque<GroupValues>& waiting = At(operation.from).waiting;
    const GroupValues message = std::move(waiting.front());
    waiting.pop_front();
    const Take& take = operation.takes[operation.step];
    const GroupPart piece = PieceOf(take.part, operation.next_piece, operation.piece);
    const bool is_due = message.operation == operation.from_number &&
                        message.step == static_cast<int32_t>(operation.step) &&
                        message.piece == operation.next_piece;
    const auto bytes = static_cast<int64_t>(View(message.values).size());
    if (!is_due || bytes != piece.size * static_cast<int64_t>(sizeof(float))) {
      return Of(
          operation.from,
          InvalidArgument("piece %d of step %d of operation %d, of %d bytes, is due, and "
                          "%d of %d of %d, of %d, came: not all call the same",
                          operation.next_piece, operation.step, operation.from_number,
                          4 * piece.size, message.piece, message.step, message.operation, bytes));
    }
    auto work = std::make_shared<Work>();
    work->kind = Work::Kind::kUse;
    work->values =
        operation.values.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.size));
    work->came = message.values;
    work->take = take;
    work->piece = operation.next_piece++;
    Submit(context, std::move(work));
  }
  return absl::OkStatus();
}

void TransportRing::GiveWhatMay(Context& context) {
  if (!operation_.has_value()) return;
  const Operation& operation = *operation_;
  while (!gives_.empty()) {
    Give& give = gives_.front();
    if (give.piece == give.end) {
      gives_.pop_front();
      continue;
    }
    Member& to = At(operation.to);
    if (!to.met || to.sent - to.used >= kWindow) return;
    const GroupPart piece = PieceOf(give.part, give.piece, operation.piece);
    auto work = std::make_shared<Work>();
    work->kind = Work::Kind::kMake;
    work->values =
        operation.values.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.size));
    work->step = give.step;
    work->piece = give.piece++;
    ++to.sent;
    Submit(context, std::move(work));
  }
}

void TransportRing::Submit(Context& context, std::shared_ptr<Work> work) {
  if (jobs_.empty()) last_job_end_ = context.now();
  const double bytes = 4 * stands_for_ * static_cast<double>(work->values.size());
  Job job{"group", Duration::Seconds(bytes / kModelledBytesPerS), [work] {
            if (work->kind == Work::Kind::kUse)
              Use(work->values, View(work->came), work->take.adds);
            if (work->kind != Work::Kind::kMake) return;
            work->made.resize(work->values.size_bytes());
            std::memcpy(work->made.data(), work->values.data(), work->values.size_bytes());
          }};
  job.queue = JobQueue::kBeside;
  jobs_.emplace(context.Submit(std::move(job)), std::move(work));
}

bool TransportRing::OnJobDone(Context& context, JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return false;
  const std::shared_ptr<Work> work = std::move(found->second);
  jobs_.erase(found);
  last_job_end_ = context.now();
  if (status_.ok()) OnWorkDone(context, *work);
  const bool is_over = !status_.ok() || (HasAll() && gives_.empty());
  if (is_over && jobs_.empty()) End(context, status_);
  return true;
}

void TransportRing::OnWorkDone(Context& context, Work& work) {
  const Operation& operation = *operation_;
  if (work.kind == Work::Kind::kUse) {
    Member& from = At(operation.from);
    if (++from.taken - from.told >= kWindow / 4) SendSign(context, operation.from);
    if (work.take.passes_on_as >= 0)
      gives_.push_back({work.take.passes_on_as, work.take.part, work.piece, work.piece + 1});
  } else if (work.kind == Work::Kind::kMake) {
    ++At(operation.to).left;
    const double bytes = stands_for_ * static_cast<double>(work.made.size());
    const auto hollow = static_cast<int64_t>(bytes);
    Tell(
        context, operation.to,
        GroupValues{options_.group, operation.to_number, work.step, work.piece,
                    hollow > std::ssize(work.made) ? MakeHollowPayload(std::move(work.made), hollow)
                                                   : MakePayload(std::move(work.made))});
  }
  GiveWhatMay(context);
}

void TransportRing::End(Context& context, const absl::Status& status) {
  operation_.reset();
  gives_.clear();
  const OnEnd on_end = on_end_;  // this may not live any more when it returns
  on_end(context, absl::Status(status));
}

void TransportRing::Abort(Context& context, const absl::Status& why) {
  Fail(context, Of(rank_, why));
}

void TransportRing::Fail(Context& context, const absl::Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  context.CancelTimer(timer_);
  gives_.clear();
  for (int32_t r = 0; r < size(); ++r) {
    At(r).waiting.clear();
    if (r != rank_) SendSign(context, r);
  }
  if (jobs_.empty()) End(context, status_);
}

}  // namespace skerry
