// libFuzzer's way in. SKERRY_FUZZ_TARGET names the target; SKERRY_FUZZ_SEEDS, a directory that its
// seeds are written to first. "list" as target prints the names.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.h"

namespace {

skerry::FuzzTarget chosen{};

void WriteSeeds(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  int number = 0;
  for (const skerry::Bytes& seed : chosen.seeds()) {
    std::ofstream out(directory / ("seed" + std::to_string(number++)), std::ios::binary);
    out.write(reinterpret_cast<const char*>(seed.data()),
              static_cast<std::streamsize>(seed.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("SKERRY_FUZZ_TARGET");
  const std::string wanted = name != nullptr ? name : "";
  for (const skerry::FuzzTarget& target : skerry::FuzzTargets()) {
    if (wanted == "list") std::printf("%s\n", target.name);
    if (wanted == target.name) chosen = target;
  }
  if (wanted == "list") std::exit(0);
  if (chosen.run == nullptr) {
    std::fprintf(stderr, "no fuzz target '%s'; './dev fuzz --target list' lists them\n",
                 wanted.c_str());
    std::exit(1);
  }
  if (const char* seeds = std::getenv("SKERRY_FUZZ_SEEDS")) WriteSeeds(seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen.run({data, size});
  return 0;
}
