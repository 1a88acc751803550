// The robust modes (robust.h) on the messages of a round: what they have to know of the decoded
// values, in one pass over them, tile by tile; and the sum of a trimmed tile. All in an order that
// depends on the messages alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compression/codec.h"
#include "localsgd/robust.h"

namespace skerry {

// Immutable; refers to the codec and to the payloads, which outlive it.
class RobustMessages {
 public:
  static constexpr int64_t kTile = 1024;

  // Messages of `size` values that have passed the codec's Check.
  RobustMessages(const Codec& codec, int64_t size, std::vector<std::span<const uint8_t>> payloads);

  // kScreen: in the order of the payloads given. Costs a decoding of all, and R scalar products.
  std::vector<double> Norms() const;

  // kClip: the weights, likewise; R²/2 scalar products.
  RobustWeights ClipWeights(double limit) const;

  // kTrim: whose values are trimmed away so often that it is no accident: at more than (1 + 2k/R)/2
  // of the parameters, where of equals each would be at 2k/R. Judged by at most kJudgedTiles
  // tiles, spread evenly.
  std::vector<bool> MostlyTrimmed(int64_t each_end) const;
  static constexpr int64_t kJudgedTiles = 32;

  // The sum of units of what is left of the values [first, first + sum.size()) when the `each_end`
  // smallest and largest of each are left out. At most kTile; `first` as in Codec::DecodeRange.
  void TrimmedSum(int64_t first, int64_t each_end, std::span<int64_t> sum) const;

 private:
  class Rows;
  size_t count() const { return payloads_.size(); }
  size_t WidthAt(int64_t first) const;
  void AddProducts(const Rows& rows, std::span<const size_t> order, size_t first,
                   std::span<double> products) const;
  std::vector<double> Products(std::span<const size_t> order) const;

  const Codec* codec_;
  int64_t size_;
  std::vector<std::span<const uint8_t>> payloads_;
};

}  // namespace skerry
