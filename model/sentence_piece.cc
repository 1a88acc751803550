#include "model/sentence_piece.h"

#include "common/status.h"
#include "model/file_io.h"
#include "model/sentence_piece_library.h"

namespace skerry {
namespace {

constexpr int64_t kModelBytesMax = 256 << 20;

class SentencePiece final : public TextTokenizer {
 public:
  explicit SentencePiece(std::unique_ptr<SentencePieceLibrary> library)
      : library_(std::move(library)) {}
  int32_t vocab() const override { return library_->Size(); }
  std::vector<int32_t> Encode(std::string_view text) override { return library_->Encode(text); }
  std::string Decode(std::span<const int32_t> tokens) const override {
    std::vector<int> known;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < vocab()) known.push_back(token);
    }
    return library_->Decode(known);
  }
  int32_t IdOf(const std::string& token) const override { return library_->IdOf(token); }
  int32_t separator() const override { return library_->EndOfText(); }

 private:
  std::unique_ptr<SentencePieceLibrary> library_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenSentencePiece(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(const std::string model, ReadSmallFile(path, kModelBytesMax));
  auto library = SentencePieceLibrary::Load(model);
  if (library == nullptr) return InvalidArgument("%s: is no SentencePiece model", path);
  return std::make_unique<SentencePiece>(std::move(library));
}

}  // namespace skerry
