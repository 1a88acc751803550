#include "model/token_bin.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

struct Header {
  int32_t magic = 0, version = 0, tokens = 0;
};
constexpr int32_t kMagicOf16 = 20240520, kVersionOf16 = 1;
constexpr int32_t kMagicOf32 = 20240801, kVersionOf32 = 7;

}  // namespace

absl::StatusOr<TokenBin> TokenBin::Open(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(auto map, MappedFile::Open(path));
  TokenBin bin;
  bin.map_ = std::move(map);
  const std::span<const uint8_t> bytes = bin.map_->bytes();
  Header header;
  if (bytes.size() >= kHeaderBytes) std::memcpy(&header, bytes.data(), sizeof(header));
  const bool of_16 = header.magic == kMagicOf16, of_32 = header.magic == kMagicOf32;
  if (of_16 || of_32) {
    const int32_t version = of_16 ? kVersionOf16 : kVersionOf32;
    if (header.version != version) {
      return InvalidArgument("%s: want version %d of llm.c's token files, got %d", path, version,
                             header.version);
    }
    bin.begin_ = kHeaderBytes;
    bin.token_bytes_ = of_16 ? 2 : 4;
  }
  const size_t body = bytes.size() - bin.begin_;
  bin.tokens_ = static_cast<int64_t>(body / bin.token_bytes_);
  if (body % bin.token_bytes_ != 0) {
    return InvalidArgument("%s: %d bytes are no whole number of tokens of %d", path, body,
                           bin.token_bytes_);
  }
  if (bin.begin_ > 0 && header.tokens != bin.tokens_) {
    return InvalidArgument("%s: its header says %d tokens, it has %d: cut short?", path,
                           header.tokens, bin.tokens_);
  }
  return bin;
}

std::vector<int32_t> TokenBin::Read(int64_t first, int64_t count) const {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  const uint8_t* at = map_->bytes().data() + begin_ + static_cast<size_t>(first) * token_bytes_;
  for (int32_t& token : tokens) {
    uint32_t value = 0;
    std::memcpy(&value, at, token_bytes_);
    token = static_cast<int32_t>(value);
    at += token_bytes_;
  }
  return tokens;
}

bool IsTokenBin(const std::string& path) {
  return path.ends_with(".bin");
}

bool IsForValidation(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.starts_with("val") || name.find("_val") != std::string::npos;
}

}  // namespace skerry
