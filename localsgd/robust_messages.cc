#include "localsgd/robust_messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "compression/loops.h"

namespace skerry {

namespace {

// The sizes of the strips of a tile in which rows are sorted and multiplied: a strip of all rows
// stays in the first-level cache.
constexpr size_t kStrip = 256;

}  // namespace

// The decoded values of a tile, a row for each message.
class RobustMessages::Rows {
 public:
  explicit Rows(const RobustMessages& messages)
      : messages_(messages),
        values_(std::make_unique_for_overwrite<float[]>(messages.count() * kStride)) {}

  void Decode(int64_t first, size_t width) {
    width_ = width;
    for (size_t i = 0; i < messages_.count(); ++i) {
      messages_.codec_->DecodeRange(messages_.payloads_[i], messages_.size_, first,
                                    {Row(i), width_});
    }
  }

  // Every column ascending: Batcher's merge exchange (Knuth, 5.2.2, algorithm M).
  void Sort() {
    for (size_t first = 0; first < width_; first += kStrip) {
      SortStrip(first, std::min(kStrip, width_ - first));
    }
  }

  std::span<const float> operator[](size_t message) const {
    return {values_.get() + message * kStride, width_};
  }

 private:
  // Rows a multiple of 4096 bytes apart would share the sets of a cache.
  static constexpr size_t kStride = static_cast<size_t>(kTile) + 16;
  float* Row(size_t i) { return values_.get() + i * kStride; }

  void SortStrip(size_t first, size_t width) {
    const size_t n = messages_.count();
    size_t top = 1;
    while (2 * top < n) top *= 2;
    for (size_t p = top; p > 0; p /= 2) {
      size_t q = top, r = 0, d = p;
      for (;;) {
        for (size_t i = 0; i + d < n; ++i) {
          if ((i & p) == r) BestLoops().exchange(Row(i) + first, Row(i + d) + first, width);
        }
        if (q == p) break;
        d = q - p;
        q /= 2;
        r = p;
      }
    }
  }

  const RobustMessages& messages_;
  std::unique_ptr<float[]> values_;
  size_t width_ = 0;
};

RobustMessages::RobustMessages(const Codec& codec, int64_t size,
                               std::vector<std::span<const uint8_t>> payloads)
    : codec_(&codec), size_(size), payloads_(std::move(payloads)) {}

size_t RobustMessages::WidthAt(int64_t first) const {
  return static_cast<size_t>(std::min(kTile, size_ - first));
}

std::vector<double> RobustMessages::Norms() const {
  std::vector<float> values(static_cast<size_t>(kTile));
  std::array<double, kStrip> wide;
  std::vector<double> norms;
  for (const auto& payload : payloads_) {
    double square = 0;
    for (int64_t first = 0; first < size_; first += kTile) {
      const auto tile = std::span(values).first(WidthAt(first));
      codec_->DecodeRange(payload, size_, first, tile);
      for (size_t at = 0; at < tile.size(); at += kStrip) {
        const size_t width = std::min(kStrip, tile.size() - at);
        std::copy_n(tile.data() + at, width, wide.data());
        square += BestLoops().product(wide.data(), wide.data(), width);
      }
    }
    norms.push_back(std::sqrt(square));
  }
  return norms;
}

void RobustMessages::AddProducts(const Rows& rows, std::span<const size_t> order, size_t first,
                                 std::span<double> products) const {
  const size_t n = count(), width = std::min(kStrip, rows[0].size() - first);
  const auto wide = std::make_unique_for_overwrite<double[]>(n * kStrip);
  for (size_t i = 0; i < n; ++i) {
    std::copy_n(rows[order[i]].data() + first, width, wide.get() + i * kStrip);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      products[i * n + j] +=
          BestLoops().product(wide.get() + i * kStrip, wide.get() + j * kStrip, width);
    }
  }
}

std::vector<double> RobustMessages::Products(std::span<const size_t> order) const {
  const size_t n = count();
  std::vector<double> products(n * n, 0.0);
  Rows rows(*this);
  for (int64_t first = 0; first < size_; first += kTile) {
    rows.Decode(first, WidthAt(first));
    for (size_t at = 0; at < WidthAt(first); at += kStrip) {
      AddProducts(rows, order, at, products);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) products[i * n + j] = products[j * n + i];
  }
  return products;
}

RobustWeights RobustMessages::ClipWeights(double limit) const {
  // Whoever is interchangeable here has the same bytes.
  std::vector<size_t> order(count());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(payloads_[a].begin(), payloads_[a].end(),
                                        payloads_[b].begin(), payloads_[b].end());
  });
  const RobustWeights ordered = skerry::ClipWeights(Products(order), limit);
  RobustWeights out = ordered;
  for (size_t i = 0; i < order.size(); ++i) {
    out.weights[order[i]] = ordered.weights[i];
    out.screened[order[i]] = ordered.screened[i];
  }
  return out;
}

std::vector<bool> RobustMessages::MostlyTrimmed(int64_t each_end) const {
  const auto k = static_cast<size_t>(each_end);
  const int64_t tiles = (size_ + kTile - 1) / kTile;
  const int64_t stride = std::max<int64_t>((tiles + kJudgedTiles - 1) / kJudgedTiles, 1);
  std::vector<int64_t> trimmed(count(), 0);
  int64_t judged = 0;
  Rows rows(*this), sorted(*this);
  for (int64_t tile = 0; tile < tiles && k > 0; tile += stride) {
    const size_t width = WidthAt(tile * kTile);
    rows.Decode(tile * kTile, width);
    sorted.Decode(tile * kTile, width);
    sorted.Sort();
    const auto low = sorted[k], high = sorted[count() - 1 - k];
    for (size_t i = 0; i < count(); ++i) {
      const auto row = rows[i];
      for (size_t j = 0; j < width; ++j) {
        trimmed[i] += static_cast<int64_t>(row[j] < low[j] || row[j] > high[j]);
      }
    }
    judged += static_cast<int64_t>(width);
  }
  std::vector<bool> mostly;
  const double share = 0.5 + static_cast<double>(each_end) / static_cast<double>(count());
  for (const int64_t times : trimmed) {
    mostly.push_back(static_cast<double>(times) > share * static_cast<double>(judged));
  }
  return mostly;
}

void RobustMessages::TrimmedSum(int64_t first, int64_t each_end, std::span<int64_t> sum) const {
  SKERRY_CHECK(static_cast<int64_t>(sum.size()) <= kTile);
  std::fill(sum.begin(), sum.end(), 0);
  const auto k = static_cast<size_t>(each_end);
  Rows rows(*this);
  rows.Decode(first, sum.size());
  rows.Sort();
  for (size_t i = k; i < count() - k; ++i) {
    BestLoops().accumulate_plain(rows[i].data(), sum.size(), 1, sum.data());
  }
}

}  // namespace skerry
