#include <algorithm>
#include <array>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

// Includes that begin with `library` are for paths that begin with one of `homes` (some may be
// empty). A library without a home is for program files.
struct Fence {
  std::string_view library;
  std::array<std::string_view, 4> homes;
};

constexpr Fence kFences[] = {
    {"zmq", {"wire/", "bench/crowd"}},
    {"capnp/", {"wire/"}},
    {"kj/", {"wire/"}},
    {"sodium", {"wire/", "common/digest.cc"}},
    {"toml", {"wire/", "sim/scenario"}},
    {"dnnl", {"kernels/cpu/"}},
    {"oneapi/dnnl", {"kernels/cpu/"}},
    {"omp.h", {"kernels/cpu/"}},
    {"immintrin.h", {"kernels/cpu/", "compression/"}},
    {"cuda", {"kernels/cuda/"}},
    {"cublas", {"kernels/cuda/"}},
    {"nccl", {"kernels/cuda/"}},
    {"sqlite3", {"coordinator/journal"}},
    {"libpq", {"coordinator/journal"}},
    {"httplib",
     {"coordinator/dashboard", "node/metrics_program", "bench/dashboard", "tests/wire/web_client"}},
    {"curl/", {"wire/web_client"}},
    {"sentencepiece", {"model/sentence_piece"}},
    {"zlib", {"model/unpacked_file", "tests/model/"}},
    {"zstd", {"model/unpacked_file", "tests/model/"}},
    {"catch2/", {"tests/"}},
    {"CLI/", {}},
};

bool IsAtHome(std::string_view path, const Fence& fence) {
  return std::any_of(fence.homes.begin(), fence.homes.end(), [&](std::string_view home) {
    return !home.empty() && path.starts_with(home);
  });
}

bool MayUse(std::string_view path, const Fence& fence) {
  if (fence.homes[0].empty()) return IsProgramFile(path);
  if (IsAtHome(path, fence)) return true;
  if (!path.starts_with("tests/")) return false;
  path.remove_prefix(std::string_view("tests/").size());
  return IsAtHome(path, fence);
}

}  // namespace

void CheckFences(const Source& source, Findings& findings) {
  for (const Include& include : source.includes) {
    for (const Fence& fence : kFences) {
      if (!include.target.starts_with(fence.library) || MayUse(source.path, fence)) continue;
      const std::string home =
          fence.homes[0].empty() ? "program files" : std::string(fence.homes[0]) + "*";
      findings.push_back(
          {source.path, include.line, "fences", include.target + " belongs to " + home});
    }
  }
}

}  // namespace skerry::tidy
