// A directory of its own for one test, on a disk: where the usual place lies in memory, elsewhere.
#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "kernels/stash_store.h"

namespace skerry {

class DiskDirectory {
 public:
  DiskDirectory() {
    const std::string usual = std::filesystem::temp_directory_path().string();
    path_ = (CheckOnDisk(usual).ok() ? usual : "/var/tmp") + "/skerry-disk-XXXXXX";
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~DiskDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DiskDirectory(const DiskDirectory&) = delete;
  DiskDirectory& operator=(const DiskDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace skerry
