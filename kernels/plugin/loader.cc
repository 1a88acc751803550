#include "kernels/plugin/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr char kLibrary[] = "libskerry_cuda.so";

std::string ProgramFolder() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return ".";
  const std::string program(path.data(), static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

std::string LinkerError() {
  const char* error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

std::string RefusalText(const std::string& error) {
  const bool lacks_cublas = absl::StrContains(error, "libcublas");
  return absl::StrFormat("the GPU plug-in does not load: %s%s", error,
                         lacks_cublas ? " (it is part of CUDA 13: install NVIDIA's package "
                                        "libcublas-13-0, or name its folder in LD_LIBRARY_PATH)"
                                      : "");
}

absl::StatusOr<const GpuTable*> TableOf(void* library, const std::string& path) {
  const auto table_of = reinterpret_cast<GpuTableFunction>(dlsym(library, kGpuTableSymbol));
  if (table_of == nullptr) return Unavailable("%s is not a plug-in of this program", path);
  const GpuTable* table = table_of(kGpuTableVersion);
  if (table == nullptr || table->version != kGpuTableVersion || table->bytes != sizeof(GpuTable)) {
    return Unavailable("%s is of version %d, this program wants %d: install both of one release",
                       path, table == nullptr ? 0 : table->version, kGpuTableVersion);
  }
  return table;
}

}  // namespace

GpuPluginSearch DefaultGpuSearch() {
  GpuPluginSearch search;
  const char* given = std::getenv("SKERRY_CUDA_PLUGIN");
  if (given != nullptr && given[0] != '\0') {
    search.driver.clear();  // the plug-in that was named says itself what it misses
    search.paths = {given};
    return search;
  }
  const std::string folder = ProgramFolder();
  search.paths = {folder + "/" + kLibrary, folder + "/../lib/skerry/" + kLibrary};
  return search;
}

absl::StatusOr<const GpuTable*> LoadGpuTable(const GpuPluginSearch& search) {
  if (!search.driver.empty() && dlopen(search.driver.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return Unavailable("no NVIDIA driver on this machine (%s: not loaded)", search.driver);
  }
  std::string tried;
  for (const std::string& path : search.paths) {
    if (access(path.c_str(), R_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + path;
      continue;
    }
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Unavailable("%s", RefusalText(LinkerError()));
    return TableOf(library, path);
  }
  return Unavailable("a driver, but no GPU plug-in: looked for %s (./dev build cuda makes it)",
                     tried);
}

}  // namespace skerry
