// Token files of other trainers, as they are: nanoGPT's (uint16, nothing else) and llm.c's (a
// header of 256 int32: 20240520, 1, tokens for uint16; 20240801, 7, tokens for uint32).
// Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/file_io.h"

namespace skerry {

class TokenBin {
 public:
  // InvalidArgument names the file: a count that is not its size's, a header of another version, a
  // byte too many.
  static absl::StatusOr<TokenBin> Open(const std::string& path);

  int64_t tokens() const { return tokens_; }
  // Tokens [first, first + count), within tokens(); those beyond 2³¹ − 1 are negative.
  std::vector<int32_t> Read(int64_t first, int64_t count) const;

 private:
  std::shared_ptr<MappedFile> map_;
  size_t begin_ = 0, token_bytes_ = 2;
  int64_t tokens_ = 0;
};

// Whether a file of this name is taken for one: *.bin.
bool IsTokenBin(const std::string& path);
// By its name, as both trainers have it: val.bin, fineweb_val_000000.bin.
bool IsForValidation(const std::string& path);

}  // namespace skerry
