// The plug-in's codec kernels give the bits of the CPU's: messages, decoded values, sums, refusals,
// over the inputs that the CPU's own instruction sets are compared on (tests/compression).
#include "compression/device_codecs.h"
#include "compression/fixed_point.h"
#include "tests/compression/every_codec.h"
#include "tests/cuda_on_host/gpu_under_test.h"

namespace skerry {
namespace {

// A device whose memory is the host's: arrays of tests are arrays of the device.
class TestDevice {
 public:
  TestDevice() {
    GpuText why = {};
    device_ = TestGpuTable().open(0, &why);
    REQUIRE(device_ != nullptr);
  }
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
  ~TestDevice() { TestGpuTable().close(device_); }
  GpuDevice* get() const { return device_; }

 private:
  GpuDevice* device_;
};

std::vector<std::vector<float>> Inputs() {
  auto inputs = AwkwardButValid();
  for (const size_t n : {1,   2,   3,    15,   63,   65,   127,  129,  255,  256,
                         257, 511, 1000, 1025, 2047, 4095, 4096, 4097, 5121, 9001}) {
    inputs.push_back(HeavyTail(n, n));
    inputs.push_back(Gaussian(n, n));
  }
  inputs.push_back(std::vector<float>(5000, 0.25f));  // ties everywhere
  inputs.push_back(std::vector<float>(400, NAN));
  inputs.push_back({1.0f, -INFINITY});
  inputs.push_back({3000.0f});
  return inputs;
}

struct Outcome {
  bool encoded = false;
  Bytes message;
  std::vector<float> decoded;
  std::vector<int64_t> sum;
  bool operator==(const Outcome& other) const {
    return encoded == other.encoded && message == other.message && sum == other.sum &&
           SameBits(decoded, other.decoded);
  }
};

Outcome OnCpu(DeltaCodec kind, const DeltaSource& source) {
  const Codec& codec = CodecFor(kind);
  Outcome out;
  out.encoded = codec.EncodeDelta(source, &out.message).ok();
  if (!out.encoded) return {};
  out.decoded.resize(source.base.size());
  out.sum.assign(source.base.size(), 3);
  REQUIRE(codec.Decode(out.message, out.decoded).ok());
  REQUIRE(codec.DecodeAccumulate(out.message, 7, out.sum).ok());
  return out;
}

Outcome OnGpu(DeviceCodecs& codecs, DeltaCodec kind, const DeltaSource& source) {
  const auto n = static_cast<int64_t>(source.base.size());
  const auto at = [](std::span<const float> x) { return x.empty() ? nullptr : x.data(); };
  const GpuDelta delta = {n, source.base.data(), at(source.theta), at(source.residual)};
  Outcome out;
  out.encoded = codecs.Encode(kind, delta, &out.message).ok();
  if (!out.encoded) return {};
  out.decoded.assign(source.base.size(), 77.0f);
  out.sum.assign(source.base.size(), 3);
  REQUIRE(codecs.Decode(kind, out.message, n, out.decoded.data()).ok());
  REQUIRE(codecs.Accumulate(kind, out.message, n, 7, out.sum.data()).ok());
  return out;
}

}  // namespace

TEST_CASE("CUDA text: every codec gives the CPU's bits", "[cuda]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const TestDevice device;
  DeviceCodecs codecs(TestGpuTable(), device.get());
  uint64_t seed = 0;
  for (const auto& u : Inputs()) {
    CAPTURE(static_cast<int>(kind), u.size());
    const auto other = Gaussian(u.size(), 99);
    for (const DeltaSource source : {DeltaSource{.base = u}, DeltaSource{.base = other, .theta = u},
                                     DeltaSource{.base = other, .theta = u, .residual = other}}) {
      OrderThreads(seed++ % 3);
      CHECK(OnGpu(codecs, kind, source) == OnCpu(kind, source));
    }
  }
  OrderThreads(0);
}

TEST_CASE("CUDA text: a message of many pieces is that of one", "[cuda]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const TestDevice device;
  const auto codec = MakeDeviceCodec(kind, TestGpuTable(), device.get(), 4096);
  for (const size_t n : {1u, 4096u, 8193u, 13'001u}) {
    const auto u = Gaussian(n, n), other = HeavyTail(n, 5);
    const DeltaSource source = {.base = u, .theta = other, .residual = u};
    const auto halves = Halves(u);
    Bytes message;
    for (const DeltaSource& any :
         {source, DeltaSource{.base = u, .theta = other, .halves = halves}}) {
      REQUIRE(codec->EncodeDelta(any, &message).ok());
      CHECK(message == OnCpu(kind, any).message);
      std::vector<float> values(n);
      CHECK(codec->Decode(message, values).ok());
    }
  }
  Bytes unused;
  std::vector<float> bad(5000, 1.0f);
  bad[4500] = NAN;
  CHECK(absl::IsInvalidArgument(codec->Encode(bad, &unused)));
}

TEST_CASE("CUDA text: a device decodes nothing that the CPU refuses", "[cuda][error]") {
  const DeltaCodec kind = GENERATE(from_range(EveryCodec()));
  const TestDevice device;
  DeviceCodecs codecs(TestGpuTable(), device.get());
  Bytes message = MustEncode(CodecFor(kind), Gaussian(300, 1));
  message.push_back(0);
  message.resize(2 * message.size());
  std::vector<float> values(300, 77.0f);
  CHECK(absl::IsInvalidArgument(codecs.Decode(kind, message, 300, values.data())));
  CHECK(values == std::vector<float>(300, 77.0f));
  std::vector<int64_t> sum(300);
  message = MustEncode(CodecFor(kind), Gaussian(300, 1));
  CHECK(absl::IsInvalidArgument(
      codecs.Accumulate(kind, message, 300, kWeightTotalMax + 1, sum.data())));
}

}  // namespace skerry
