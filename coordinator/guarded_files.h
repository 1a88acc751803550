// Files of checkpoints that may be changed only as long as this process leads: coordinators that
// take turns may share them, and one that was stopped in the middle of a checkpoint must not go on
// with it beside its successor. Reading is free.
//
// The question is asked right before each change. A process that is stopped between the question
// and the change, for as long as its lease lasts, makes that one change late; its names say what is
// in them, but for a manifest, whose checkpoint then is noted damaged or of that other version.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/checkpoint_files.h"

namespace skerry {

class GuardedFiles final : public CheckpointFiles {
 public:
  // `may_change` is called on the threads that change files, several at once.
  GuardedFiles(std::unique_ptr<CheckpointFiles> files, std::function<bool()> may_change)
      : files_(std::move(files)), may_change_(std::move(may_change)) {}

  // Aborted if it may not be changed.
  absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

  absl::Status Sync(const std::string& folder, const std::vector<std::string>& names) override {
    return files_->Sync(folder, names);
  }
  int64_t SizeOf(const std::string& path) override { return files_->SizeOf(path); }
  absl::StatusOr<Bytes> Read(const std::string& path, int64_t offset, int64_t length) override {
    return files_->Read(path, offset, length);
  }
  absl::StatusOr<int64_t> ReadInto(const std::string& path, std::span<uint8_t> out) override {
    return files_->ReadInto(path, out);
  }
  bool takes_writers() const override { return files_->takes_writers(); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_->List(folder);
  }

 private:
  absl::Status Ask() const;

  std::unique_ptr<CheckpointFiles> files_;
  std::function<bool()> may_change_;
};

}  // namespace skerry
