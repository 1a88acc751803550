// What a device is beside its operations: copies, lanes, marks, errors. On fibers all of it happens
// at once; test_gpu asks a GPU, where it does not.
#include <thread>

#include "kernels/bfloat16.h"
#include "kernels/copy_lane.h"
#include "kernels/device_mark.h"
#include "kernels/plugin/gpu_group.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

bool IsFine(Backend& gpu) {
  GpuText why = {};
  const GpuHandle handle = GpuOf(gpu);
  const bool fine = handle.table->synchronize(handle.device, &why);
  UNSCOPED_INFO(why.text);
  return fine;
}

Values Downloaded(Backend& gpu, Buffer& buffer) {
  Values host(static_cast<size_t>(buffer.size()));
  gpu.Download(buffer.data(), host);
  return host;
}

}  // namespace

TEST_CASE("CUDA device: what was copied in may be changed at once", "[cuda]") {
  const int64_t n =
      GENERATE(1, (1 << 18) + 3, 3 << 20);  // floats; pieces are of a MiB, four of them
  const auto gpu = TestGpu();
  const auto buffer = *gpu->Allocate(n), sum = *gpu->Allocate(n);
  const Values want = Normals(n, "copied");
  for (int round = 0; round < 3; ++round) {
    Values host = want;
    gpu->Upload(host, buffer->data());
    std::fill(host.begin(), host.end(), NAN);
    gpu->Add(buffer->data(), sum->data(), n);
  }
  CHECK(Downloaded(*gpu, *buffer) == want);
  Values three = want;
  for (float& value : three) value = value + value + value;
  CHECK(Downloaded(*gpu, *sum) == three);
  CHECK(IsFine(*gpu));
}

TEST_CASE("CUDA device: a lane copies after what was given before, and beside what comes then",
          "[cuda]") {
  constexpr int64_t kValues = 1 << 16;
  const auto gpu = TestGpu();
  const auto buffer = *gpu->Allocate(kValues), other = *gpu->Allocate(kValues);
  const auto lane = *OpenCopyLane(*gpu, 2 * kValues);
  const auto first = lane->memory().first(kValues), second = lane->memory().subspan(kValues);
  for (int round = 1; round <= 12; ++round) {  // more copies than a lane marks
    const auto value = static_cast<float>(round);
    gpu->Fill(buffer->data(), value, kValues);
    const int64_t fetched = lane->Fetch(buffer->data(), first);
    gpu->Fill(other->data(), -1, kValues);
    lane->Wait(fetched);
    CHECK(std::all_of(first.begin(), first.end(), [&](float x) { return x == value; }));
    std::fill(second.begin(), second.end(), 10 * value);
    lane->Wait(lane->Send(second, other->data()));
    gpu->Add(other->data(), buffer->data(), kValues);
    CHECK(Downloaded(*gpu, *buffer) == Values(kValues, 11 * value));
  }
  CHECK(IsFine(*gpu));
}

TEST_CASE("CUDA device: who waited for a mark finds on another stream what came before it",
          "[cuda]") {
  constexpr int64_t kValues = 1 << 20;
  const auto gpu = TestGpu(), beside = TestGpu();
  const auto buffer = *gpu->Allocate(kValues);
  for (int i = 0; i < 50; ++i) gpu->Fill(buffer->data(), static_cast<float>(i), kValues);
  DeviceMark mark(*gpu);
  Values seen;
  std::thread([&] {
    mark.Await();
    seen.resize(kValues);
    beside->Download(buffer->data(), seen);
  }).join();
  CHECK(seen == Values(kValues, 49.0f));
  CHECK(IsFine(*gpu));
  CHECK(IsFine(*beside));
}

TEST_CASE("CUDA device: memory that there is not is no failure of what comes next", "[cuda]") {
  const auto gpu = TestGpu();
  for (const int64_t floats : {int64_t{1} << 40, INT64_MAX}) {
    CHECK(absl::IsResourceExhausted(gpu->Allocate(floats).status()));
    CHECK(IsFine(*gpu));
  }
  CHECK(CreateGpuBackend(TestGpuTable(), 1000).status().code() == absl::StatusCode::kUnavailable);
  const auto buffer = gpu->Allocate(100);
  REQUIRE(buffer.ok());
  CHECK(Downloaded(*gpu, **buffer) == Values(100));
  CHECK(IsFine(*gpu));
}

// NCCL of one member does nothing but look whether the stream is idle, which is no failure where it
// is not.
TEST_CASE("CUDA device: a busy stream that a group looks at is no failed one", "[cuda][group]") {
  const auto gpu = TestGpu();
  Backend* const alone = gpu.get();
  const auto group = MakeGpuGroup({&alone, 1}, Duration::Seconds(60));
  if (!group.ok()) {
    WARN("no NCCL here: " << group.status().message());
    return;
  }
  constexpr int64_t kValues = 64 << 20;
  const auto buffer = *gpu->Allocate(kValues);
  for (int i = 0; i < 100; ++i) gpu->Fill(buffer->data(), 1, kValues);
  CHECK(group->front()->AllReduce(buffer->data(), kValues).ok());
  CHECK(IsFine(*gpu));
}

// Leading dimensions and addresses of two bytes: of these tensor cores have few algorithms.
TEST_CASE("CUDA device: products of bf16 that lie on no border", "[cuda]") {
  struct Sizes {
    int64_t m, n, k;
  };
  const auto [m, n, k] = GENERATE(Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{1, 129, 33},
                                  Sizes{65, 1, 129}, Sizes{129, 67, 31});
  const Transpose ta = GENERATE(Transpose::kNo, Transpose::kYes);
  const Transpose tb = GENERATE(Transpose::kNo, Transpose::kYes);
  const bool adds = GENERATE(false, true);
  const auto run = [&](Backend& backend) {
    const auto halves = [](int64_t count, const char* name) {
      std::vector<Bf16> all;
      for (const float value : Normals(count + 1, name)) all.push_back(ToBf16(value));
      return all;
    };
    const auto at = [](std::vector<Bf16>& values, int64_t rows, int64_t columns, bool turned) {
      return turned ? ConstTensor(values.data() + 1, columns, rows, rows, DType::kBfloat16)
                    : ConstTensor(values.data() + 1, rows, columns, columns, DType::kBfloat16);
    };
    auto a = halves(m * k, "a"), b = halves(k * n, "b"), rounded = halves(m * n, "c");
    Values c = Normals(m * n, "c");
    const Tensor to =
        adds ? Tensor(c.data(), m, n) : Tensor(rounded.data() + 1, m, n, n, DType::kBfloat16);
    backend.Gemm(ta, tb, at(a, m, k, ta == Transpose::kYes), at(b, k, n, tb == Transpose::kYes),
                 adds ? 1 : 0, to);
    backend.Synchronize();
    if (adds) return c;
    for (size_t i = 0; i < c.size(); ++i) c[i] = ToFloat(rounded[i + 1]);
    return c;
  };
  const auto gpu = TestGpu(DType::kBfloat16);
  const Values want = run(*CreateReferenceBackend(DType::kBfloat16));
  CHECK(NormwiseError(run(*gpu), want) <= 4e-3);
}

}  // namespace skerry
