// What was in a directory, so that what came since can be taken away again: a command that fails
// leaves things as they were, and can be given again.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace skerry {

class DirectoryBefore {
 public:
  explicit DirectoryBefore(const std::string& directory);
  bool WasThere() const { return missing_.empty(); }
  void Restore() const;

 private:
  std::filesystem::path directory_;
  std::vector<std::filesystem::path> missing_;  // it and those above it that were not there
  std::set<std::filesystem::path> names_;
};

}  // namespace skerry
