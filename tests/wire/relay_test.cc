// The relay's rules: who is joined with whom, how much may be under way, what a relay can do to
// what it forwards; and how a pair chooses and leaves its relays.
#include <catch2/catch.hpp>

#include "common/rng.h"
#include "wire/message/reachability.h"
#include "wire/transport/relay_desk.h"
#include "wire/transport/relay_message.h"
#include "wire/transport/relay_route.h"
#include "wire/transport/relay_seal.h"
#include "wire/transport/token_bucket.h"

namespace skerry {
namespace {

using Is = RelayState::Is;
using State = RelayRoute::State;

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}
const NodeId kAnn = TestNodeId(1), kBob = TestNodeId(2), kEve = TestNodeId(3);
const NodeId kFirst = TestNodeId(10), kSecond = TestNodeId(11), kLast = TestNodeId(12);

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 3);
  return bytes;
}

// Ann and Bob joined on one stripe.
struct Desk {
  explicit Desk(RelayDesk::Budget budget = {}) : desk(budget) {
    std::vector<RelayDesk::Notice> said;
    CHECK(desk.Attach(At(0), kAnn, "ann", {kBob, 0}, said));
    CHECK_FALSE(desk.Attach(At(0), kBob, "bob", {kAnn, 0}, said));
    REQUIRE(said.size() == 3);
    CHECK(said[0].state.is == Is::kWaiting);
    CHECK((said[1].to == "bob" && said[1].state == RelayState{kAnn, 0, Is::kReady}));
    CHECK((said[2].to == "ann" && said[2].state == RelayState{kBob, 0, Is::kReady}));
  }
  std::optional<std::string> Say(const NodeId& from, const std::string& wire, const NodeId& to,
                                 size_t bytes) {
    const Bytes sealed(bytes);
    return desk.Forward(from, wire, {to, 0, sealed});
  }
  RelayDesk desk;
};

TEST_CASE("RelayDesk: joins the two wires of a stripe and forwards between them", "[relay]") {
  Desk d;
  CHECK(d.Say(kAnn, "ann", kBob, 100) == "bob");
  CHECK(d.Say(kBob, "bob", kAnn, 50) == "ann");
  CHECK(d.desk.under_way_bytes() == 150);
  d.desk.OnGot(kBob, "bob", 100);
  CHECK(d.desk.under_way_bytes() == 50);
  d.desk.OnGot(kAnn, "ann", 1'000'000);  // more than was sent counts as that
  CHECK(d.desk.under_way_bytes() == 0);
  CHECK(d.desk.forwarded_bytes() == 150);
  CHECK(d.desk.refused() == 0);
}

TEST_CASE("RelayDesk: a forged sender, an unknown recipient, another's wire are refused",
          "[relay]") {
  Desk d;
  CHECK_FALSE(d.Say(kEve, "ann", kBob, 10));  // Eve over a wire that she names as hers
  CHECK_FALSE(d.Say(kEve, "eve", kBob, 10));  // nothing attached
  CHECK_FALSE(d.Say(kAnn, "ann", kEve, 10));  // attached for another peer
  CHECK_FALSE(d.Say(kAnn, "bob", kBob, 10));
  CHECK(d.desk.refused() == 4);
  d.desk.OnGot(kEve, "bob", 10);
  CHECK(d.desk.refused() == 5);
  std::vector<RelayDesk::Notice> said;
  CHECK_FALSE(d.desk.Attach(At(1), kEve, "ann", {kBob, 0}, said));  // a wire that is taken
  CHECK_FALSE(d.desk.Attach(At(1), kAnn, "self", {kAnn, 0}, said));
  CHECK(said.size() == 2);
  for (const auto& notice : said) CHECK(notice.state.is == Is::kRefused);
  CHECK(d.desk.wires() == 2);
}

