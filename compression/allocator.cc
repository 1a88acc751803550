#include "compression/allocator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"

namespace skerry {
namespace {

using Tensors = std::span<const std::vector<CodecChoice>>;

// From one choice of a tensor to the next larger one on its hull.
struct Edge {
  double gain;  // error saved per byte
  int32_t tensor;
  int32_t to;
};

// Indices of the lower hull by rising bytes, so falling error.
void Hull(const std::vector<CodecChoice>& choices, std::vector<int32_t>* order,
          std::vector<int32_t>* hull) {
  order->resize(choices.size());
  for (size_t i = 0; i < order->size(); ++i) (*order)[i] = static_cast<int32_t>(i);
  const auto at = [&](int32_t i) -> const CodecChoice& { return choices[static_cast<size_t>(i)]; };
  std::stable_sort(order->begin(), order->end(), [&](int32_t a, int32_t b) {
    return at(a).bytes != at(b).bytes ? at(a).bytes < at(b).bytes : at(a).error < at(b).error;
  });
  hull->clear();
  for (const int32_t c : *order) {
    if (!hull->empty() && at(c).error >= at(hull->back()).error) continue;
    while (hull->size() >= 2) {
      const CodecChoice& a = at((*hull)[hull->size() - 2]);
      const CodecChoice& b = at(hull->back());
      const double through = (a.error - b.error) * static_cast<double>(at(c).bytes - a.bytes);
      if (through > (a.error - at(c).error) * static_cast<double>(b.bytes - a.bytes)) break;
      hull->pop_back();
    }
    hull->push_back(c);
  }
}

// Up to here the repair looks for two changes at a time and begins from several points of the walk;
// with more tensors one of either comes as near.
constexpr size_t kFewTensors = 48;
constexpr size_t kStarts = 8;

class Walk {
 public:
  explicit Walk(Tensors tensors) : tensors_(tensors) {
    std::vector<int32_t> order, hull;
    for (size_t t = 0; t < tensors.size(); ++t) {
      SKERRY_CHECK(!tensors[t].empty(), "a tensor has a codec");
      Hull(tensors[t], &order, &hull);
      result_.choice.push_back(hull[0]);
      const auto tensor = static_cast<int32_t>(t);
      for (size_t i = 1; i < hull.size(); ++i) {
        const CodecChoice &from = Of(tensor, hull[i - 1]), &to = Of(tensor, hull[i]);
        edges_.push_back({(from.error - to.error) / static_cast<double>(to.bytes - from.bytes),
                          tensor, hull[i]});
      }
    }
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const Edge& a, const Edge& b) { return a.gain > b.gain; });
    Recount();
  }

  const Allocation& result() const { return result_; }
  // The error is summed anew, or rounding would add up along the walk.
  void Recount() {
    result_.bytes = 0;
    result_.error = 0;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const CodecChoice& chosen = Chosen(static_cast<int32_t>(t));
      result_.bytes += chosen.bytes;
      result_.error += chosen.error;
    }
  }

  std::optional<Edge> Next() const {
    return next_ < edges_.size() ? std::optional(edges_[next_]) : std::nullopt;
  }
  int64_t NextBytes() const {
    const Edge& edge = edges_[next_];
    return result_.bytes + Of(edge.tensor, edge.to).bytes - Chosen(edge.tensor).bytes;
  }
  void Advance() {
    const Edge& edge = edges_[next_++];
    Choose(edge.tensor, edge.to);
  }
  void Choose(int32_t tensor, int32_t choice) {
    const CodecChoice &from = Chosen(tensor), &to = Of(tensor, choice);
    result_.bytes += to.bytes - from.bytes;
    result_.error += to.error - from.error;
    result_.choice[static_cast<size_t>(tensor)] = choice;
  }

  // Makes the change, of one tensor or of two at once, that is worth most and costs at most `left`;
  // false: none is worth anything. `cost` and `worth` are of going from one choice to another.
  template <typename Cost, typename Worth>
  bool Improve(double left, Cost&& cost, Worth&& worth) {
    changes_.clear();
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const CodecChoice& from = Chosen(static_cast<int32_t>(t));
      for (size_t c = 0; c < tensors_[t].size(); ++c) {
        const CodecChoice& to = tensors_[t][c];
        changes_.push_back(
            {cost(from, to), worth(from, to), static_cast<int32_t>(t), static_cast<int32_t>(c)});
      }
    }
    Change first, second;
    for (const Change& change : changes_) {
      if (change.cost <= left && change.worth > first.worth) first = change;
    }
    if (tensors_.size() <= kFewTensors) FindPair(left, &first, &second);
    if (first.tensor >= 0) Choose(first.tensor, first.choice);
    if (second.tensor >= 0) Choose(second.tensor, second.choice);
    return first.tensor >= 0;
  }

 private:
  const CodecChoice& Of(int32_t tensor, int32_t choice) const {
    return tensors_[static_cast<size_t>(tensor)][static_cast<size_t>(choice)];
  }
  const CodecChoice& Chosen(int32_t tensor) const {
    return Of(tensor, result_.choice[static_cast<size_t>(tensor)]);
  }

  struct Change {
    double cost = 0, worth = 0;
    int32_t tensor = -1, choice = 0;
  };

  // Replaces *first and *second by the pair of changes that is worth more than *first alone.
  void FindPair(double left, Change* first, Change* second) {
    double best = first->worth;
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.cost < b.cost; });
    // The two most worthwhile of different tensors among the cheapest 1, 2, 3, ….
    std::vector<std::pair<Change, Change>> leaders;
    for (const Change& change : changes_) {
      auto [top, next] = leaders.empty() ? std::pair<Change, Change>() : leaders.back();
      if (change.worth > top.worth) {
        if (change.tensor != top.tensor) next = top;
        top = change;
      } else if (change.worth > next.worth && change.tensor != top.tensor) {
        next = change;
      }
      leaders.emplace_back(top, next);
    }
    for (const Change& change : changes_) {
      const auto end = std::upper_bound(
          changes_.begin(), changes_.end(), left - change.cost,
          [](double affordable, const Change& other) { return affordable < other.cost; });
      if (end == changes_.begin()) continue;
      const auto& [top, next] = leaders[static_cast<size_t>(end - changes_.begin()) - 1];
      const Change& other = top.tensor == change.tensor ? next : top;
      if (other.tensor < 0 || !(change.worth + other.worth > best)) continue;
      best = change.worth + other.worth;
      *first = change;
      *second = other;
    }
  }

  Tensors tensors_;
  Allocation result_;
  std::vector<Change> changes_;
  std::vector<Edge> edges_;
  size_t next_ = 0;
};

