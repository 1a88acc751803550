// Every codec gives the same bits with the loops of every instruction set this processor has:
// messages, decoded values, sums, refusals; at lengths around every boundary.
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "tests/compression/every_codec.h"

namespace skerry {
namespace {

struct Outcome {
  bool encoded = false;
  Bytes message;
  std::vector<float> decoded;
  std::vector<int64_t> sum;
};

Outcome RunCodec(const Codec& codec, const DeltaSource& source) {
  Outcome out;
  out.encoded = codec.EncodeDelta(source, &out.message).ok();
  if (!out.encoded) return out;
  out.decoded.resize(source.base.size());
  out.sum.assign(source.base.size(), 3);
  REQUIRE(codec.Decode(out.message, out.decoded).ok());
  REQUIRE(codec.DecodeAccumulate(out.message, 7, out.sum).ok());
  return out;
}

void CheckEqual(const Outcome& a, const Outcome& b) {
  CHECK(a.encoded == b.encoded);
  if (!a.encoded || !b.encoded) return;
  CHECK(a.message == b.message);
  CHECK(SameBits(a.decoded, b.decoded));
  CHECK(a.sum == b.sum);
}

std::vector<std::vector<float>> Inputs() {
  auto inputs = AwkwardButValid();
  for (const size_t n : {1,   2,   3,    15,   63,   64,   65,   127,  129,  191,  255,  256,
                         257, 511, 1000, 1023, 1025, 2047, 3841, 4095, 4096, 4097, 5121, 9001}) {
    inputs.push_back(HeavyTail(n, n));
    inputs.push_back(Gaussian(n, n));
  }
  inputs.push_back(Gaussian(70'001, 1));
  inputs.push_back(std::vector<float>(400, NAN));
  return inputs;
}

TEST_CASE("Conformance: every codec gives the same bits on every instruction set",
          "[compression]") {
  const CodecLoops* loops = GENERATE(Avx2Loops(), Avx512Loops());
  if (loops == nullptr) {
    WARN("this processor lacks one of AVX2, AVX-512");
    return;
  }
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  CAPTURE(loops->name, static_cast<int>(kind));
  const auto plain = MakeCodec(kind, BaselineLoops());
  const auto fast = MakeCodec(kind, *loops);
  for (const auto& u : Inputs()) {
    CAPTURE(u.size());
    const auto other = Gaussian(u.size(), 99);
    const auto halves = Halves(other);
    for (const DeltaSource source :
         {DeltaSource{.base = u}, DeltaSource{.base = other, .theta = u},
          DeltaSource{.base = u, .residual = other}, DeltaSource{.base = u, .halves = halves},
          DeltaSource{.base = other, .theta = u, .residual = other},
          DeltaSource{.base = other, .theta = u, .halves = halves}}) {
      CheckEqual(RunCodec(*fast, source), RunCodec(*plain, source));
    }
  }
}

TEST_CASE("Conformance: CodecFor uses the fastest loops, with the bits of the baseline",
          "[compression]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const auto u = Gaussian(12'345, 5);
  CheckEqual(RunCodec(CodecFor(kind), {.base = u}),
             RunCodec(*MakeCodec(kind, BaselineLoops()), {.base = u}));
}

}  // namespace
}  // namespace skerry
