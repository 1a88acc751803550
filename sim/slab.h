// A sequence that grows at its end and never moves what it holds. Chunks double in size: there are
// few of them, so finding an element costs a shift and one look at a table that stays cached, and
// neighbours are neighbours in memory. (std::deque keeps one block per object of this size.)
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace skerry {

// Not thread-safe. References stay valid until the slab ends.
template <typename T>
class Slab {
 public:
  Slab() = default;
  ~Slab() {
    for (size_t i = size_; i-- > 0;) std::destroy_at(&(*this)[i]);
    for (size_t c = 0; c < chunks_.size() && chunks_[c] != nullptr; ++c)
      std::allocator<T>().deallocate(chunks_[c], kFirst << c);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  size_t size() const { return size_; }
  T& operator[](size_t i) { return *Place(i); }
  const T& operator[](size_t i) const { return *Place(i); }

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    T*& chunk = chunks_[ChunkOf(size_)];
    if (chunk == nullptr) chunk = std::allocator<T>().allocate(kFirst << ChunkOf(size_));
    T* made = std::construct_at(Place(size_), std::forward<Args>(args)...);
    ++size_;
    return *made;
  }

  struct Iterator {
    Slab* slab;
    size_t i;
    T& operator*() const { return (*slab)[i]; }
    Iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return i != o.i; }
  };
  Iterator begin() { return {this, 0}; }
  Iterator end() { return {this, size_}; }

 private:
  static constexpr size_t kFirstBits = 6;
  static constexpr size_t kFirst = size_t{1} << kFirstBits;  // elements of chunk 0
  static constexpr size_t kChunks = 40;

  // Chunk c holds the elements i with i + kFirst in [kFirst · 2^c, kFirst · 2^(c+1)).
  static size_t ChunkOf(size_t i) {
    return static_cast<size_t>(std::bit_width(i + kFirst)) - 1 - kFirstBits;
  }
  T* Place(size_t i) const {
    const size_t chunk = ChunkOf(i);
    return chunks_[chunk] + (i + kFirst - (kFirst << chunk));
  }

  std::array<T*, kChunks> chunks_{};
  size_t size_ = 0;
};

}  // namespace skerry
