// What reads bytes from outside, as functions of bytes: each takes any input and ends, or finds a
// bug by CHECK or by a sanitizer. Driven by libFuzzer (`./dev fuzz`, fuzz_main.cc) and, without
// clang, by replay and deterministic mutation (fuzz_smoke_test.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"

namespace skerry {

struct FuzzTarget {
  const char* name;
  void (*run)(std::span<const uint8_t> input);
  // Well-formed inputs to begin with.
  std::vector<Bytes> (*seeds)();
};

// All there are: of the wire, of files, of models and texts, of codecs.
std::vector<FuzzTarget> FuzzTargets();
std::vector<FuzzTarget> WireTargets();
std::vector<FuzzTarget> FileTargets();
std::vector<FuzzTarget> ModelTargets();
std::vector<FuzzTarget> CodecTargets();

inline std::string TextIn(std::span<const uint8_t> input) {
  return std::string(input.begin(), input.end());
}
inline Bytes BytesOf(const std::string& text) {
  return Bytes(text.begin(), text.end());
}

}  // namespace skerry
