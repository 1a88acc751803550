// What a virtual run sees of messages and of a node's arithmetic, and may do to that.

#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "pipeline/plan/route.h"
#include "sim/simulated_signature.h"
#include "sim/virtual_run.h"

namespace skerry {
namespace {

std::vector<Payload> WildMessages(const TrainedStage& trained, int64_t round,
                                  const std::vector<Payload>& honest, const WildDelta& how,
                                  Rng* rng) {
  std::vector<Payload> wild;
  for (const Payload& message : honest) {
    const auto piece = static_cast<int32_t>(wild.size());
    wild.push_back(WildMessage(message, trained.MessageValues(round, piece),
                               *trained.CodecOf(round, piece), how, rng));
  }
  return wild;
}

// Of a reducer that lies, and if it covers its tracks says of what is left over what would follow.
std::vector<Payload> FalseSums(const TrainedStage& trained, const StageWork::Reduction& reduction,
                               const std::vector<Payload>& honest, const StageFaults& how, Rng* rng,
                               std::vector<PieceState>* states) {
  std::vector<Payload> sums;
  PieceReducer covering = trained.ReducerOf(reduction.round);
  for (size_t k = 0; k < honest.size(); ++k) {
    const int32_t piece = reduction.pieces[k];
    sums.push_back(WildMessage(honest[k], trained.MessageValues(reduction.round, piece),
                               *trained.DownCodecOf(reduction.round, piece), how.false_sums, rng));
    if (!how.covers_up || states == nullptr) continue;
    std::vector<RoundMessage> messages;
    for (const auto& m : reduction.messages[k]) {
      messages.push_back({m.tokens, View(m.payload), m.rounds});
    }
    const auto* from = covering.ReducedFrom(piece, (*states)[k].before);
    SKERRY_CHECK(from != nullptr, "it was just reduced from that");
    covering.Resume(piece, *from);
    const absl::Status landed =
        covering.Land(piece, std::move(messages), View(sums.back()), reduction.round);
    if (landed.ok()) (*states)[k].after = StateDigest(covering.LeftOverOf(piece));
  }
  return sums;
}

// Of TestNodeId; the coordinator is 0.
uint32_t NumberOf(const NodeId& id) {
  uint32_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | id.bytes[i];
  return number;
}

}  // namespace

void VirtualRun::OnSent(Instant, const NodeId& from, const NodeId& to, const Message& message) {
  checkers_.OnSent(from, to, message);
  if (AreApart(from, to)) bytes_between_regions_ += WireSize(message);
  if (sent_) sent_(from, message);
}

void VirtualRun::OnWithdrawn(Instant, const NodeId& from, const NodeId& to,
                             const Message& message) {
  checkers_.OnWithdrawn(from, to, message);
  bytes_withdrawn_ += WireSize(message);
  if (AreApart(from, to)) bytes_between_regions_ -= WireSize(message);
}

bool VirtualRun::AreApart(const NodeId& from, const NodeId& to) const {
  const uint32_t a = NumberOf(from), b = NumberOf(to);
  return a > 0 && b > 0 && options_.nodes[a - 1].region != options_.nodes[b - 1].region;
}

void VirtualRun::WantSignatures(CoordinatorOptions& options) {
  options.is_signed = [](const NodeId& by, const auto& statement, const auto& signature) {
    return SimulatedSignature(by, statement) == signature;
  };
  options.keep_shown = [this](const SumCheck& check, const Payload& shown) {
    const auto bytes = View(shown);
    shown_[ShownFileName(check)] = Bytes(bytes.begin(), bytes.end());
  };
  trained_model_ = options.trained_model.value_or(options_.config.model);
}

Signature VirtualRun::Signed(int32_t i, std::span<const uint8_t> statement) const {
  const bool is_own = !faults_[static_cast<size_t>(i)]->unsigned_words;
  return SimulatedSignature(is_own ? node(i) : coordinator(), statement);
}

void VirtualRun::AddLies(int32_t i, const TrainedStage& trained,
                         ObservedStage::Observer& observer) {
  const auto rng_of = [this, i](const char* what) {
    return std::make_shared<Rng>(options_.seed, what, static_cast<uint64_t>(i));
  };
  const auto last_said = [this, id = node(i)]() -> std::vector<Payload>& {
    const auto& plan = checkers_.state().plan;
    const auto slot = plan ? SlotOf(*plan, id) : std::nullopt;
    return last_said_[slot ? slot->stage : -1];  // −1: put out meanwhile
  };
  observer.said = [last_said](const auto& messages) { last_said() = messages; };
  observer.wild = [&trained, last_said, rng = rng_of("wild deltas")](
                      int64_t round, const auto& honest, const WildDelta& how) {
    const bool copies = how.is_copy && last_said().size() == honest.size();
    return WildMessages(trained, round, copies ? last_said() : honest, how, rng.get());
  };
  observer.false_sums = [&trained, rng = rng_of("false sums")](const auto& reduction,
                                                               const auto& honest, const auto& how,
                                                               auto* states) {
    return FalseSums(trained, reduction, honest, how, rng.get(), states);
  };
}

// `trained`: nullptr without arithmetic.
ObservedStage::Observer VirtualRun::ObserverOf(int32_t i, TrainedStage* trained) {
  ObservedStage::Observer observer;
  const NodeId id = node(i);
  observer.accumulated = [this, id](int64_t step, int32_t microbatch) {
    checkers_.OnAccumulated(simulation_->now(), id, step, microbatch);
  };
  observer.stepped = [this, id](int64_t step, int32_t microbatches) {
    checkers_.OnStepped(simulation_->now(), id, step, microbatches);
  };
  observer.stepped_together = [this, id](int64_t step, const Digest& weights) {
    checkers_.OnSteppedTogether(simulation_->now(), id, step, weights);
  };
  observer.worked = [this, id](int64_t step, int32_t microbatch) {
    if (worked_) worked_(id, step, microbatch);
  };
  observer.encoded = [this, id](int64_t round, int64_t step) {
    checkers_.OnEncoded(simulation_->now(), id, round, step);
  };
  observer.applied = [this, id](int64_t round, int64_t step) {
    checkers_.OnApplied(simulation_->now(), id, round, step);
  };
  if (trained == nullptr) return observer;
  observer.vectors = [trained] {
    const OuterFragments& fragments = trained->fragments();
    const auto n = static_cast<size_t>(fragments.size());
    ReplicaVectors vectors{std::vector<float>(n), trained->LiveParameters(), std::vector<float>(n)};
    fragments.ReadBase(vectors.base);
    fragments.ReadResidual(vectors.residual);
    return vectors;
  };
  observer.decode = [trained](int64_t round, const auto& d) {
    return trained->DecodeDelta(round, d);
  };
  observer.decode_pieces = [trained](int64_t round, const std::vector<Payload>& pieces) {
    return trained->DecodePieces(round, pieces);
  };
  if (options_.config.outer.robust == OuterRobust::kNone) {  // else it may be dropped
    observer.left_over = [trained](int64_t round) { return trained->LeftOver(round); };
    observer.decode_left_over = [trained](int64_t round, const Piece& piece) {
      return trained->DecodeLeftOver(round, piece);
    };
  }
  observer.restarts = options_.config.outer.mode == OuterMode::kCo2;
  AddLies(i, *trained, observer);
  observer.settled = [this, id](int64_t round, double error) {
    checkers_.OnSettled(simulation_->now(), id, round, error);
  };
  return observer;
}

}  // namespace skerry
