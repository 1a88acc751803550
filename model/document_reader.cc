#include "model/document_reader.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/text_source.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kUncutBytesMax = 4 << 20;  // waited for a line's end
constexpr size_t kLineBytesMax = 64 << 20;

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

absl::Status ReadText(TextSource& source, const FileProgress& progress, const TakePiece& take) {
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
      SKERRY_RETURN_IF_ERROR(take(rest.substr(0, cut), false));
      rest.remove_prefix(cut);
    }
    pending.erase(0, pending.size() - rest.size());
    progress(source.progress());
  }
  return take(pending, true);
}

absl::Status ReadLine(const std::string& line, const std::string& field, const TakePiece& take) {
  if (std::all_of(line.begin(), line.end(), IsSpaceByte)) return absl::OkStatus();
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return InvalidArgument("no JSON object");
  const auto text = json.find(field);
  if (text == json.end() || !text->is_string()) {
    return InvalidArgument("has no text '%s'; --field names another", field);
  }
  return take(text->get_ref<const std::string&>(), true);
}

absl::Status ReadJsonLines(TextSource& source, const std::string& path, const std::string& field,
                           const FileProgress& progress, const TakePiece& take) {
  std::string pending;
  int64_t number = 0;
  const auto add = [&](const std::string& line) {
    ++number;
    const absl::Status status = ReadLine(line, field, take);
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

}  // namespace

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

absl::Status ReadDocuments(const std::string& path, const DocumentFormat& format,
                           const FileProgress& progress, const TakePiece& take) {
  SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(path));
  if (!format.is_json_lines && !HasJsonLines(path)) return ReadText(*source, progress, take);
  const std::string name = path == kStandardInput ? "standard input" : path;
  return ReadJsonLines(*source, name, format.field, progress, take);
}

}  // namespace skerry
