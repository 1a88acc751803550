#include "model/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status.h"
#include "model/number_formats.h"

namespace skerry {
namespace {

constexpr size_t kLengthBytes = 8;
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
  SKERRY_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    return InvalidArgument("%s: %d bytes are no safetensors file", path, bytes.size());
  }
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kSafetensorsHeaderBytesMax || length > bytes.size() - kLengthBytes) {
    return InvalidArgument("%s: its header claims %d bytes; the file has %d and %d are allowed",
                           path, length, bytes.size(), kSafetensorsHeaderBytesMax);
  }
  std::unique_ptr<SafetensorsFile> opened(new SafetensorsFile);
  opened->data_ = bytes.subspan(kLengthBytes + length);
  auto tensors = ParseSafetensorsHeader(bytes.subspan(kLengthBytes, length),
                                        static_cast<int64_t>(opened->data_.size()));
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
  ReadPart(tensor, 0, out);
  return absl::OkStatus();
}

void SafetensorsFile::WillRead(const StoredTensor& tensor, int64_t first, int64_t count) const {
  const int64_t bytes = StoredBytes(tensor.type);
  const auto header = static_cast<int64_t>(data_.data() - file_->bytes().data());
  file_->WillRead(header + tensor.begin + first * bytes, count * bytes);
}

void SafetensorsFile::ReadPart(const StoredTensor& tensor, int64_t first,
                               std::span<float> out) const {
  SKERRY_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tensor.elements);
  const uint8_t* from = data_.data() + tensor.begin + first * StoredBytes(tensor.type);
  if (tensor.type == StoredType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  for (float& value : out) {
    uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    from += sizeof(bits);
    value = tensor.type == StoredType::kBf16 ? FromBf16Bits(bits) : FromF16Bits(bits);
  }
}

}  // namespace skerry
