#include "model/sentence_piece_library.h"

#include <sentencepiece_processor.h>

#include <exception>

namespace skerry {
namespace {

class Processor final : public SentencePieceLibrary {
 public:
  // The library's tries throw on pieces that they cannot hold.
  bool Read(const std::string& model) try {
    return processor_.LoadFromSerializedProto(model).ok() && processor_.GetPieceSize() > 0;
  } catch (const std::exception&) {
    return false;
  }
  int Size() const override { return processor_.GetPieceSize(); }
  std::vector<int> Encode(std::string_view text) const override {
    return processor_.EncodeAsIds(text);
  }
  std::string Decode(const std::vector<int>& tokens) const override {
    return processor_.DecodeIds(tokens);
  }
  int IdOf(const std::string& piece) const override {
    const int id = processor_.PieceToId(piece);
    return id >= 0 && processor_.IdToPiece(id) == piece ? id : -1;
  }
  int EndOfText() const override { return processor_.eos_id(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<SentencePieceLibrary> SentencePieceLibrary::Load(const std::string& model) {
  auto processor = std::make_unique<Processor>();
  if (!processor->Read(model)) return nullptr;
  return processor;
}

}  // namespace skerry
