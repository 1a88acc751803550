#include "bench/torch_peer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "kernels/cpu/limits.h"

namespace skerry::bench {
namespace {

// In the child, before exec.
void SettleEnvironment(int threads, const std::string& device) {
  for (const char* slows : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "DNNL_MAX_CPU_ISA",
                            "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"})
    unsetenv(slows);
  // glibc otherwise gives every large tensor back, and faults its pages in again: a third of a
  // step.
  setenv("MALLOC_MMAP_THRESHOLD_", "4294967296", 1);
  setenv("MALLOC_TRIM_THRESHOLD_", "17179869184", 1);
  setenv("MALLOC_TOP_PAD_", "268435456", 1);
  setenv("MALLOC_ARENA_MAX", "1", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("GOMP_SPINCOUNT", "2000", 1);
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  setenv("SKERRY_TORCH_DEVICE", device.c_str(), 1);
}

}  // namespace

std::unique_ptr<TorchPeer> TorchPeer::Start(const std::string& python, int threads,
                                            const std::string& device) {
  std::array<int, 2> work{}, answers{};
  if (pipe(work.data()) != 0 || pipe(answers.data()) != 0) return nullptr;
  const pid_t child = fork();
  if (child == 0) {
    dup2(work[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    for (const int end : {work[0], work[1], answers[0], answers[1]}) close(end);
    SettleEnvironment(threads, device);
    const char* elsewhere = std::getenv("SKERRY_TORCH_SCRIPT");
    const char* script = elsewhere != nullptr ? elsewhere : SKERRY_TORCH_SCRIPT;
    execlp(python.c_str(), python.c_str(), script, nullptr);
    _exit(127);
  }
  close(work[0]);
  close(answers[1]);
  std::unique_ptr<TorchPeer> peer(new TorchPeer);
  peer->process_ = child;
  peer->to_ = fdopen(work[1], "w");
  peer->from_ = fdopen(answers[0], "r");
  const auto version = peer->Ask("version");
  if (!version) {
    std::fprintf(stderr, "%s with torch does not answer; its rows are left out\n", python.c_str());
    return nullptr;
  }
  peer->version_ = *version;
  constexpr double kLeastOfPeak = 0.3;
  const double rate = peer->Number("products").value_or(0);
  const double peak = PeakGflops(DType::kFloat32) * threads;
  if (rate < kLeastOfPeak * peak) {
    std::fprintf(
        stderr,
        "PyTorch's products reach %.1f of %.0f GFLOP/s: it has no fast BLAS here (on Debian "
        "install libopenblas0-pthread); its rows are left out\n",
        rate, peak);
    return nullptr;
  }
  return peer;
}

TorchPeer::~TorchPeer() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(process_, nullptr, 0);
}

std::optional<std::string> TorchPeer::Ask(const std::string& line) {
  if (std::fprintf(to_, "%s\n", line.c_str()) < 0 || std::fflush(to_) != 0) return std::nullopt;
  std::array<char, 256> answer{};
  if (std::fgets(answer.data(), answer.size(), from_) == nullptr) return std::nullopt;
  std::string text(answer.data());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<double> TorchPeer::Number(const std::string& line) {
  const auto answer = Ask(line);
  if (!answer) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(answer->c_str(), &end);
  if (end == answer->c_str() || number <= 0) return std::nullopt;
  return number;
}

}  // namespace skerry::bench
