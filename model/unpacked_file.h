// The bytes of a file or of standard input, as they are or unpacked: gzip (also dictzip and several
// members one after the other) and Zstandard (also several frames), told by their first bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

inline constexpr char kStandardInput[] = "-";

// One pass, one thread. Memory: two pieces of 256 KiB, and the window of a Zstandard stream, at
// most 128 MiB.
class UnpackedFile {
 public:
  // `path`: a regular file, or kStandardInput. NotFound, InvalidArgument or PermissionDenied names
  // it.
  static absl::StatusOr<UnpackedFile> Open(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(UnpackedFile&&) noexcept;
  UnpackedFile& operator=(UnpackedFile&&) = delete;

  // The next bytes, valid until the next call; empty at the end. DataLoss: damaged, or ends in the
  // middle of a stream. InvalidArgument: what is in it is no text, packed or not.
  absl::StatusOr<std::string_view> Next();
  double progress() const;  // share of the file read, in [0, 1]; of standard input 0 until the end

 private:
  class Stream;
  class Gzip;
  class Zstandard;
  struct State;
  explicit UnpackedFile(std::unique_ptr<State> state);
  absl::Status Refill();
  absl::Status Recognise();
  absl::StatusOr<std::string_view> Unpack();

  std::unique_ptr<State> state_;
};

}  // namespace skerry
