// The keys of a GGUF file as bytes, in the order in which they were added.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace skerry {

class GgufBytes {
 public:
  template <typename T>
  void Put(T value) {
    const auto* from = reinterpret_cast<const char*>(&value);
    bytes_.append(from, sizeof(value));
  }
  void PutText(const std::string& text) {
    Put<uint64_t>(text.size());
    bytes_ += text;
  }
  void Pad(int64_t alignment) {
    const size_t rest = bytes_.size() % static_cast<size_t>(alignment);
    if (rest != 0) bytes_.append(static_cast<size_t>(alignment) - rest, '\0');
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufKeys {
 public:
  void Add(const std::string& key, const std::string& text) {
    Begin(key, kText);
    out_.PutText(text);
  }
  void Add(const std::string& key, uint32_t value) {
    Begin(key, kUint32);
    out_.Put(value);
  }
  void Add(const std::string& key, float value) {
    Begin(key, kFloat32);
    out_.Put(value);
  }
  void AddFlag(const std::string& key, bool value) {
    Begin(key, kBool);
    out_.Put<uint8_t>(value ? 1 : 0);
  }
  void Add(const std::string& key, const std::vector<std::string>& texts) {
    BeginArray(key, kText, texts.size());
    for (const std::string& text : texts) out_.PutText(text);
  }
  void Add(const std::string& key, const std::vector<int32_t>& values) {
    BeginArray(key, kInt32, values.size());
    for (const int32_t value : values) out_.Put(value);
  }
  void Add(const std::string& key, const std::vector<float>& values) {
    BeginArray(key, kFloat32, values.size());
    for (const float value : values) out_.Put(value);
  }
  uint64_t count() const { return count_; }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  static constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kText = 8, kArray = 9;
  void Begin(const std::string& key, uint32_t type) {
    ++count_;
    out_.PutText(key);
    out_.Put(type);
  }
  void BeginArray(const std::string& key, uint32_t of, size_t size) {
    Begin(key, kArray);
    out_.Put(of);
    out_.Put<uint64_t>(size);
  }
  GgufBytes out_;
  uint64_t count_ = 0;
};

}  // namespace skerry
