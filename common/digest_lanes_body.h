// BLAKE2b (RFC 7693) over lanes: names are those of its section 3. Included by the files that are
// compiled for an instruction set, and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace skerry {
namespace {

constexpr size_t kBlockBytes = 128;
constexpr int kRounds = 12;
constexpr int kWords = 16;

constexpr uint64_t kIv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                             0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                             0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr uint8_t kSigma[kRounds][kWords] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

template <int kLanes>
struct Lanes;
template <>
struct Lanes<4> {
  typedef uint64_t V __attribute__((vector_size(32)));
};
template <>
struct Lanes<8> {
  typedef uint64_t V __attribute__((vector_size(64)));
};

template <int kLanes>
struct Blake {
  using V = typename Lanes<kLanes>::V;
  typedef uint8_t Bytes __attribute__((vector_size(32)));

  template <int kBits>
  static V RotateRight(V x) {
    if constexpr (kLanes == 8) {  // has an instruction for it
      return (x >> kBits) | (x << (64 - kBits));
    } else if constexpr (kBits % 8 == 0) {  // has one that moves bytes
      Bytes from = {};
      for (int i = 0; i < 32; ++i) from[i] = static_cast<uint8_t>((i & ~7) + (i + kBits / 8) % 8);
      return reinterpret_cast<V>(__builtin_shuffle(reinterpret_cast<Bytes>(x), from));
    } else {
      static_assert(kBits == 63);
      return (x >> kBits) ^ (x + x);
    }
  }

  static void Mix(V& a, V& b, V& c, V& d, V x, V y) {
    a = a + b + x;
    d = RotateRight<32>(d ^ a);
    c = c + d;
    b = RotateRight<24>(b ^ c);
    a = a + b + y;
    d = RotateRight<16>(d ^ a);
    c = c + d;
    b = RotateRight<63>(b ^ c);
  }

  // Rows and columns of a square change places.
  static void Transpose(V* rows) {
    V lane;
    for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<uint64_t>(i);
#pragma GCC unroll 3
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const auto d = static_cast<uint64_t>(distance);
      const V low = (lane & d) == 0 ? lane : lane - d + kLanes;
      const V high = (lane & d) == 0 ? lane + d : lane + kLanes;
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) {
        if ((i & distance) != 0) continue;
        const V a = rows[i], b = rows[i + distance];
        rows[i] = __builtin_shuffle(a, b, low);
        rows[i + distance] = __builtin_shuffle(a, b, high);
      }
    }
  }

  static void Load(const uint8_t* const* blocks, size_t at, V* m) {
#pragma GCC unroll 4
    for (int group = 0; group < kWords; group += kLanes) {
#pragma GCC unroll 8
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(&m[group + lane], blocks[lane] + at + 8 * group, sizeof(V));
      }
      Transpose(m + group);
    }
  }

  static void Compress(V* h, const V* m, uint64_t bytes, bool is_last) {
    V v[kWords];
    for (int i = 0; i < 8; ++i) {
      v[i] = h[i];
      v[i + 8] = V{} + kIv[i];
    }
    v[12] ^= V{} + bytes;
    if (is_last) v[14] = ~v[14];
#pragma GCC unroll 12
    for (int round = 0; round < kRounds; ++round) {
      const uint8_t* s = kSigma[round];
      Mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
      Mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
      Mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
      Mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
      Mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
      Mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
      Mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
      Mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
  }

  static void Run(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]) {
    V h[8], m[kWords];
    for (int i = 0; i < 8; ++i) h[i] = V{} + kIv[i];
    h[0] ^= V{} + uint64_t{0x01010020};  // no key, 32 bytes
    size_t at = 0;
    for (; length - at > kBlockBytes; at += kBlockBytes) {
      Load(inputs, at, m);
      Compress(h, m, at + kBlockBytes, false);
    }
    uint8_t ends[kLanes][kBlockBytes] = {};
    const uint8_t* last[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      std::memcpy(ends[lane], inputs[lane] + at, length - at);
      last[lane] = ends[lane];
    }
    Load(last, 0, m);
    Compress(h, m, length, true);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int word = 0; word < 4; ++word) {
        const uint64_t value = h[word][lane];
        std::memcpy(digests[lane] + 8 * word, &value, sizeof(value));
      }
    }
  }
};

}  // namespace
}  // namespace skerry
