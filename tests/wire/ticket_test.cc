#include "wire/ticket.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

using Catch::Matchers::Contains;

const Identity kCoordinator = Identity::FromSeed({1, 2, 3});

TicketOrder Order() {
  TicketOrder order;
  order.endpoint = "tcp://203.0.113.7:4700";
  order.run.bytes[3] = 9;
  order.expires_unix = 2'000'000'000;
  order.uses = 5;
  return order;
}
std::string Text() {
  return *IssueTicket(kCoordinator, Order());
}
std::string Error(const absl::StatusOr<Ticket>& ticket) {
  return std::string(ticket.status().message());
}

TEST_CASE("Ticket: what the coordinator wrote is what the node reads", "[wire][ticket]") {
  const auto ticket = VerifyTicket("  " + Text() + "\n", 1'999'999'999);
  REQUIRE(ticket.ok());
  CHECK(ticket->coordinator == kCoordinator.id());
  CHECK(ticket->endpoint == "tcp://203.0.113.7:4700");
  CHECK(ticket->run == Order().run);
  CHECK(ticket->expires_unix == 2'000'000'000);
  CHECK(ticket->uses == 5);
  CHECK(ticket->role == TicketRole::kNode);
}

TEST_CASE("Ticket: a run with several coordinators names all their endpoints", "[wire][ticket]") {
  TicketOrder order = Order();
  order.endpoint = "tcp://a.example.org:7700,tcp://[2001:db8::2]:7701";
  const auto text = IssueTicket(kCoordinator, order);
  REQUIRE(text.ok());
  CHECK(DecodeTicket(*text)->endpoint == order.endpoint);
}

TEST_CASE("Ticket: two tickets of the same order differ", "[wire][ticket]") {
  CHECK(DecodeTicket(Text())->id != DecodeTicket(Text())->id);
}

TEST_CASE("Ticket: a ticket is void from the second of its expiry on", "[wire][ticket][error]") {
  const auto ticket = VerifyTicket(Text(), 2'000'000'000);
  CHECK(absl::IsFailedPrecondition(ticket.status()));
  CHECK_THAT(Error(ticket), Contains("expired at 2033-05-18 03:33 UTC"));
}

TEST_CASE("Ticket: every truncation is reported as one", "[wire][ticket][error]") {
  const std::string text = Text();
  for (size_t size = 12; size < text.size(); ++size) {
    const auto ticket = DecodeTicket(text.substr(0, size));
    CHECK(absl::IsInvalidArgument(ticket.status()));
    CHECK_THAT(Error(ticket), Contains("cut off"));
  }
}

TEST_CASE("Ticket: every mistyped character is noticed", "[wire][ticket][error]") {
  const std::string text = Text();
  for (size_t i = 8; i < text.size(); ++i) {
    std::string typo = text;
    typo[i] = typo[i] == 'A' ? 'B' : 'A';
    const auto ticket = DecodeTicket(typo);
    CHECK(absl::IsInvalidArgument(ticket.status()));
    if (i > 12) CHECK_THAT(Error(ticket), Contains("mistyped"));
  }
}

TEST_CASE("Ticket: other texts get a reason", "[wire][ticket][error]") {
  CHECK_THAT(Error(DecodeTicket("")), Contains("not a ticket"));
  CHECK_THAT(Error(DecodeTicket("hello world")), Contains("not a ticket"));
  CHECK_THAT(Error(DecodeTicket("skerry2-abcd")), Contains("version 'skerry2'"));
  CHECK_THAT(Error(DecodeTicket(Text() + "AAAA")), Contains("4 characters too many"));
  CHECK_THAT(Error(DecodeTicket("skerry1-ab.cd")), Contains("character 11"));
  CHECK_THAT(Error(DecodeTicket("skerry-node join " + Text())), Contains("not a ticket"));
}

TEST_CASE("Ticket: one that was broken into lines is read", "[wire][ticket]") {
  std::string broken = "  " + Text() + "\r\n";
  broken.insert(62, "\r\n");
  broken.insert(40, "  ");
  CHECK(DecodeTicket(broken).ok());
}

TEST_CASE("Ticket: orders that make no ticket are refused", "[wire][ticket][error]") {
  TicketOrder order = Order();
  SECTION("no endpoint") {
    order.endpoint = "";
  }
  SECTION("no port") {
    order.endpoint = "tcp://host";
  }
  SECTION("one of two without a port") {
    order.endpoint = "tcp://host:1,tcp://other";
  }
  SECTION("a free port") {
    order.endpoint = "tcp://host:*";
  }
  SECTION("another protocol") {
    order.endpoint = "ipc:///tmp/x:1";
  }
  SECTION("too long") {
    order.endpoint = "tcp://" + std::string(300, 'a') + ":1";
  }
  SECTION("no uses") {
    order.uses = 0;
  }
  CHECK(absl::IsInvalidArgument(IssueTicket(kCoordinator, order).status()));
}

}  // namespace
}  // namespace skerry
