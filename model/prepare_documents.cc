#include "model/prepare_documents.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"
#include "model/text_source.h"
#include "model/token_bin.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kUncutBytesMax = 4 << 20;  // waited for a line's end
constexpr size_t kLineBytesMax = 64 << 20;
constexpr int64_t kTokensAtOnce = 1 << 20;

bool IsSpaceByte(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Where a text can be cut so that no pattern of words sees it: behind the end of a line that is not
// empty, before one that begins with no space. 0: nowhere.
size_t LastCut(std::string_view text) {
  for (size_t at = text.size(); at-- > 2;) {
    if (text[at - 1] == '\n' && !IsSpaceByte(text[at]) && !IsSpaceByte(text[at - 2])) return at;
  }
  return 0;
}

bool HasJsonLines(std::string path) {
  for (const std::string packed : {".gz", ".dz", ".zst"}) {
    if (path.ends_with(packed)) path.resize(path.size() - packed.size());
  }
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input == kStandardInput || !fs::is_directory(input, error)) {
      files.push_back(input);
      continue;
    }
    std::vector<std::string> found;
    for (auto at = fs::recursive_directory_iterator(input, error);
         at != fs::recursive_directory_iterator(); at.increment(error)) {
      const bool hidden = at->path().filename().string().starts_with(".");
      if (hidden && at->is_directory()) at.disable_recursion_pending();
      if (!hidden && at->is_regular_file()) found.push_back(at->path().string());
    }
    if (error) return Unavailable("%s: %s", input, error.message());
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

class DocumentWriter {
 public:
  DocumentWriter(TokenDatasetWriter& writer, TextTokenizer& tokenizer, double validation_share)
      : writer_(writer), tokenizer_(tokenizer), share_(validation_share) {}

  absl::Status Add(std::string_view text, bool ends_document) {
    if (text.empty() && !ends_document) return absl::OkStatus();
    std::vector<int32_t> tokens = tokenizer_.Encode(text);
    if (ends_document && tokenizer_.separator() >= 0) tokens.push_back(tokenizer_.separator());
    return AddTokens(SplitOf(static_cast<int64_t>(text.size())), tokens);
  }
  // Whole files of tokens are not split.
  absl::Status AddTokens(Split split, std::span<const int32_t> tokens) {
    int64_t& count = split == Split::kTrain ? prepared_.train_tokens : prepared_.validation_tokens;
    count += static_cast<int64_t>(tokens.size());
    return writer_.Append(split, tokens);
  }
  const PreparedText& prepared() const { return prepared_; }

 private:
  // Held out is the share of the bytes seen, to a piece: from the second piece on there is some.
  Split SplitOf(int64_t bytes) {
    const double owed =
        share_ * static_cast<double>(seen_ + bytes) - static_cast<double>(held_out_);
    const bool holds_out = std::exchange(seen_, seen_ + bytes) > 0 && owed > 0 &&
                           static_cast<double>(bytes) <= owed + double{kPieceBytes};
    if (holds_out) held_out_ += bytes;
    return holds_out ? Split::kValidation : Split::kTrain;
  }

  TokenDatasetWriter& writer_;
  TextTokenizer& tokenizer_;
  double share_;
  int64_t seen_ = 0, held_out_ = 0;  // bytes of text
  PreparedText prepared_;
};

using Progress = std::function<void(double share_of_file)>;

absl::Status AddText(TextSource& source, const Progress& progress, DocumentWriter& out) {
  std::string pending;
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const std::string piece, source.Next());
    if (piece.empty()) break;
    pending += piece;
    std::string_view rest = pending;
    while (rest.size() >= kPieceBytes) {
      size_t cut = LastCut(rest.substr(0, kPieceBytes));
      if (cut == 0) cut = LastCut(rest);
      // A text without such lines is cut where it is; a character never is.
      if (cut == 0 && rest.size() >= kUncutBytesMax) cut = rest.size();
      if (cut == 0) break;
      SKERRY_RETURN_IF_ERROR(out.Add(rest.substr(0, cut), false));
      rest.remove_prefix(cut);
    }
    pending.erase(0, pending.size() - rest.size());
    progress(source.progress());
  }
  return out.Add(pending, true);
}

