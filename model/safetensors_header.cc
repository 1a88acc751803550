#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/status.h"
#include "model/safetensors.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::optional<StoredType> TypeOf(const std::string& text) {
  if (text == "F32") return StoredType::kF32;
  if (text == "BF16") return StoredType::kBf16;
  if (text == "F16") return StoredType::kF16;
  return std::nullopt;
}

int64_t BytesOf(StoredType type) {
  return type == StoredType::kF32 ? 4 : 2;
}

// A count in a hostile header: a whole number in [0, max].
std::optional<int64_t> Count(const Json& value, int64_t max) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto count = value.get<uint64_t>();
  if (count > static_cast<uint64_t>(max)) return std::nullopt;
  return static_cast<int64_t>(count);
}

absl::Status ParseShape(const Json& shape, int64_t elements_max, StoredTensor& tensor) {
  if (!shape.is_array() || shape.size() > kSafetensorsDimensionsMax) {
    return InvalidArgument("shape must be a list of at most %d sizes", kSafetensorsDimensionsMax);
  }
  tensor.elements = 1;
  for (const Json& size : shape) {
    const auto count = Count(size, elements_max);
    if (!count) return InvalidArgument("a size in its shape is no number or more than the file");
    tensor.shape.push_back(*count);
    if (__builtin_mul_overflow(tensor.elements, *count, &tensor.elements) ||
        tensor.elements > elements_max) {
      return InvalidArgument("its shape holds more than the file");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTensor> ParseTensor(const Json& entry, int64_t data_bytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return InvalidArgument("want dtype, shape and data_offsets");
  }
  const Json& dtype = entry["dtype"];
  const auto type = dtype.is_string() ? TypeOf(dtype.get<std::string>()) : std::nullopt;
  if (!type) return InvalidArgument("its dtype is none of F32, BF16, F16");
  StoredTensor tensor;
  tensor.type = *type;
  SKERRY_RETURN_IF_ERROR(ParseShape(entry["shape"], data_bytes / BytesOf(*type), tensor));
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    return InvalidArgument("data_offsets must be [begin, end]");
  }
  const auto begin = Count(offsets[0], data_bytes);
  const auto end = Count(offsets[1], data_bytes);
  if (!begin || !end || *begin > *end) {
    return InvalidArgument("data_offsets lie outside the file's %d bytes of tensors", data_bytes);
  }
  tensor.begin = *begin;
  tensor.end = *end;
  if (tensor.end - tensor.begin != tensor.elements * BytesOf(*type)) {
    return InvalidArgument("its shape needs %d bytes, data_offsets give %d",
                           tensor.elements * BytesOf(*type), tensor.end - tensor.begin);
  }
  return tensor;
}

absl::Status CheckTiling(const std::map<std::string, StoredTensor>& tensors, int64_t data_bytes) {
  std::vector<std::pair<const StoredTensor*, const std::string*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&tensor, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  int64_t at = 0;
  for (const auto& [tensor, name] : order) {
    if (tensor->begin != at) {
      return InvalidArgument("tensor %s begins at byte %d, want %d: gap or overlap", *name,
                             tensor->begin, at);
    }
    at = tensor->end;
  }
  if (at != data_bytes) {
    return InvalidArgument("tensors end at byte %d, the file's data at %d", at, data_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensorsHeader(
    std::span<const uint8_t> header, int64_t data_bytes) {
  const Json json = Json::parse(header.begin(), header.end(), nullptr, false);
  if (!json.is_object()) return InvalidArgument("its header is not a JSON object");
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    auto tensor = ParseTensor(entry, data_bytes);
    if (!tensor.ok()) return Annotate(tensor.status(), "tensor " + name);
    tensors.emplace(name, *std::move(tensor));
  }
  SKERRY_RETURN_IF_ERROR(CheckTiling(tensors, data_bytes));
  return tensors;
}

}  // namespace skerry
