#include "coordinator/directory_before_program.h"

namespace skerry {

namespace fs = std::filesystem;

DirectoryBefore::DirectoryBefore(const std::string& directory)
    : directory_(fs::absolute(directory)) {
  std::error_code error;
  if (!directory_.has_filename()) directory_ = directory_.parent_path();  // "run/"
  for (fs::path at = directory_; !fs::exists(at, error) && at != at.parent_path();
       at = at.parent_path()) {
    missing_.push_back(at);
  }
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    names_.insert(entry.path().filename());
  }
}

void DirectoryBefore::Restore() const {
  std::error_code error;
  std::set<fs::path> now;
  for (const auto& entry : fs::directory_iterator(directory_, error)) now.insert(entry.path());
  for (const fs::path& path : now) {
    if (!names_.contains(path.filename())) fs::remove_all(path, error);
  }
  for (const fs::path& path : missing_) fs::remove(path, error);  // if it is empty
}

}  // namespace skerry