absl::Status AddLine(const std::string& line, const std::string& field, DocumentWriter& out) {
  if (std::all_of(line.begin(), line.end(), IsSpaceByte)) return absl::OkStatus();
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return InvalidArgument("no JSON object");
  const auto text = json.find(field);
  if (text == json.end() || !text->is_string()) {
    return InvalidArgument("has no text '%s'; --field names another", field);
  }
  return out.Add(text->get_ref<const std::string&>(), true);
}

absl::Status AddJsonLines(TextSource& source, const std::string& path, const std::string& field,
                          const Progress& progress, DocumentWriter& out) {
  std::string pending;
  int64_t number = 0;
  const auto add = [&](const std::string& line) {
    ++number;
    const absl::Status status = AddLine(line, field, out);
    return status.ok() ? status : Annotate(status, absl::StrFormat("%s:%d", path, number));
  };
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const std::string piece, source.Next());
    if (piece.empty()) break;
    size_t looked_at = pending.size(), begin = 0;
    pending += piece;
    for (size_t end; (end = pending.find('\n', looked_at)) != std::string::npos;) {
      SKERRY_RETURN_IF_ERROR(add(pending.substr(begin, end - begin)));
      begin = looked_at = end + 1;
    }
    pending.erase(0, begin);
    if (pending.size() > kLineBytesMax) {
      return InvalidArgument("%s:%d: a line of more than %d bytes", path, number + 1,
                             kLineBytesMax);
    }
    progress(source.progress());
  }
  return add(pending);
}

absl::Status AddTokenBin(const std::string& path, const Progress& progress, DocumentWriter& out) {
  SKERRY_ASSIGN_OR_RETURN(const TokenBin bin, TokenBin::Open(path));
  const Split split = IsForValidation(path) ? Split::kValidation : Split::kTrain;
  for (int64_t first = 0; first < bin.tokens(); first += kTokensAtOnce) {
    const int64_t count = std::min(kTokensAtOnce, bin.tokens() - first);
    const absl::Status added = out.AddTokens(split, bin.Read(first, count));
    if (!added.ok()) {
      return Annotate(added, path + ": made by another tokenizer? --tokenizer names it");
    }
    progress(static_cast<double>(first + count) / static_cast<double>(bin.tokens()));
  }
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& path, const PrepareDocumentsOptions& options,
                     const Progress& progress, DocumentWriter& out) {
  if (IsTokenBin(path)) return AddTokenBin(path, progress, out);
  SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(path));
  const bool lines = options.is_json_lines || HasJsonLines(path);
  const std::string name = path == kStandardInput ? "standard input" : path;
  return lines ? AddJsonLines(*source, name, options.field, progress, out)
               : AddText(*source, progress, out);
}

}  // namespace

absl::StatusOr<PreparedText> PrepareDocuments(const std::vector<std::string>& inputs,
                                              const std::string& directory,
                                              TextTokenizer& tokenizer,
                                              const PrepareDocumentsOptions& options) {
  if (!(options.validation_share >= 0 && options.validation_share <= 0.5)) {
    return InvalidArgument("validation share: %g is outside 0 to 0.5", options.validation_share);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto files, FilesOf(inputs));
  SKERRY_ASSIGN_OR_RETURN(const auto writer, TokenDatasetWriter::Create(
                                                 directory, tokenizer.vocab(), options.shard_tokens,
                                                 options.tokenizer_digest));
  DocumentWriter out(*writer, tokenizer, options.validation_share);
  for (size_t i = 0; i < files.size(); ++i) {
    const Progress progress = [&](double of_file) {
      const double done = static_cast<double>(i) + of_file;
      if (options.progress) options.progress(done / static_cast<double>(files.size()));
    };
    SKERRY_RETURN_IF_ERROR(AddFile(files[i], options, progress, out));
  }
  if (out.prepared().train_tokens + out.prepared().validation_tokens == 0) {
    return InvalidArgument("%s: has no text", inputs.empty() ? "no input" : inputs.front());
  }
  SKERRY_RETURN_IF_ERROR(writer->Finish());
  return out.prepared();
}

}  // namespace skerry
