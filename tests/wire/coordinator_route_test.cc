// Which of a coordinator's addresses a node dials.

#include "wire/coordinator_route.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

}  // namespace

TEST_CASE("CoordinatorRoute: one address is dialled for ever", "[wire][route]") {
  CoordinatorRoute route({"a"}, At(0));
  CHECK_FALSE(route.NextDue());
  CHECK_FALSE(route.Next(At(100), true));
  CHECK(route.current() == "a");
}

TEST_CASE("CoordinatorRoute: silence while something waits leads to the next, round and round",
          "[wire][route]") {
  CoordinatorRoute route({"a", "b", "c"}, At(0));
  CHECK_FALSE(route.Next(At(2.9), true));
  CHECK(route.Next(At(3), true) == "b");
  CHECK_FALSE(route.Next(At(5.9), true));
  CHECK(route.Next(At(6), true) == "c");
  CHECK(route.Next(At(9), true) == "a");
  route.OnHeard(At(11));
  CHECK_FALSE(route.Next(At(13.9), true));
  CHECK(route.Next(At(14), true) == "b");
}

TEST_CASE("CoordinatorRoute: who waits for nothing does not mind the silence", "[wire][route]") {
  CoordinatorRoute route({"a", "b"}, At(0));
  CHECK_FALSE(route.Next(At(50), false));
  CHECK_FALSE(route.Next(At(52.9), true));
  CHECK(route.NextDue() == At(53));
  CHECK(route.Next(At(53), true) == "b");
}

TEST_CASE("CoordinatorRoute: a newer list comes before the ticket's, whose addresses stay",
          "[wire][route]") {
  CoordinatorRoute route({"a", "b"}, At(0));
  route.SetEndpoints({"c", "b"});
  CHECK(route.current() == "a");
  CHECK(route.Next(At(3), true) == "c");
  CHECK(route.Next(At(6), true) == "b");
  CHECK(route.Next(At(9), true) == "a");
  CHECK(route.Next(At(12), true) == "c");
  route.SetEndpoints({});
  CHECK(route.current() == "c");
  CHECK(route.Next(At(15), true) == "a");
}

TEST_CASE("CoordinatorRoute: endpoints are separated by commas", "[wire][route]") {
  CHECK(SplitEndpoints("").empty());
  CHECK(SplitEndpoints("tcp://a:1") == std::vector<std::string>{"tcp://a:1"});
  CHECK(SplitEndpoints(",tcp://a:1,,tcp://b:2,") ==
        std::vector<std::string>{"tcp://a:1", "tcp://b:2"});
}
