// PyTorch on the same core, as a child process that does one piece of work a line
// (tools/torch_step.py): so its rounds stand between ours.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "kernels/dtype.h"

namespace skerry::bench {

// As works are named.
inline const char* TypeName(DType type) {
  return type == DType::kFloat32 ? "float32" : "bf16";
}

class TorchPeer {
 public:
  // `python`: an interpreter that has torch. What slows a library by the environment is cleared for
  // it, malloc is tuned for it, it waits as we do. nullptr, with the reason on stderr, if it does
  // not answer, or multiplies so slowly that it has no BLAS worth the name: nothing would be shown
  // by being faster. `device`: as torch names it; on a GPU its step is compiled.
  static std::unique_ptr<TorchPeer> Start(const std::string& python, int threads,
                                          const std::string& device = "cpu");
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  const std::string& version() const { return version_; }
  // Processor seconds of one piece of work; wall seconds with several threads, or on a GPU. Nothing
  // if it fails.
  std::optional<double> Seconds(const std::string& work) { return Number(work); }

 private:
  TorchPeer() = default;
  std::optional<double> Number(const std::string& line);
  std::optional<std::string> Ask(const std::string& line);
  FILE *to_ = nullptr, *from_ = nullptr;
  int process_ = 0;
  std::string version_;
};

}  // namespace skerry::bench
