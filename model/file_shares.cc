#include "model/file_shares.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace skerry {

FileShares::FileShares(const std::vector<std::string>& files) : ends_{0} {
  for (const std::string& file : files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    ends_.push_back(ends_.back() + kFileBytes + (error ? 0 : static_cast<double>(bytes)));
  }
}

double FileShares::At(size_t file, double of_file) const {
  const size_t last = ends_.size() - 1;
  const double begin = ends_[std::min(file, last)], end = ends_[std::min(file + 1, last)];
  return (begin + of_file * (end - begin)) / std::max(1.0, ends_.back());
}

}  // namespace skerry
