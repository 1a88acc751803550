// A directory of its own for one test, on a disk: where the usual place lies in memory, elsewhere.
#pragma once

#include <filesystem>

#include "kernels/stash_store.h"
#include "tests/model/temporary_directory.h"

namespace skerry {

class DiskDirectory : public TemporaryDirectory {
 public:
  DiskDirectory() : TemporaryDirectory(OnDisk()) {}

 private:
  static std::filesystem::path OnDisk() {
    const std::filesystem::path usual = std::filesystem::temp_directory_path();
    return CheckOnDisk(usual.string()).ok() ? usual : "/var/tmp";
  }
};

}  // namespace skerry
