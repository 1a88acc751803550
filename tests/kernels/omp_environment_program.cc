// Started by ctest: asks for passive waiting, then says whether it is still the process it was.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/omp_environment.h"

int main(int argc, char** argv) {
  const std::string pid = std::to_string(getpid());
  if (std::getenv("SKERRY_FIRST_PID") == nullptr) setenv("SKERRY_FIRST_PID", pid.c_str(), 1);
  skerry::UsePassiveWaiting(argc, argv);
  const bool same = pid == std::getenv("SKERRY_FIRST_PID");
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);  // 15 characters of it
  std::printf("%s process, %d arguments, called %s\n", same ? "same" : "another", argc,
              name.c_str());
  std::printf("%s\n", skerry::CreateCpuBackend(1)->name().c_str());
  return 0;
}
