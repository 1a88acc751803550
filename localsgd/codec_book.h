// Which codec the messages of a round are of: one for all tensors, or from some round on the one
// that a table makes (compression/codec_table.h), until the next table.
//
//   rounds     0 1 2 3 | 4 5 … 19 | 20 …
//   messages   int8    | table A  | table B        tables are named by the commits of earlier
//   rounds
//
// In a sharded stage a piece is of the table's slice. Sums travel as the messages of their round
// do, or by a codec of their own (DownCodecOf).
//
// A message of another table than its round's is refused by the codec itself (compression/mixed.h).
// Thread-safe: the device encodes of it while an actor checks what others sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/guarded.h"
#include "common/run_config.h"
#include "compression/codec.h"
#include "compression/low_rank.h"
#include "localsgd/piece_cut.h"

namespace skerry {

// Makes a codec of a kind whose encoding a device does (compression/device_codecs.h), or nullptr.
using CodecSource = std::function<std::shared_ptr<const Codec>(DeltaCodec)>;

class CodecBook {
 public:
  // `config.codec` for all `values` until there is a table. `cut`, `shape` and `source` as in
  // OuterReplicaOptions.
  CodecBook(const OuterConfig& config, int64_t values, const PieceCut& cut = {},
            const MatrixShape& shape = {}, const CodecSource& source = {});

  // Messages of rounds from `first_round` on are of this table, packed. One that is there already
  // stays. InvalidArgument: not a table of so many values; then nothing has changed.
  absl::Status SetTable(int64_t first_round, std::span<const uint8_t> packed);

  // Of a whole message, of a piece, of the sum of a piece. What is returned outlives the book.
  std::shared_ptr<const Codec> Of(int64_t round) const;
  std::shared_ptr<const Codec> OfPiece(int64_t round, int32_t piece) const;
  std::shared_ptr<const Codec> DownOfPiece(int64_t round, int32_t piece) const;

  // Rounds before `round` are over: what only they needed is forgotten.
  void ForgetBelow(int64_t round);
  // Whether nothing was forgotten that messages of that round need.
  bool Remembers(int64_t round) const;

 private:
  using Codecs = std::vector<std::shared_ptr<const Codec>>;  // the whole one, or of every piece
  Codecs ForAll(DeltaCodec kind, double bits, const MatrixShape& shape,
                const CodecSource& source) const;
  // Of the round's table, else the one of all rounds.
  std::shared_ptr<const Codec> Find(int64_t round, size_t index) const;

  int64_t values_;
  PieceCut cut_;
  bool down_follows_;
  Codecs codecs_, down_;  // for all tensors
  struct Tables {
    std::map<int64_t, Codecs> by_round;  // the first
    int64_t known_from = 0;              // a round
  };
  Guarded<Tables> tables_;
};

}  // namespace skerry
