// Every fuzz target over its seeds, what was once found (corpus/), and mutations of both that are
// the same on every machine. `./dev fuzz` looks further.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/rng.h"
#include "tests/fuzz/targets.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kInputMax = 1 << 16;
constexpr int64_t kMutatedBytes = 15 << 20;  // of a target, so that each takes about as long
constexpr int64_t kMutationsMax = 15'000;

// SKERRY_FUZZ_TIMES=N does N times as much, with a seed of its own.
int64_t Times() {
  const char* times = std::getenv("SKERRY_FUZZ_TIMES");
  return times == nullptr ? 1 : std::max(1, std::atoi(times));
}

std::vector<Bytes> Corpus(const FuzzTarget& target) {
  std::vector<Bytes> corpus = target.seeds();
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(SKERRY_CORPUS_DIR) / target.name, error))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// One to eight changes: a bit, a byte, an extreme number, a piece cut, doubled or from elsewhere.
Bytes Mutated(Bytes bytes, const Bytes& other, Rng& rng) {
  static constexpr uint64_t kExtremes[] = {0,          1,          0x7f,       0xff,
                                           0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0} >> 1};
  const auto below = [&](size_t bound) {
    return bound == 0 ? 0 : static_cast<size_t>(rng.Below(bound));
  };
  for (size_t left = 1 + below(8); left > 0; --left) {
    const size_t at = below(bytes.size());
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t run = std::min(1 + below(64), bytes.size() - at);
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) *here ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        if (!bytes.empty()) *here = static_cast<uint8_t>(below(256));
        break;
      case 2: {
        const uint64_t value = kExtremes[below(std::size(kExtremes))];
        for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i)
          bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
        break;
      }
      case 3:
        bytes.erase(here, here + static_cast<std::ptrdiff_t>(run));
        break;
      case 4: {
        const Bytes piece(here, here + static_cast<std::ptrdiff_t>(run));
        bytes.insert(here, piece.begin(), piece.end());
        break;
      }
      default: {
        const size_t from = below(other.size());
        const size_t size = std::min(1 + below(64), other.size() - from);
        const auto begin = other.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.insert(here, begin, begin + static_cast<std::ptrdiff_t>(size));
      }
    }
  }
  if (bytes.size() > kInputMax) bytes.resize(kInputMax);
  return bytes;
}

TEST_CASE("Fuzz: every reader of bytes from outside takes seeds, corpus and their mutations",
          "[fuzz][security]") {
  for (const FuzzTarget& target : FuzzTargets()) {
    INFO(target.name);
    const std::vector<Bytes> corpus = Corpus(target);
    REQUIRE_FALSE(corpus.empty());
    for (const Bytes& input : corpus) target.run(input);
    const int64_t times = Times();
    Rng rng(static_cast<uint64_t>(times), target.name);
    int64_t bytes = 0, mutations = 0;
    for (; bytes < times * kMutatedBytes && mutations < times * kMutationsMax; ++mutations) {
      const Bytes& from = corpus[static_cast<size_t>(rng.Below(corpus.size()))];
      const Bytes& other = corpus[static_cast<size_t>(rng.Below(corpus.size()))];
      const Bytes input = Mutated(from, other, rng);
      target.run(input);
      bytes += static_cast<int64_t>(input.size()) + 1;
    }
    CHECK(mutations > 100);
  }
}

}  // namespace
}  // namespace skerry
