#include "wire/message/sum_message.h"

#include <algorithm>

namespace skerry {
namespace {

// Little-endian; a list behind its length.
class Writer {
 public:
  void Put(uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<uint8_t>(number >> (8 * i)));
  }
  void Put(int64_t number) { Put(static_cast<uint64_t>(number)); }
  void Put(int32_t number) { Put(static_cast<int64_t>(number)); }
  template <typename Tag>
  void Put(const Id256<Tag>& id) {
    bytes_.insert(bytes_.end(), id.bytes.begin(), id.bytes.end());
  }
  void Put(const Participant& participant) {
    Put(participant.node);
    Put(participant.tokens);
    Put(participant.digest);
  }
  void Put(const PieceState& state) {
    Put(state.piece);
    Put(state.before);
    Put(state.after);
  }
  template <typename T>
  void Put(const std::vector<T>& list) {
    Put(static_cast<uint64_t>(list.size()));
    for (const T& one : list) Put(one);
  }
  Bytes Take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

}  // namespace

Bytes StatedBytes(const NodeId& by, const SumsHeld& held) {
  const auto own = std::find_if(held.sums.begin(), held.sums.end(),
                                [&](const Participant& sum) { return sum.node == by; });
  Writer writer;
  writer.Put(by);
  writer.Put(held.stage);
  writer.Put(held.round);
  writer.Put(held.shape);
  writer.Put(own == held.sums.end() ? Digest{} : own->digest);
  writer.Put(held.statement.sent);
  writer.Put(held.statement.summed);
  writer.Put(held.statement.states);
  return writer.Take();
}

}  // namespace skerry
