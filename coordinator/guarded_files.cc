#include "coordinator/guarded_files.h"

#include "common/status.h"

namespace skerry {
namespace {

class GuardedWriter final : public CheckpointFiles::Writer {
 public:
  GuardedWriter(std::unique_ptr<Writer> writer, std::function<absl::Status()> ask)
      : writer_(std::move(writer)), ask_(std::move(ask)) {}
  absl::Status Write(std::span<const uint8_t> bytes) override { return writer_->Write(bytes); }
  absl::Status Commit() override {
    SKERRY_RETURN_IF_ERROR(ask_());
    return writer_->Commit();
  }
  absl::Status Place() override {
    SKERRY_RETURN_IF_ERROR(ask_());
    return writer_->Place();
  }

 private:
  std::unique_ptr<Writer> writer_;
  std::function<absl::Status()> ask_;
};

}  // namespace

absl::Status GuardedFiles::Ask() const {
  return may_change_() ? absl::OkStatus()
                       : Aborted("whether this coordinator still leads is not known");
}

absl::StatusOr<std::unique_ptr<CheckpointFiles::Writer>> GuardedFiles::Create(
    const std::string& path) {
  SKERRY_RETURN_IF_ERROR(Ask());
  SKERRY_ASSIGN_OR_RETURN(auto writer, files_->Create(path));
  return std::make_unique<GuardedWriter>(std::move(writer), [this] { return Ask(); });
}

absl::Status GuardedFiles::Remove(const std::string& path) {
  SKERRY_RETURN_IF_ERROR(Ask());
  return files_->Remove(path);
}

}  // namespace skerry