TEST_CASE("RelayDesk: beyond a budget nothing is forwarded, and nothing waits", "[relay]") {
  Desk d({.pair_bytes = 1000, .all_bytes = 2000, .pairs = 1});
  CHECK(d.Say(kAnn, "ann", kBob, 600));
  CHECK(d.Say(kBob, "bob", kAnn, 400));
  CHECK_FALSE(d.Say(kAnn, "ann", kBob, 1));
  d.desk.OnGot(kBob, "bob", 200);
  CHECK(d.Say(kAnn, "ann", kBob, 200));
  CHECK_FALSE(d.Say(kBob, "bob", kAnn, 1));
  d.desk.TakeBack("bob", 200);  // its pipe was full
  CHECK(d.Say(kBob, "bob", kAnn, 200));
  std::vector<RelayDesk::Notice> said;
  CHECK_FALSE(d.desk.Attach(At(1), kEve, "eve", {kBob, 0}, said));  // a pair too many
  CHECK(said.back().state.is == Is::kRefused);
  CHECK(d.desk.pairs() == 1);
}

TEST_CASE("RelayDesk: what a lost connection had under way is free again", "[relay]") {
  Desk d;
  REQUIRE(d.Say(kAnn, "ann", kBob, 5000));
  std::vector<RelayDesk::Notice> said;
  SECTION("it is reported gone") {
    d.desk.Drop("bob", said);
  }
  SECTION("it is silent") {
    d.desk.Attach(At(40), kAnn, "ann", {kBob, 0}, said);
    said.clear();
    d.desk.DropSilent(At(41), said);
  }
  SECTION("the node is put out") {
    d.desk.Forget(kBob, said);
  }
  CHECK(d.desk.under_way_bytes() == 0);
  CHECK_FALSE(d.Say(kAnn, "ann", kBob, 1));
  if (d.desk.wires() == 1) {
    REQUIRE(said.size() == 1);
    CHECK((said[0].to == "ann" && said[0].state == RelayState{kBob, 0, Is::kWaiting}));
    CHECK_FALSE(d.desk.Attach(At(42), kBob, "bob2", {kAnn, 0}, said));
    CHECK(d.Say(kAnn, "ann", kBob, 1) == "bob2");
  }
}

TEST_CASE("RelayDesk: a node that dials anew takes its old wire's place", "[relay]") {
  Desk d;
  std::vector<RelayDesk::Notice> said;
  d.desk.Attach(At(1), kBob, "again", {kAnn, 0}, said);
  CHECK(d.Say(kAnn, "ann", kBob, 1) == "again");
  CHECK_FALSE(d.Say(kBob, "bob", kAnn, 1));
  CHECK(d.desk.wires() == 2);
}

TEST_CASE("RelaySeal: only the other end opens it, unchanged, for its stripe", "[relay]") {
  const Identity ann = Identity::FromSeed({1}), bob = Identity::FromSeed({2}),
                 eve = Identity::FromSeed({3});
  const auto to_bob = RelaySeal::Between(ann, bob.id()), to_ann = RelaySeal::Between(bob, ann.id());
  REQUIRE((to_bob.ok() && to_ann.ok()));
  const Bytes plain = Pattern(5000);
  Bytes sealed;
  to_bob->Seal(2, plain, sealed);
  REQUIRE(sealed.size() == plain.size() + RelaySeal::kOverhead);
  CHECK(to_ann->Open(2, sealed) == plain);
  CHECK_FALSE(to_ann->Open(1, sealed));
  CHECK_FALSE(to_bob->Open(2, sealed));  // sent back to who sealed it
  CHECK_FALSE(RelaySeal::Between(eve, ann.id())->Open(2, sealed));
  CHECK_FALSE(to_ann->Open(2, std::span(sealed).first(30)));
  for (const size_t at : {size_t{0}, size_t{24}, sealed.size() - 1}) {
    Bytes changed = sealed;
    changed[at] ^= 1;
    CHECK_FALSE(to_ann->Open(2, changed));
  }
  // A forger who has no key of the pair.
  Bytes forged;
  RelaySeal::Between(eve, bob.id())->Seal(2, plain, forged);
  CHECK_FALSE(to_ann->Open(2, forged));
  CHECK_FALSE(RelaySeal::Between(ann, NodeId{}).ok());
}

