#include "model/stage_state.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "common/digest.h"

using namespace skerry;

namespace {

StageState Sample(size_t moments = 3) {
  StageState state;
  state.version = 5;
  state.inner_steps = 40;
  state.base = {1, -2, 0.5f};
  state.momentum = {0, 1e-3f, -4};
  state.first_moment.assign(moments, 0.25f);
  state.second_moment.assign(moments, 0.125f);
  return state;
}

}  // namespace

TEST_CASE("StageState: what was encoded is decoded, with and without moments") {
  const StageState state = Sample(GENERATE(size_t{0}, size_t{3}));
  const auto decoded = DecodeState(EncodeState(state), 3);
  REQUIRE(decoded.ok());
  CHECK(*decoded == state);
}

TEST_CASE("StageState: one bit changed anywhere, cut short, or of another stage: data loss") {
  const Bytes bytes = EncodeState(Sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= 4;
    CHECK(absl::IsDataLoss(DecodeState(damaged, 3).status()));
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<int64_t>(i));
    CHECK(absl::IsDataLoss(DecodeState(cut, 3).status()));
  }
  CHECK(absl::IsDataLoss(DecodeState(bytes, 4).status()));
  StageState diverged = Sample();
  diverged.momentum[1] = NAN;
  CHECK(absl::IsDataLoss(DecodeState(EncodeState(diverged), 3).status()));
}

TEST_CASE("StageState: a state of format 1, ended by one chain's digest, is read still") {
  Bytes bytes = EncodeState(Sample());
  const uint32_t format = 1;
  std::memcpy(bytes.data() + 4, &format, sizeof(format));
  CHECK(absl::IsDataLoss(DecodeState(bytes, 3).status()));  // it ends as one of format 2
  const auto body = std::span<const uint8_t>(bytes).first(bytes.size() - sizeof(Digest));
  const Digest digest = DigestOf(body);
  std::memcpy(bytes.data() + body.size(), digest.bytes.data(), sizeof(Digest));

  const auto decoded = DecodeState(bytes, 3);

  REQUIRE(decoded.ok());
  CHECK(*decoded == Sample());
  CHECK(SizesOfState(bytes)->parameters == 3);
  const uint32_t later = 3;
  std::memcpy(bytes.data() + 4, &later, sizeof(later));
  SealState(&bytes);
  CHECK(absl::IsDataLoss(DecodeState(bytes, 3).status()));
  CHECK(absl::IsDataLoss(SizesOfState(bytes).status()));
}
