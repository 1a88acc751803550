#include "model/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <unordered_map>

namespace skerry {
namespace {

struct Range {
  uint32_t first, last;
};
struct ClassRange {
  uint32_t first, last;
  uint8_t combining;
};
struct Decomposition {
  uint32_t point, first, second;  // second 0: of one
  bool composes;                  // and back
};

#include "model/unicode_tables.inc"

// Hangul syllables are composed by arithmetic (section 3.12 of the standard).
constexpr uint32_t kSyllables = 0xac00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11a7;
constexpr uint32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr uint32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

template <typename Table>
const auto* Find(const Table& table, uint32_t point) {
  const auto after =
      std::upper_bound(std::begin(table), std::end(table), point,
                       [](uint32_t p, const auto& range) { return p < range.first; });
  return after != std::begin(table) && point <= std::prev(after)->last ? &*std::prev(after)
                                                                       : nullptr;
}

// Categories of the Basic Multilingual Plane and what follows it, looked up once each.
class ClassTable {
 public:
  ClassTable() : of_(kPoints) {
    Mark(kLetters, 1);
    Mark(kNumbers, 2);
  }
  uint8_t operator[](uint32_t point) const { return point < kPoints ? of_[point] : Slow(point); }

 private:
  static constexpr uint32_t kPoints = 0x10000;
  template <typename Table>
  void Mark(const Table& table, uint8_t what) {
    for (const Range& range : table) {
      for (uint32_t p = range.first; p <= range.last && p < kPoints; ++p) of_[p] = what;
    }
  }
  static uint8_t Slow(uint32_t point) {
    if (Find(kLetters, point) != nullptr) return 1;
    return Find(kNumbers, point) != nullptr ? 2 : 0;
  }
  std::vector<uint8_t> of_;
};

const ClassTable& Classes() {
  static const ClassTable table;
  return table;
}

uint8_t CombiningClass(uint32_t point) {
  const ClassRange* range = Find(kClasses, point);
  return range == nullptr ? uint8_t{0} : range->combining;
}

void Decompose(uint32_t point, std::vector<uint32_t>& out) {
  if (point >= kSyllables && point < kSyllables + kSyllableCount) {
    const uint32_t index = point - kSyllables, trailing = index % kTrailingCount;
    out.push_back(kLeading + index / (kVowelCount * kTrailingCount));
    out.push_back(kVowels + index / kTrailingCount % kVowelCount);
    if (trailing != 0) out.push_back(kTrailing + trailing);
    return;
  }
  const auto at = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), point,
                                   [](const Decomposition& d, uint32_t p) { return d.point < p; });
  if (at == std::end(kDecompositions) || at->point != point) return out.push_back(point);
  Decompose(at->first, out);
  if (at->second != 0) Decompose(at->second, out);
}

// 0: the two do not compose.
uint32_t Composed(uint32_t first, uint32_t second) {
  if (first >= kLeading && first < kLeading + kLeadingCount && second >= kVowels &&
      second < kVowels + kVowelCount) {
    const uint32_t index = (first - kLeading) * kVowelCount + second - kVowels;
    return kSyllables + index * kTrailingCount;
  }
  const uint32_t within = first - kSyllables;
  if (within < kSyllableCount && within % kTrailingCount == 0 && second > kTrailing &&
      second < kTrailing + kTrailingCount) {
    return first + second - kTrailing;
  }
  static const auto pairs = [] {
    std::unordered_map<uint64_t, uint32_t> made;
    for (const Decomposition& d : kDecompositions) {
      if (d.composes) made.emplace(uint64_t{d.first} << 32 | d.second, d.point);
    }
    return made;
  }();
  const auto at = pairs.find(uint64_t{first} << 32 | second);
  return at == pairs.end() ? 0 : at->second;
}

void OrderMarks(std::vector<uint32_t>& points) {
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && CombiningClass(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(begin),
                     points.begin() + static_cast<ptrdiff_t>(end),
                     [](uint32_t a, uint32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end + 1;
  }
}

void Compose(std::vector<uint32_t>& points) {
  constexpr size_t kNone = SIZE_MAX;
  size_t starter = kNone, out = 0;
  int last_class = -1;  // of what stands between the starter and here; −1: nothing does
  for (const uint32_t point : points) {
    const int own_class = CombiningClass(point);
    const bool is_free = last_class < own_class && !(last_class == 0);
    if (starter != kNone && (last_class == -1 || is_free)) {
      const uint32_t composed = Composed(points[starter], point);
      if (composed != 0) {
        points[starter] = composed;
        continue;
      }
    }
    if (own_class == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = own_class;
    }
    points[out++] = point;
  }
  points.resize(out);
}

}  // namespace

CodePoint CodePointAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const size_t left = text.size() - at;
  const auto follows = [&](size_t count) {
    if (count >= left) return false;
    for (size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
    }
    return true;
  };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xc0 && first < 0xe0 && follows(1)) return {(first & 31u) << 6 | (byte(1) & 63u), 2};
  if (first >= 0xe0 && first < 0xf0 && follows(2)) {
    return {(first & 15u) << 12 | (byte(1) & 63u) << 6 | (byte(2) & 63u), 3};
  }
  if (first >= 0xf0 && first < 0xf8 && follows(3)) {
    return {(first & 7u) << 18 | (byte(1) & 63u) << 12 | (byte(2) & 63u) << 6 | (byte(3) & 63u), 4};
  }
  return {first, 1};
}

void AppendUtf8(uint32_t point, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 63));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 63));
    put(0x80 | (point >> 6 & 63));
  }
  put(0x80 | (point & 63));
}

bool IsLetter(uint32_t point) {
  return Classes()[point] == 1;
}
bool IsNumber(uint32_t point) {
  return Classes()[point] == 2;
}
bool IsSpace(uint32_t point) {
  if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
  return point == 0x85 || point == 0xa0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
         point == 0x202f || point == 0x205f || point == 0x3000;
}

std::string ToNfc(std::string_view text) {
  // Below U+0300 nothing combines and all is composed.
  constexpr char kFirstMark = '\xcc';
  const bool simple = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) >= static_cast<uint8_t>(kFirstMark);
  });
  if (simple) return std::string(text);
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = CodePointAt(text, at);
    Decompose(point.value, points);
    at += point.bytes;
  }
  OrderMarks(points);
  Compose(points);
  std::string out;
  for (const uint32_t point : points) AppendUtf8(point, out);
  return out;
}

}  // namespace skerry
