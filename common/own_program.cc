#include "common/own_program.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace skerry {

void ExecuteItself(char* const* argv) {
  constexpr char kSelf[] = "/proc/self/exe";
  std::error_code error;
  execv(std::filesystem::read_symlink(kSelf, error).c_str(), argv);
  execv(kSelf, argv);
}

}  // namespace skerry