TEST_CASE("RelayMessage: decoded as encoded, all else is malformed", "[relay]") {
  CHECK(std::get<RelayAttach>(*DecodeRelay(EncodeRelay(RelayAttach{kBob, 7}))) ==
        RelayAttach{kBob, 7});
  CHECK(std::get<RelayState>(*DecodeRelay(EncodeRelay(RelayState{kBob, 7, Is::kReady}))) ==
        RelayState{kBob, 7, Is::kReady});
  CHECK(std::get<RelayCall>(*DecodeRelay(EncodeRelay(RelayCall{kBob, 7}))) == RelayCall{kBob, 7});
  CHECK(std::get<RelayGot>(*DecodeRelay(EncodeRelay(RelayGot{70}))) == RelayGot{70});
  CHECK(std::get<ReachNonce>(*DecodeRelay(EncodeRelay(ReachNonce{70, true}))) ==
        ReachNonce{70, true});
  CHECK(std::get<ReachNonce>(*DecodeRelay(EncodeRelay(ReachNonce{70, false, kReachPaddingMax}))) ==
        ReachNonce{70, false, kReachPaddingMax});
  const Bytes sealed = Pattern(99);
  const Bytes encoded = EncodeRelay(RelayData{kBob, 3, sealed});
  const auto message = DecodeRelay(encoded);
  const auto& data = std::get<RelayData>(*message);
  CHECK((data.peer == kBob && data.stripe == 3));
  CHECK(std::equal(data.sealed.begin(), data.sealed.end(), sealed.begin(), sealed.end()));

  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayAttach{kBob, kControlWire + 1})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayAttach{NodeId{}, 0})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayData{kBob, 3, {}})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayData{kBob, 3, Bytes(kSealedBytesMax + 1)})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayGot{-1})));
  const Bytes padded = EncodeRelay(ReachNonce{70, false, kReachPaddingMax + 1});
  CHECK_FALSE(DecodeRelay(padded));
  for (const Bytes& good :
       {EncodeRelay(RelayAttach{kBob, 7}), EncodeRelay(RelayState{kBob, 7, Is::kReady}),
        EncodeRelay(RelayGot{70}), EncodeRelay(ReachNonce{70, true})}) {
    for (size_t size = 0; size < good.size(); ++size)
      CHECK_FALSE(DecodeRelay(std::span(good).first(size)));
    Bytes longer = good;
    longer.push_back(0);
    const auto padding = DecodeRelay(longer);  // which only a nonce may have
    CHECK((!padding || std::get<ReachNonce>(*padding) == ReachNonce{70, true, 1}));
  }
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    Bytes noise = EncodeRelay(RelayState{kBob, 7, Is::kReady});
    for (int flips = 0; flips < 3; ++flips)
      noise[4 + rng.Next() % (noise.size() - 4)] = static_cast<uint8_t>(rng.Next());
    DecodeRelay(noise);
  }
}

TEST_CASE("RelayRoute: calls the best relay, and is ready when the other end is there", "[relay]") {
  RelayRoute route;
  CHECK_FALSE(route.Want(At(0)));  // there is none
  route.SetOrder(At(0), {kFirst, kSecond, kLast});
  CHECK(route.state() == State::kIdle);
  CHECK(route.Want(At(1)));
  CHECK(route.relay() == kFirst);
  route.OnState(At(1.1), kSecond, Is::kReady);  // not the one in use
  CHECK(route.state() == State::kCalling);
  route.OnState(At(1.2), kFirst, Is::kReady);
  CHECK(route.state() == State::kReady);
  for (int s = 2; s < 60; ++s) {
    CHECK_FALSE(route.Tick(At(s)));
    route.OnState(At(s), kFirst, Is::kReady);
  }
  CHECK(route.moves() == 0);
}

