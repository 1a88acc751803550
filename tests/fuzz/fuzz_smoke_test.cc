// Every fuzz target over its seeds, what was once found (corpus/), and mutations of both that are
// the same on every machine. `./dev test` gives what strangers reach first a minute each, one seed
// after the other; `./dev fuzz` looks further.

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

// SKERRY_FUZZ_TARGET=NAME looks at one target only, SKERRY_FUZZ_SEED=N makes other mutations.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
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
  const std::string only = Variable("SKERRY_FUZZ_TARGET");
  const auto seed = static_cast<uint64_t>(std::atoll(Variable("SKERRY_FUZZ_SEED").c_str()));
  INFO("target '" << only << "', seed " << seed);
  bool is_known = only.empty();
  for (const FuzzTarget& target : FuzzTargets()) {
    if (!only.empty() && only != target.name) continue;
    is_known = true;
    INFO(target.name);
    const std::vector<Bytes> corpus = Corpus(target);
    REQUIRE_FALSE(corpus.empty());
    for (const Bytes& input : corpus) target.run(input);
    Rng rng(seed, target.name);
    int64_t bytes = 0, mutations = 0;
    for (; bytes < kMutatedBytes && mutations < kMutationsMax; ++mutations) {
      const Bytes& from = corpus[static_cast<size_t>(rng.Below(corpus.size()))];
      const Bytes& other = corpus[static_cast<size_t>(rng.Below(corpus.size()))];
      const Bytes input = Mutated(from, other, rng);
      target.run(input);
      bytes += static_cast<int64_t>(input.size()) + 1;
    }
    CHECK(mutations > 100);
  }
  CHECK(is_known);
}

}  // namespace
}  // namespace skerry
