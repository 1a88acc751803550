#include "localsgd/sum_proof.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/digest.h"

namespace skerry {
namespace {

Digest DigestAt(const Payload& list, size_t index) {
  Digest digest;
  std::memcpy(digest.bytes.data(), View(list).data() + index * sizeof digest.bytes,
              sizeof digest.bytes);
  return digest;
}

// Whether the shown lists of digests are of the pieces, and what was said of each participant.
bool AreParts(const SumCheck& check, size_t pieces, const ShownSum& shown) {
  if (shown.parts.size() != check.summed.size()) return false;
  for (size_t p = 0; p < shown.parts.size(); ++p) {
    const auto list = View(shown.parts[p]);
    if (list.size() != pieces * sizeof(Digest::bytes)) return false;
    if (DigestOf(list) != check.summed[p].digest) return false;
  }
  return true;
}

std::optional<std::vector<float>> LeftOverOf(const Payload& shown, const Digest& before) {
  const auto bytes = View(shown);
  if (before.IsZero()) return bytes.empty() ? std::optional(std::vector<float>()) : std::nullopt;
  if (bytes.size() % sizeof(float) != 0 || DigestOf(bytes) != before) return std::nullopt;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// One drawn piece, the `place`-th of those that the reducer sums.
SumVerdict CheckPiece(const SumCheck& check, size_t place, const ShownSum& shown,
                      const ShownSum::Piece& drawn, const Payload& sum, PieceReducer* fresh) {
  const PieceState& state = check.states[place];
  auto left_over = LeftOverOf(drawn.left_over, state.before);
  if (!left_over || drawn.messages.size() != check.summed.size() ||
      (!left_over->empty() &&
       static_cast<int64_t>(left_over->size()) != fresh->SizeOf(state.piece))) {
    return SumVerdict::kNotShown;
  }
  std::vector<RoundMessage> messages;
  for (size_t p = 0; p < drawn.messages.size(); ++p) {
    const auto message = View(drawn.messages[p]);
    if (DigestOf(message) != DigestAt(shown.parts[p], place)) return SumVerdict::kNotShown;
    const int32_t rounds = check.covered.empty() ? 1 : check.covered[p];
    messages.push_back({check.summed[p].tokens, message, rounds});
  }
  fresh->Resume(state.piece, *std::move(left_over));
  PieceState right;
  const auto again = fresh->Reduce(state.piece, messages, check.round, &right);
  // What cannot be summed could not be by the reducer either.
  const auto said = View(sum);
  const bool is_same =
      again.ok() && std::equal(again->begin(), again->end(), said.begin(), said.end());
  return is_same && right == state ? SumVerdict::kTrue : SumVerdict::kFalse;
}

}  // namespace

SumVerdict CheckShownSum(const SumCheck& check, const std::vector<int32_t>& own,
                         const ShownSum& shown, const std::map<int32_t, Payload>& sums,
                         PieceReducer fresh) {
  const bool are_all =
      std::equal(own.begin(), own.end(), check.states.begin(), check.states.end(),
                 [](int32_t piece, const PieceState& state) { return piece == state.piece; });
  const bool fits = check.covered.empty() || check.covered.size() == check.summed.size();
  if (!are_all || !fits || DigestOf(View(shown.sums)) != check.sum ||
      !AreParts(check, own.size(), shown) || shown.drawn.size() != check.drawn.size()) {
    return SumVerdict::kNotShown;
  }
  for (size_t i = 0; i < check.drawn.size(); ++i) {
    const auto at = std::find(own.begin(), own.end(), check.drawn[i]);
    const auto sum = sums.find(check.drawn[i]);
    if (at == own.end()) return SumVerdict::kNotShown;
    if (sum == sums.end()) return SumVerdict::kFalse;  // of a piece of its part it sent none
    const auto place = static_cast<size_t>(at - own.begin());
    const SumVerdict verdict = CheckPiece(check, place, shown, shown.drawn[i], sum->second, &fresh);
    if (verdict != SumVerdict::kTrue) return verdict;
  }
  return SumVerdict::kTrue;
}

}  // namespace skerry