TEST_CASE("RelayRoute: leaves a relay that is dead, or at which nobody appears", "[relay]") {
  RelayRoute route;
  route.SetOrder(At(0), {kFirst, kSecond, kLast});
  route.Want(At(0));
  SECTION("dead") {
    route.OnState(At(1), kFirst, Is::kReady);
    CHECK_FALSE(route.Tick(At(7.5)));
    CHECK(route.Tick(At(8.5)));
  }
  SECTION("refused") {
    route.OnState(At(1), kFirst, Is::kRefused);
    CHECK(route.Tick(At(1.1)));
  }
  SECTION("alone") {
    for (int s = 1; s < 12; ++s) {
      route.OnState(At(s), kFirst, Is::kWaiting);
      CHECK_FALSE(route.Tick(At(s)));
    }
    route.OnState(At(12.5), kFirst, Is::kWaiting);
    CHECK(route.Tick(At(12.5)));
  }
  SECTION("nothing gets through") {
    CHECK(route.OnStalled(At(9)));
  }
  SECTION("it left the run") {
    route.SetOrder(At(1), {kSecond, kLast});
  }
  CHECK(route.relay() == kSecond);
  CHECK(route.state() == State::kCalling);
  // The other end calls where it has found the first alive again.
  CHECK_FALSE(route.OnCall(At(14), kEve, true));
  if (route.OnCall(At(14), kFirst, true)) CHECK(route.relay() == kFirst);
}

TEST_CASE("RelayRoute: two ends that call each other at two relays meet", "[relay]") {
  RelayRoute low, high;
  for (RelayRoute* route : {&low, &high}) {
    route->SetOrder(At(0), {kFirst, kLast});
    route->Want(At(0));
  }
  low.OnState(At(0.1), kFirst, Is::kReady);
  high.OnState(At(0.1), kFirst, Is::kReady);
  high.OnStalled(At(1));  // it goes to the last one; the other stays
  REQUIRE(high.relay() == kLast);
  CHECK_FALSE(high.OnCall(At(1.1), kFirst, false));
  CHECK(low.OnCall(At(1.2), kLast, true));
  CHECK(low.relay() == high.relay());
  // The other way round: who does not yield does so when nobody has answered.
  low.OnStalled(At(2));
  REQUIRE(low.relay() == kFirst);
  CHECK_FALSE(high.OnCall(At(2.1), kFirst, false));
  high.OnState(At(2.2), kLast, Is::kWaiting);
  CHECK(high.OnCall(At(6), kFirst, false));
  CHECK(low.relay() == high.relay());
}

TEST_CASE("RelayRoute: the last one of all is tried again for ever", "[relay]") {
  RelayRoute route;
  route.SetOrder(At(0), {kFirst, kLast});
  route.Want(At(0));
  for (int s = 1; s < 100; ++s) route.Tick(At(s));
  CHECK(route.relay().has_value());
  route.SetOrder(At(100), {kLast});
  CHECK(route.relay() == kLast);
  for (int s = 101; s < 200; ++s) CHECK_FALSE(route.Tick(At(s)));
  route.SetOrder(At(200), {});
  CHECK_FALSE(route.relay().has_value());
  CHECK_FALSE(route.Want(At(201)));
  route.SetOrder(At(202), {kFirst});
  CHECK(route.Want(At(202)));
}

TEST_CASE("RelayOrder: the same at both ends, spread over the relays, the coordinator last",
          "[relay]") {
  std::vector<NodeId> relays = {kFirst, kSecond, TestNodeId(13), TestNodeId(14)};
  std::map<NodeId, int> chosen;
  for (uint32_t i = 100; i < 300; ++i) {
    const auto order = RelayOrder(TestNodeId(i), kAnn, relays, kLast);
    REQUIRE(order.size() == 5);
    CHECK(order == RelayOrder(kAnn, TestNodeId(i), relays, kLast));
    CHECK(order.back() == kLast);
    ++chosen[order.front()];
    // Who loses one moves to the next; the others stay where they are.
    auto fewer = relays;
    std::erase(fewer, kFirst);
    const auto without = RelayOrder(kAnn, TestNodeId(i), fewer, kLast);
    CHECK(without.front() == (order.front() == kFirst ? order[1] : order.front()));
  }
  for (const NodeId& relay : relays) CHECK(chosen[relay] > 25);
  CHECK(RelayOrder(kFirst, kAnn, relays, kLast).size() == 4);
  CHECK(RelayOrder(kAnn, kBob, {}, {}).empty());
}

