// How far the reading of files has come, as a share of the time that it takes: by their bytes, and
// by their number, for an input may begin with a million small files and end with a large one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace skerry {

class FileShares {
 public:
  // What opening a file takes, in bytes of text that are cut into tokens in the same time.
  static constexpr double kFileBytes = 1024;

  // Asks for the size of each; one that cannot be told counts as empty.
  explicit FileShares(const std::vector<std::string>& files);

  // In [0, 1]: all before `file` is read, and this share of it; file = count: all.
  double At(size_t file, double of_file) const;

 private:
  std::vector<double> ends_;  // of the files, counted from the first one's begin; 0 before it
};

}  // namespace skerry
