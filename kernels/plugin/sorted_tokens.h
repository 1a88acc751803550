// Tokens of a microbatch by value, so that a scatter can add what belongs together in one fixed
// order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace skerry {

// As GpuScatter (table.h): `tokens` ≥ 0 that occur, ascending; places[starts[i]] …
// places[starts[i + 1] − 1] are where tokens[i] occurs, ascending.
struct SortedTokens {
  std::vector<int32_t> tokens, starts, places;
};

inline SortedTokens SortTokens(std::span<const int32_t> tokens) {
  SortedTokens out;
  out.places.resize(tokens.size());
  std::iota(out.places.begin(), out.places.end(), 0);
  std::stable_sort(out.places.begin(), out.places.end(),
                   [&](int32_t a, int32_t b) { return tokens[a] < tokens[b]; });
  for (size_t i = 0; i < out.places.size(); ++i) {
    const int32_t token = tokens[static_cast<size_t>(out.places[i])];
    if (token < 0) continue;
    if (!out.tokens.empty() && out.tokens.back() == token) continue;
    out.tokens.push_back(token);
    out.starts.push_back(static_cast<int32_t>(i));
  }
  out.starts.push_back(static_cast<int32_t>(out.places.size()));
  return out;
}

}  // namespace skerry