double ErrorAdded(const CodecChoice& from, const CodecChoice& to) {
  return to.error - from.error;
}
double BytesSaved(const CodecChoice& from, const CodecChoice& to) {
  return static_cast<double>(from.bytes - to.bytes);
}

// Eight sums, every eighth value in one: a sum waits for itself.
double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kSums = 8;
  std::array<double, kSums> sums = {};
  const size_t whole = a.size() / kSums * kSums;
  for (size_t i = 0; i < whole; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) {
      const double lost = static_cast<double>(a[i + j]) - b[i + j];
      sums[j] += lost * lost;
    }
  }
  for (size_t i = whole; i < a.size(); ++i) {
    const double lost = static_cast<double>(a[i]) - b[i];
    sums[i - whole] += lost * lost;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// Each is one pass over all choices; what they gain shrinks fast.
constexpr int kRepairsMax = 16;

}  // namespace

absl::StatusOr<Allocation> AllocateForError(Tensors tensors, double error_max) {
  Walk walk(tensors);
  while (!(walk.result().error <= error_max) && walk.Next()) {
    walk.Advance();
    // Near the budget the sum must not be the one that rounding added up.
    if (walk.result().error <= 1.001 * error_max) walk.Recount();
  }
  walk.Recount();
  if (!(walk.result().error <= error_max)) {
    return FailedPrecondition("the least error of all codecs is %g, above the budget of %g",
                              walk.result().error, error_max);
  }
  Allocation best = walk.result();
  for (size_t start = 0; start < (tensors.size() <= kFewTensors ? kStarts : 1); ++start) {
    Walk repaired = walk;
    for (int i = 0; i < kRepairsMax; ++i) {
      const double left = error_max - repaired.result().error;
      if (!repaired.Improve(left, ErrorAdded, BytesSaved)) break;
      repaired.Recount();
      if (repaired.result().error > error_max) break;
      if (repaired.result().bytes < best.bytes) best = repaired.result();
    }
    if (!walk.Next()) break;
    walk.Advance();
    walk.Recount();
  }
  return best;
}

absl::StatusOr<Allocation> AllocateForBytes(Tensors tensors, int64_t bytes_max) {
  const Walk begin(tensors);
  if (begin.result().bytes > bytes_max) {
    return FailedPrecondition("the smallest codecs take %d bytes, more than the budget of %d",
                              begin.result().bytes, bytes_max);
  }
  Walk walk = begin;
  size_t steps = 0;
  for (; walk.Next() && walk.NextBytes() <= bytes_max; ++steps) walk.Advance();
  walk.Recount();
  Allocation best = walk.result();
  const auto cost = [](const auto& from, const auto& to) { return -BytesSaved(from, to); };
  const auto worth = [](const auto& from, const auto& to) { return -ErrorAdded(from, to); };
  for (size_t start = 0; start < (tensors.size() <= kFewTensors ? kStarts : 1); ++start) {
    for (int i = 0; i < kRepairsMax; ++i) {
      const auto left = static_cast<double>(bytes_max - walk.result().bytes);
      if (!walk.Improve(left, cost, worth)) break;
    }
    walk.Recount();
    if (walk.result().error < best.error) best = walk.result();
    if (start >= steps) break;
    walk = begin;
    for (size_t i = 0; i + start + 1 < steps; ++i) walk.Advance();
  }
  return best;
}

absl::StatusOr<std::vector<CodecChoice>> MeasureCodecs(std::span<const float> u,
                                                       std::span<const DeltaCodec> codecs) {
  std::vector<CodecChoice> choices;
  std::vector<float> decoded(u.size());
  Bytes message;
  for (const DeltaCodec kind : codecs) {
    const Codec& codec = CodecFor(kind);
    SKERRY_RETURN_IF_ERROR(codec.Encode(u, &message));
    SKERRY_RETURN_IF_ERROR(codec.Decode(message, decoded));
    CodecChoice choice = {.bytes = static_cast<int64_t>(message.size())};
    choice.error = SquaredDistance(u, decoded);
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace skerry
