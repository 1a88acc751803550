#include "node/state_fetcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/coordinator/fake_context.h"

using namespace skerry;
using skerry::testing::FakeContext;

namespace {

const NodeId kFirst = TestNodeId(1), kSecond = TestNodeId(2);

// Two donors that give what they have: bytes that say whose they are.
struct Donors {
  FakeContext context;
  StateFetcher fetcher{3,
                       [](Context& c, const NodeId& to, Message m) { c.Send(to, std::move(m)); }};
  std::map<NodeId, int64_t> versions;  // what they give; none: nothing
  int64_t bytes = 20 * kObjectChunkBytesMax + 5;

  void Tend() { fetcher.Tend(context, {kFirst, kSecond}); }
  void Answer(const NodeId& from, const ObjectRequest& request) {
    const auto version = versions.find(from);
    if (version == versions.end() ||
        (request.object != "replica/3" && request.object != StateObject(3, version->second))) {
      return fetcher.OnChunk(context, from, {request.object, request.offset, -1, nullptr});
    }
    const int64_t length = std::min(request.length, bytes - request.offset);
    const Bytes values(static_cast<size_t>(length), from.bytes[3]);
    fetcher.OnChunk(context, from,
                    {StateObject(3, version->second), request.offset, bytes, MakePayload(values)});
  }
  // Answers of a donor to what it was asked; the most that was under way.
  size_t AnswerAll(size_t at_most = 1000) {
    size_t most = 0;
    while (!context.sends.empty() && at_most-- > 0) {
      most = std::max(most, context.sends.size());
      const auto [to, message] = context.sends.front();
      context.sends.erase(context.sends.begin());
      Answer(to, std::get<ObjectRequest>(message));
    }
    return most;
  }
};

}  // namespace

TEST_CASE("StateFetcher: the state of one donor, of one version, in chunks, few at a time") {
  Donors donors;
  donors.versions = {{kFirst, 7}};
  donors.Tend();
  CHECK(donors.AnswerAll() == static_cast<size_t>(StateFetcher::kWindow));
  REQUIRE(donors.fetcher.Done());
  CHECK(donors.fetcher.version() == 7);
  CHECK(SizeOf(donors.fetcher.state()) == donors.bytes);
  CHECK(*donors.fetcher.state() == Bytes(static_cast<size_t>(donors.bytes), 1));
}

TEST_CASE("StateFetcher: who has nothing yet is followed by another") {
  Donors donors;
  donors.versions = {{kSecond, 4}};
  donors.Tend();
  donors.AnswerAll();
  CHECK_FALSE(donors.fetcher.Done());
  donors.Tend();
  donors.AnswerAll();
  REQUIRE(donors.fetcher.Done());
  CHECK((*donors.fetcher.state())[0] == 2);
}

TEST_CASE(
    "StateFetcher: a donor that is silent, gone, or gives another version now is left, nothing "
    "is mixed") {
  Donors donors;
  donors.versions = {{kFirst, 7}, {kSecond, 8}};
  donors.Tend();
  donors.AnswerAll(5);
  SECTION("silent") {
    donors.context.sends.clear();
    donors.Tend();
    CHECK(donors.context.sends.empty());  // not yet
    donors.context.AdvanceTo(Instant() + StateFetcher::kPatience);
    donors.Tend();
  }
  SECTION("gone") {
    donors.context.sends.clear();
    donors.fetcher.Tend(donors.context, {kSecond});
  }
  SECTION("another version") {
    donors.versions[kFirst] = 9;
    donors.AnswerAll();
    donors.Tend();
  }
  donors.AnswerAll();
  REQUIRE(donors.fetcher.Done());
  CHECK(donors.fetcher.transfers() == 2);
  CHECK(donors.fetcher.version() == 8);
  CHECK(*donors.fetcher.state() == Bytes(static_cast<size_t>(donors.bytes), 2));
}

TEST_CASE("StateFetcher: nonsense is nothing") {
  Donors donors;
  donors.Tend();
  const Payload payload = MakePayload(Bytes(10));
  const auto chunk = GENERATE_COPY(
      ObjectChunk{"replica/3/x", 0, 10, payload}, ObjectChunk{"replica/4/1", 0, 10, payload},
      ObjectChunk{"replica/3/1", 0, StateFetcher::kStateBytesMax + 1, payload},
      ObjectChunk{"replica/3/1", 5, 10, payload}, ObjectChunk{"replica/3/1", 0, 9, payload});
  donors.fetcher.OnChunk(donors.context, kFirst, chunk);
  CHECK_FALSE(donors.fetcher.Done());
}
