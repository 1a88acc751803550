// Values as bytes: whole numbers as varints (signed ones zigzag), floats as their bits, identities
// as they are, containers behind their length, structs field by field (coordinator/state_fields.h).
// A value has one form, and a reader takes no other.
//
// The reader takes any bytes. It allocates for what it has read, never for what a length says; the
// first thing that cannot be fails it, and all that follows is read as nothing.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "coordinator/state_fields.h"

namespace skerry {

template <typename T>
concept HasFields = requires(T& of) {
  FieldsOf(of);
};
template <typename T>
concept IsEnum = std::is_enum_v<T>;

constexpr DeltaCodec LastOf(DeltaCodec) {
  return DeltaCodec::kLast;
}
constexpr AdmissionPolicy LastOf(AdmissionPolicy) {
  return AdmissionPolicy::kListed;
}

class StateWriter {
 public:
  void Put(std::integral auto value) {
    auto rest = static_cast<uint64_t>(value);
    if constexpr (std::signed_integral<decltype(value)>) {
      const auto wide = static_cast<int64_t>(value);
      rest = (static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63);
    }
    for (; rest >= 0x80; rest >>= 7) bytes_.push_back(static_cast<uint8_t>(rest | 0x80));
    bytes_.push_back(static_cast<uint8_t>(rest));
  }
  void Put(IsEnum auto value) { Put(static_cast<std::underlying_type_t<decltype(value)>>(value)); }
  void Put(double value) { Raw(&value, sizeof value); }
  void Put(float value) { Raw(&value, sizeof value); }
  void Put(const std::string& text) {
    Put(text.size());
    Raw(text.data(), text.size());
  }
  template <typename Tag>
  void Put(const Id256<Tag>& id) {
    Raw(id.bytes.data(), id.bytes.size());
  }
  template <typename A, typename B>
  void Put(const std::pair<A, B>& pair) {
    Put(pair.first);
    Put(pair.second);
  }
  template <typename T>
  void Put(const std::optional<T>& maybe) {
    Put(maybe.has_value());
    if (maybe) Put(*maybe);
  }
  template <typename T>
  void Put(const std::vector<T>& list) {
    PutAll(list);
  }
  template <typename T>
  void Put(const std::set<T>& set) {
    PutAll(set);
  }
  template <typename K, typename V>
  void Put(const std::map<K, V>& map) {
    PutAll(map);
  }
  void Put(const HasFields auto& of) {
    std::apply([this](const auto&... field) { (Put(field), ...); }, FieldsOf(of));
  }
  Bytes Take() { return std::move(bytes_); }

 private:
  void Raw(const void* from, size_t bytes) {
    static_assert(std::endian::native == std::endian::little);
    const auto* first = static_cast<const uint8_t*>(from);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  void PutAll(const auto& container) {
    Put(container.size());
    for (const auto& element : container) Put(element);
  }

  Bytes bytes_;
};

class StateReader {
 public:
  explicit StateReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  // Whether all that was read could be.
  bool ok() const { return !failed_; }
  bool AtEnd() const { return rest_.empty(); }
  std::span<const uint8_t> rest() const { return rest_; }

  template <std::integral T>
  void Get(T& value) {
    const uint64_t read = Varint();
    if constexpr (std::signed_integral<T>) {
      const auto wide = static_cast<int64_t>(read >> 1) ^ -static_cast<int64_t>(read & 1);
      value = static_cast<T>(wide);
      if (value != wide) Fail();
    } else {
      constexpr uint64_t kMax = std::numeric_limits<T>::max();
      if (read > kMax) Fail();
      value = static_cast<T>(read);
    }
  }
  template <IsEnum T>
  void Get(T& value) {
    std::underlying_type_t<T> number{};
    Get(number);
    if (number > static_cast<std::underlying_type_t<T>>(LastOf(T{}))) return Fail();
    value = static_cast<T>(number);
  }
  void Get(double& value) { Raw(&value, sizeof value); }
  void Get(float& value) { Raw(&value, sizeof value); }
  void Get(std::string& text) {
    const size_t length = Count();
    text.assign(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
  }
  template <typename Tag>
  void Get(Id256<Tag>& id) {
    Raw(id.bytes.data(), id.bytes.size());
  }
  template <typename A, typename B>
  void Get(std::pair<A, B>& pair) {
    Get(pair.first);
    Get(pair.second);
  }
  template <typename T>
  void Get(std::optional<T>& maybe) {
    bool has_value = false;
    Get(has_value);
    if (has_value) Get(maybe.emplace());
  }
  template <typename T>
  void Get(std::vector<T>& list) {
    for (size_t left = Count(); left > 0 && ok(); --left) Get(list.emplace_back());
  }
  template <typename T>
  void Get(std::set<T>& set) {
    for (size_t left = Count(); left > 0 && ok(); --left) {
      T element{};
      Get(element);
      if (!set.empty() && !(*std::prev(set.end()) < element)) Fail();
      if (ok()) set.emplace_hint(set.end(), std::move(element));
    }
  }
  template <typename K, typename V>
  void Get(std::map<K, V>& map) {
    for (size_t left = Count(); left > 0 && ok(); --left) {
      K key{};
      Get(key);
      if (!map.empty() && !(std::prev(map.end())->first < key)) Fail();
      if (ok()) Get(map.emplace_hint(map.end(), std::move(key), V{})->second);
    }
  }
  void Get(HasFields auto& of) {
    std::apply([this](auto&... field) { (Get(field), ...); }, FieldsOf(of));
  }

 private:
  void Fail() {
    failed_ = true;
    rest_ = {};
  }
  void Raw(void* to, size_t bytes) {
    if (rest_.size() < bytes) return Fail();
    std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  uint64_t Varint() {
    constexpr int kBits = 64;
    uint64_t value = 0;
    for (int shift = 0; shift < kBits && !rest_.empty(); shift += 7) {
      const uint8_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      const uint64_t part = byte & 0x7f;
      const bool is_longer_than_need_be = byte == 0 && shift > 0;
      if (part << shift >> shift != part || is_longer_than_need_be) break;
      value |= part << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  // Of elements that follow: each takes a byte at least.
  size_t Count() {
    const uint64_t count = Varint();
    if (count > rest_.size()) Fail();
    return ok() ? static_cast<size_t>(count) : 0;
  }

  std::span<const uint8_t> rest_;
  bool failed_ = false;
};

}  // namespace skerry
