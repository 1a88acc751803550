// The safetensors file format: 8 bytes header length (little-endian), a JSON header, raw tensors.
//
//   { "NAME": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [begin, end]}, …,
//     "__metadata__": {"format": "pt"} }          offsets count from the end of the header
//
// Written and read: F32, BF16, F16. A file from elsewhere is hostile until proven otherwise:
// every length, offset, type and shape is checked when it is opened, before anything is allocated
// for it; tensors must tile the data without gap or overlap.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/file_io.h"

namespace skerry {

inline constexpr int64_t kSafetensorsHeaderBytesMax = 16 << 20;
inline constexpr int kSafetensorsDimensionsMax = 8;

enum class StoredType : uint8_t { kF32, kBf16, kF16 };
constexpr int64_t StoredBytes(StoredType type) {
  return type == StoredType::kF32 ? 4 : 2;
}

struct TensorHeader {
  std::string name;
  std::vector<int64_t> shape;
};

// Streams tensors in the announced order. The file appears under its name on Commit, whole; on any
// error or without Commit nothing appears. One thread owns it.
class SafetensorsWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<TensorHeader>& tensors,
      const std::map<std::string, std::string>& metadata, StoredType type = StoredType::kF32);

  // The next values, rounded to the file's type, in the order of the tensors; pieces of any size.
  // More than announced is a bug.
  absl::Status Append(std::span<const float> values);
  absl::Status Commit();  // less than announced is a bug

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file, StoredType type, int64_t floats)
      : file_(std::move(file)), type_(type), floats_left_(floats) {}
  std::unique_ptr<AtomicFile> file_;
  StoredType type_;
  int64_t floats_left_ = 0;
  std::vector<uint16_t> halves_;
};

struct StoredTensor {
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t begin = 0;  // bytes from the end of the header
  int64_t end = 0;
};

// Parses the JSON header of a file with `data_bytes` of tensors; InvalidArgument names the tensor.
absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensorsHeader(
    std::span<const uint8_t> header, int64_t data_bytes);

class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  const std::string& path() const { return file_->path(); }

  // NotFound, or InvalidArgument if the tensor's shape is another.
  absl::Status CheckShape(const std::string& name, const std::vector<int64_t>& shape) const;
  // Converts to float32, after CheckShape; `out` has as many values as `shape` says.
  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape,
                    std::span<float> out) const;
  // Of a tensor that is there: values [first, first + out.size()), which it has. One after the
  // other they come as fast as the disk gives them.
  absl::Status ReadPart(const StoredTensor& tensor, int64_t first, std::span<float> out) const;

 private:
  SafetensorsFile() = default;
  std::unique_ptr<PartlyReadFile> file_;
  int64_t data_begin_ = 0;  // in the file
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace skerry
