#include "common/payload_pool.h"

#include <catch2/catch.hpp>
#include <optional>
#include <thread>

namespace skerry {

TEST_CASE("Payload pool: a payload's room serves the next one when its last holder is gone",
          "[common]") {
  PayloadPool pool;
  Bytes first = pool.Take(1000);
  first[7] = 42;
  const uint8_t* const room = first.data();
  std::optional<Payload> payload = pool.Wrap(std::move(first));
  Payload other = *payload;
  payload.reset();
  CHECK(pool.Take(1000).data() != room);  // `other` still has it
  CHECK(View(other)[7] == 42);
  CHECK(other.size() == 1000);
  std::thread([&] { other = {}; }).join();
  CHECK(pool.Take(1000).data() == room);
}

TEST_CASE("Payload pool: room of another size is let go of, and so is all by Trim", "[common]") {
  PayloadPool pool;
  { const Payload small = pool.Wrap(pool.Take(10)); }
  CHECK(pool.Take(20) == Bytes(20));
  Bytes marked = pool.Take(10);
  CHECK(marked == Bytes(10));
  marked[0] = 1;
  { const Payload once = pool.Wrap(std::move(marked)); }
  pool.Trim();
  CHECK(pool.Take(10) == Bytes(10));
}

TEST_CASE("Payload pool: payloads outlive it, and nothing is wrapped as nothing", "[common]") {
  std::optional<PayloadPool> pool(std::in_place);
  const Payload payload = pool->Wrap(Bytes(5, 3));
  const Payload nothing = pool->Wrap({});
  pool.reset();
  CHECK(*payload == Bytes(5, 3));
  CHECK(SizeOf(nothing) == 0);
  CHECK(nothing.IsWhole());
}

}  // namespace skerry