TEST_CASE("Reachability: dialled back where the node may be meant", "[reach]") {
  using List = std::vector<std::string>;
  // Behind a router: its own address means somebody else here.
  CHECK(DialBackAt({"tcp://[::]:7701", "tcp://192.168.0.5:7701", "tcp://[2001:db8::5]:7701"},
                   "::ffff:203.0.113.9") ==
        List{"tcp://203.0.113.9:7701", "tcp://[2001:db8::5]:7701"});
  // What is advertised comes first.
  CHECK(DialBackAt({"tcp://home.example:9000", "tcp://0.0.0.0:7701"}, "203.0.113.9") ==
        List{"tcp://home.example:9000", "tcp://203.0.113.9:9000"});
  CHECK(DialBackAt({"tcp://127.0.0.1:5000"}, "127.0.0.1") == List{"tcp://127.0.0.1:5000"});
  CHECK(DialBackAt({"tcp://127.0.0.1:5000"}, "10.0.0.7") == List{"tcp://10.0.0.7:5000"});
  CHECK(DialBackAt({"tcp://10.0.0.5:1"}, "10.0.0.7") ==
        List{"tcp://10.0.0.5:1", "tcp://10.0.0.7:1"});
  CHECK(DialBackAt({"tcp://[::]:1"}, "2001:db8::7") == List{"tcp://[2001:db8::7]:1"});
  for (const char* hostile :
       {"", "tcp://", "ipc:///tmp/x", "tcp://h:99x", "tcp://h", "inproc://a:1"})
    CHECK(DialBackAt({hostile}, "203.0.113.9").empty());
  CHECK(DialBackAt(List(8, "tcp://a.example:1"), "").size() == 1);

  CHECK(ListensAt("tcp://[::]:7", {"192.168.0.5", "2001:db8::5", "127.0.0.1"}) ==
        List{"tcp://192.168.0.5:7", "tcp://[2001:db8::5]:7"});
  CHECK(ListensAt("tcp://0.0.0.0:7", {"192.168.0.5", "2001:db8::5"}) ==
        List{"tcp://192.168.0.5:7"});
  CHECK(ListensAt("tcp://10.0.0.1:7", {"192.168.0.5"}).empty());
}

TEST_CASE("Reachability: is explained in words", "[reach]") {
  const Reachability open{
      kAnn, "203.0.113.9", {{"tcp://203.0.113.9:1", false}, {"tcp://b:2", true}}};
  CHECK(ReachableAt(open) == "tcp://b:2");
  CHECK(Explain(open).back() == "reachable: other nodes dial this one at tcp://b:2");
  const Reachability shut{kAnn, "203.0.113.9", {{"tcp://203.0.113.9:77", false}}};
  CHECK(ReachableAt(shut).empty());
  const auto lines = Explain(shut);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].find("Nothing needs to be done") != std::string::npos);
  CHECK(lines[2].find("--advertise tcp://203.0.113.9:77") != std::string::npos);
}

TEST_CASE("TokenBucket: lets a rate pass, saves up little, counts debt", "[relay]") {
  TokenBucket bucket;
  CHECK(bucket.MayGo(At(0)));
  bucket.SetRate(At(0), 1000);
  double sent = 0;
  for (double now = 0; now < 20; now += 0.001) {
    while (bucket.MayGo(At(now))) {
      bucket.Spend(At(now), 37);
      sent += 37;
    }
  }
  CHECK(sent == Approx(20'000).margin(100));
  CHECK(bucket.FreeAt().has_value());
  CHECK(*bucket.FreeAt() > At(19.99));
  CHECK(bucket.Tokens(At(100)) <= 1000 * TokenBucket::kBurstS);
  bucket.SetRate(At(100), 0);
  CHECK((bucket.MayGo(At(100)) && !bucket.FreeAt()));
}

}  // namespace
}  // namespace skerry
