// The runner itself: what it lets pass, what it finds, and the operations against their
// documentation by hand.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "device_platform.h"
#include "kernels/cuda/device.h"
#include "tests/cuda_on_host/gpu_under_test.h"

namespace skerry {
namespace {

// Whether `body` ends its process by abort.
template <typename Body>
bool Aborts(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

struct Numbers {
  int of[64];
};

// Every thread hands its number to its neighbour through shared memory.
void Hand(int* out, bool with_barrier) {
  auto& shared = cuda::Shared<Numbers>();
  shared.of[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = shared.of[(threadIdx.x + 1) % 64];
}

std::vector<int> Handed(uint64_t seed, bool with_barrier) {
  std::vector<int> out(64);
  OrderThreads(seed);
  cuda::Launch(0, {dim3{}, 64, sizeof(Numbers)}, Hand, out.data(), with_barrier);
  OrderThreads(0);
  return out;
}

void RunThreads(unsigned threads, const std::function<void()>& thread) {
  cuda::RunBlock(threads, 16, thread);
}

}  // namespace

TEST_CASE("Fibers: with a barrier every order gives the same, without one they differ", "[cuda]") {
  std::set<std::vector<int>> with, without;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    with.insert(Handed(seed, true));
    without.insert(Handed(seed, false));
  }
  CHECK(with.size() == 1);
  CHECK(with.begin()->at(63) == 0);
  CHECK(without.size() > 1);
}

TEST_CASE("Fibers: broken rules of CUDA end the process", "[cuda]") {
  CHECK_FALSE(Aborts([] { RunThreads(64, [] { __syncthreads(); }); }));
  CHECK(Aborts([] { RunThreads(33, [] {}); }));
  CHECK(Aborts([] {
    RunThreads(64, [] {
      if (threadIdx.x != 5) __syncthreads();
    });
  }));
  CHECK(Aborts([] {
    RunThreads(32, [] {
      if (threadIdx.x < 16) __syncwarp();
    });
  }));
  CHECK(Aborts([] {
    RunThreads(32, [] {
      if (threadIdx.x < 16) return __syncwarp();
      __ballot_sync(0xffffffffu, true);
    });
  }));
  CHECK(Aborts([] { RunThreads(32, [] { __ballot_sync(1, true); }); }));
  CHECK(Aborts([] { RunThreads(32, [] { static_cast<char*>(cuda::SharedBytes())[16] = 1; }); }));
}

// Two turns of a thread's neighbour's number by way of a copy, into one place or two.
struct Copied {
  float of[2][32];
};
struct CopyRules {
  bool waits = true, meets = true;
  int places = 2;
};
void CopyTwice(const float* from, float* out, CopyRules rules) {
  auto& shared = cuda::Shared<Copied>();
  const unsigned own = threadIdx.x, next = (own + 1) % 32;
  const auto begin = [&](int turn) {
    cuda::CopyAsync4(&shared.of[turn % rules.places][own], from + 32 * turn + own, own != 31);
    cuda::CommitCopies();
  };
  begin(0);
  for (int turn = 0; turn < 2; ++turn) {
    if (rules.waits) cuda::WaitForCopies<0>();
    if (rules.meets) __syncthreads();
    if (turn == 0) begin(1);
    out[32 * turn + own] = shared.of[turn % rules.places][next];
  }
  cuda::WaitForCopies<0>();
}

TEST_CASE("Fibers: copies come as late or as early as they may", "[cuda]") {
  std::vector<float> from(64);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) + 1;
  const auto is_right = [&](CopyRules rules) {
    for (const uint64_t seed : {0, 1, 2}) {
      std::vector<float> out(64);
      OrderThreads(seed);
      cuda::Launch(0, {dim3{}, 32, sizeof(Copied)}, CopyTwice, from.data(), out.data(), rules);
      OrderThreads(0);
      for (size_t i = 0; i < 64; ++i) {
        const float want = i % 32 == 30 ? 0 : from[i / 32 * 32 + (i + 1) % 32];
        if (out[i] != want) return false;
      }
    }
    return true;
  };
  CHECK(is_right({}));
  CHECK_FALSE(is_right({.waits = false}));
  CHECK_FALSE(is_right({.meets = false}));
  CHECK_FALSE(is_right({.places = 1}));
  alignas(16) static const float values[8] = {};
  CHECK(
      Aborts([] { RunThreads(32, [] { cuda::CopyAsync4(cuda::SharedBytes(), values, true); }); }));
  CHECK(Aborts([] {
    RunThreads(32, [] {
      cuda::CopyAsync16(cuda::SharedBytes(), values + 1, true);
      cuda::CommitCopies();
      cuda::WaitForCopies<0>();
    });
  }));
}

TEST_CASE("Fibers: shuffles and votes", "[cuda]") {
  std::vector<unsigned> crossed(32), down(32), votes(32);
  RunThreads(32, [&] {
    const unsigned lane = threadIdx.x;
    crossed[lane] = __shfl_xor_sync(0xffffffffu, lane, 5);
    down[lane] = __shfl_down_sync(0xffffffffu, lane, 8);
    votes[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  });
  for (unsigned lane = 0; lane < 32; ++lane) {
    CHECK(crossed[lane] == (lane ^ 5));
    CHECK(down[lane] == (lane < 24 ? lane + 8 : lane));
    CHECK(votes[lane] == 0b01001001001001001001001001001001u);
  }
}

// The fragments of the PTX manual, filled by their definition, multiply as matrices do.
TEST_CASE("Fibers: a tensor-core product is the product", "[cuda]") {
  const auto a = [](unsigned row, unsigned k) { return static_cast<float>(row * 3 + k) - 20; };
  const auto b = [](unsigned k, unsigned column) {
    return static_cast<float>(k) - 2 * static_cast<float>(column);
  };
  std::vector<float> out(16 * 8);
  RunThreads(32, [&] {
    const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    const uint32_t left[4] = {cuda::PackBf16(a(g, 2 * t), a(g, 2 * t + 1)),
                              cuda::PackBf16(a(g + 8, 2 * t), a(g + 8, 2 * t + 1)),
                              cuda::PackBf16(a(g, 2 * t + 8), a(g, 2 * t + 9)),
                              cuda::PackBf16(a(g + 8, 2 * t + 8), a(g + 8, 2 * t + 9))};
    float c[4] = {1, 1, 1, 1};
    cuda::MultiplyAccumulate(c, left, cuda::PackBf16(b(2 * t, g), b(2 * t + 1, g)),
                             cuda::PackBf16(b(2 * t + 8, g), b(2 * t + 9, g)));
    for (unsigned i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
  });
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      float want = 1;
      for (unsigned k = 0; k < 16; ++k) want += a(row, k) * b(k, column);
      CHECK(out[row * 8 + column] == want);
    }
  }
}

TEST_CASE("Fibers: ldmatrix gives rows, transposed it gives columns", "[cuda]") {
  alignas(16) uint16_t tile[32][8];
  for (uint16_t row = 0; row < 32; ++row) {
    for (uint16_t column = 0; column < 8; ++column) {
      tile[row][column] = static_cast<uint16_t>(row * 8 + column);
    }
  }
  RunThreads(32, [&] {
    const unsigned lane = threadIdx.x;
    uint32_t rows[4], columns[4];
    cuda::LoadMatrices(rows, tile[lane]);
    cuda::LoadTransposed(columns, tile[lane]);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = 8 * i + lane / 4, column = 2 * (lane % 4);
      CHECK(rows[i] == (tile[row][column] | static_cast<uint32_t>(tile[row][column + 1]) << 16));
      const unsigned first = 8 * i + 2 * (lane % 4);
      CHECK(columns[i] ==
            (tile[first][lane / 4] | static_cast<uint32_t>(tile[first + 1][lane / 4]) << 16));
    }
  });
}

TEST_CASE("Fibers: a grid that no device starts is told by every synchronisation from then on",
          "[cuda]") {
  constexpr unsigned kRowsMax = 65535;
  const dim3 grid = GENERATE(dim3{0, 1, 1}, dim3{1, 0, 1}, dim3{1, kRowsMax + 1, 1});
  const GpuTable& table = TestGpuTable();
  GpuText why = {};
  GpuDevice* device = table.open(0, &why);
  void* const memory = table.allocate(device, 64);
  std::vector<int> out(64);
  cuda::Launch(*device, {dim3{}, 64, sizeof(Numbers)}, Hand, out.data(), true);
  CHECK(table.synchronize(device, &why));
  cuda::Launch(*device, {grid, 64, sizeof(Numbers)}, Hand, out.data(), true);
  table.release(device, memory);  // waits too, and must not be the only one to see it
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(table.synchronize(device, &why));
    CHECK(std::string(why.text) == "invalid configuration argument");
  }
  table.close(device);
}

}  // namespace skerry
