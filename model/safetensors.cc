#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status.h"
#include "model/number_formats.h"

namespace skerry {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kHalvesAtATime = 1 << 15;
constexpr size_t kAlignment = 8;  // data begin here, as the reference implementation pads

constexpr const char* kTypeNames[] = {"F32", "BF16", "F16"};  // by StoredType

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrFormat("[%s]", absl::StrJoin(shape, ", "));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<TensorHeader>& tensors,
    const std::map<std::string, std::string>& metadata, StoredType type) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t bytes = 0;
  for (const TensorHeader& tensor : tensors) {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    const int64_t end = bytes + elements * StoredBytes(type);
    header[tensor.name] = {{"dtype", kTypeNames[static_cast<size_t>(type)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  SKERRY_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  const uint64_t length = text.size();
  uint8_t prefix[kLengthBytes];
  std::memcpy(prefix, &length, kLengthBytes);
  SKERRY_RETURN_IF_ERROR(file->Write(std::span<const uint8_t>(prefix)));
  SKERRY_RETURN_IF_ERROR(file->Write(text));
  return std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(std::move(file), type, bytes / StoredBytes(type)));
}

absl::Status SafetensorsWriter::Append(std::span<const float> values) {
  SKERRY_CHECK(static_cast<int64_t>(values.size()) <= floats_left_, "more than announced");
  floats_left_ -= static_cast<int64_t>(values.size());
  if (type_ == StoredType::kF32) {
    return file_->Write(
        std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
  }
  halves_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    halves_[i] = type_ == StoredType::kBf16 ? ToBf16Bits(values[i]) : ToF16Bits(values[i]);
  }
  return file_->Write(
      std::span(reinterpret_cast<const uint8_t*>(halves_.data()), 2 * halves_.size()));
}

absl::Status SafetensorsWriter::Commit() {
  SKERRY_CHECK(floats_left_ == 0, "less than announced");
  return file_->Commit();
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(auto file, PartlyReadFile::Open(path));
  const auto size = static_cast<uint64_t>(file->size());
  if (size < kLengthBytes) {
    return InvalidArgument("%s: %d bytes are no safetensors file", path, size);
  }
  uint64_t length = 0;
  SKERRY_RETURN_IF_ERROR(
      file->Read(0, std::span(reinterpret_cast<uint8_t*>(&length), sizeof(length))));
  if (length > kSafetensorsHeaderBytesMax || length > size - kLengthBytes) {
    return InvalidArgument("%s: its header claims %d bytes; the file has %d and %d are allowed",
                           path, length, size, kSafetensorsHeaderBytesMax);
  }
  std::vector<uint8_t> header(length);
  SKERRY_RETURN_IF_ERROR(file->Read(kLengthBytes, header));
  std::unique_ptr<SafetensorsFile> opened(new SafetensorsFile);
  opened->data_begin_ = static_cast<int64_t>(kLengthBytes + length);
  auto tensors = ParseSafetensorsHeader(header, file->size() - opened->data_begin_);
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  opened->tensors_ = *std::move(tensors);
  opened->file_ = std::move(file);
  return opened;
}

absl::Status SafetensorsFile::CheckShape(const std::string& name,
                                         const std::vector<int64_t>& shape) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return NotFound("%s: lacks tensor %s", file_->path(), name);
  const StoredTensor& tensor = it->second;
  if (tensor.shape != shape) {
    return InvalidArgument("%s: tensor %s has shape %s, want %s", file_->path(), name,
                           ShapeText(tensor.shape), ShapeText(shape));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::Read(const std::string& name, const std::vector<int64_t>& shape,
                                   std::span<float> out) const {
  SKERRY_RETURN_IF_ERROR(CheckShape(name, shape));
  const StoredTensor& tensor = tensors_.at(name);
  SKERRY_CHECK(static_cast<int64_t>(out.size()) == tensor.elements);
  return ReadPart(tensor, 0, out);
}

absl::Status SafetensorsFile::ReadPart(const StoredTensor& tensor, int64_t first,
                                       std::span<float> out) const {
  SKERRY_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tensor.elements);
  int64_t offset = data_begin_ + tensor.begin + first * StoredBytes(tensor.type);
  if (tensor.type == StoredType::kF32) {
    return file_->Read(offset, {reinterpret_cast<uint8_t*>(out.data()), out.size_bytes()});
  }
  std::array<uint16_t, kHalvesAtATime> halves;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), halves.size());
    SKERRY_RETURN_IF_ERROR(
        file_->Read(offset, {reinterpret_cast<uint8_t*>(halves.data()), 2 * count}));
    for (size_t i = 0; i < count; ++i) {
      out[i] = tensor.type == StoredType::kBf16 ? FromBf16Bits(halves[i]) : FromF16Bits(halves[i]);
    }
    offset += static_cast<int64_t>(2 * count);
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace skerry
