// Many digests at once are those that libsodium gives one by one.
#include "common/digests.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/parallel.h"
#include "common/rng.h"
#include "common/tree_digest.h"

using namespace skerry;

namespace {

// Every kernel that this processor has, and none.
std::vector<DigestLanesTable> Tables() {
  std::vector<DigestLanesTable> tables = {{0, nullptr}};
  for (const auto* t = RunnableDigestLanes(); t->lanes > 0; ++t) tables.push_back(*t);
  return tables;
}

std::vector<Bytes> Inputs(const std::vector<size_t>& lengths) {
  Rng rng(11);
  std::vector<Bytes> inputs;
  for (const size_t length : lengths) {
    inputs.emplace_back(length);
    for (uint8_t& byte : inputs.back()) byte = static_cast<uint8_t>(rng.Next());
  }
  return inputs;
}

// Of how many the digest is another than libsodium's.
size_t Wrong(const std::vector<Bytes>& inputs, const DigestLanesTable& table) {
  const std::vector<std::span<const uint8_t>> spans(inputs.begin(), inputs.end());
  const std::vector<Digest> digests = DigestsOf(spans, table);
  size_t wrong = digests.size() != inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i) wrong += digests[i] != DigestOf(spans[i]);
  return wrong;
}

}  // namespace

TEST_CASE("DigestsOf: of any length they are libsodium's", "[common][digest]") {
  for (const DigestLanesTable& table : Tables()) {
    for (size_t length = 0; length <= 520; ++length) {  // four blocks, and something of a fifth
      INFO(table.lanes << " lanes, " << length << " bytes");
      REQUIRE(Wrong(Inputs(std::vector<size_t>(8, length)), table) == 0);
    }
    CHECK(Wrong(Inputs(std::vector<size_t>(9, (1 << 20) + 1)), table) == 0);
  }
}

TEST_CASE("DigestsOf: of any number of inputs they are libsodium's", "[common][digest]") {
  for (const DigestLanesTable& table : Tables()) {
    for (size_t count = 0; count <= 20; ++count) {
      INFO(table.lanes << " lanes, " << count << " inputs");
      REQUIRE(Wrong(Inputs(std::vector<size_t>(count, 300)), table) == 0);
    }
  }
}

TEST_CASE("DigestsOf: inputs of several lengths do not disturb each other", "[common][digest]") {
  for (const DigestLanesTable& table : Tables()) {
    CHECK(Wrong(Inputs({0, 5000, 1, 128, 5000, 129, 128, 0, 5000, 5001, 128, 256}), table) == 0);
  }
}

TEST_CASE("TreeDigestOf: the digest of the pieces' digests and the length, added in whatever parts",
          "[common][digest]") {
  const size_t piece = kTreePieceBytes;
  for (const size_t length : {size_t{0}, size_t{1}, piece - 1, piece, piece + 1, 8 * piece - 1,
                              8 * piece, 8 * piece + 1, 19 * piece + 5}) {
    const Bytes input = Inputs({length}).front();
    Bytes inner;
    for (size_t at = 0; at < length; at += piece) {
      const Digest leaf = DigestOf(std::span(input).subspan(at, std::min(piece, length - at)));
      inner.insert(inner.end(), leaf.bytes.begin(), leaf.bytes.end());
    }
    for (int shift = 0; shift < 64; shift += 8) {
      inner.push_back(static_cast<uint8_t>(uint64_t{length} >> shift));
    }
    INFO(length << " bytes");
    CHECK(TreeDigestOf(input) == DigestOf(std::span<const uint8_t>(inner)));
    for (const size_t part : {size_t{40}, piece, (size_t{4} << 20) - 40}) {
      if (length / part > 1000) continue;
      TreeDigestStream stream;
      stream.Add({});
      for (size_t at = 0; at < length; at += part) {
        stream.Add(std::span(input).subspan(at, std::min(part, length - at)));
      }
      CHECK(stream.Finish() == TreeDigestOf(input));
    }
  }
}

TEST_CASE("InParallel: every piece is done once", "[common]") {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
    std::vector<std::atomic<int>> done(count);
    InParallel(count, 3, [&](size_t i) { ++done[i]; });
    for (const auto& times : done) CHECK(times == 1);
  }
}

TEST_CASE("InParallel: where the system gives no threads, one does all", "[common]") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;  // root has no limit
    const rlimit none = {0, 0};
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(3);
    int done = 0;
    InParallel(7, 7, [&](size_t) { ++done; });
    _exit(done == 7 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
