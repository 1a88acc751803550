// Bulk bytes. A Payload is shared and never changes once made: a message that carries one is cheap
// to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace skerry {

using Bytes = std::vector<uint8_t>;

// *Hollow* payloads stand for more bytes than they have: a simulator moves gigabytes without
// holding them. What they do hold tells one from another; only a whole payload can be sent for
// real.
class Payload {
 public:
  Payload() = default;
  Payload(std::nullptr_t) {}  // NOLINT: as a pointer would
  Payload(Bytes bytes, int64_t size)
      : bytes_(std::make_shared<const Bytes>(std::move(bytes))), size_(size) {}
  explicit Payload(std::shared_ptr<const Bytes> bytes)
      : bytes_(std::move(bytes)), size_(static_cast<int64_t>(bytes_->size())) {}

  explicit operator bool() const { return bytes_ != nullptr; }
  const Bytes& operator*() const { return *bytes_; }
  const Bytes* operator->() const { return bytes_.get(); }
  int64_t size() const { return size_; }  // what it stands for
  bool IsWhole() const { return size_ == (bytes_ ? static_cast<int64_t>(bytes_->size()) : 0); }

 private:
  std::shared_ptr<const Bytes> bytes_;
  int64_t size_ = 0;
};

inline Payload MakePayload(Bytes bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  return {std::move(bytes), size};
}
inline Payload MakeHollowPayload(Bytes bytes, int64_t size) {
  return {std::move(bytes), size};
}
// The bytes that are there.
inline std::span<const uint8_t> View(const Payload& payload) {
  return payload ? std::span<const uint8_t>(*payload) : std::span<const uint8_t>();
}
inline int64_t SizeOf(const Payload& payload) {
  return payload.size();
}

}  // namespace skerry
