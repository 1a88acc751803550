#include "model/unpacked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr size_t kPieceBytesMin = 4 << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstandardMagic = "\x28\xb5\x2f\xfd";

// What lies in folders beside texts, and would be learnt by heart as if it were one.
struct NoText {
  std::string_view magic, is;
};
constexpr NoText kNoTexts[] = {{"PAR1", "Parquet"},
                               {"ARROW1", "Arrow"},
                               {"BZh9", "bzip2"},
                               {"\3757zXZ", "xz"},
                               {"PK\x03\x04", "a ZIP file"},
                               {"%PDF-", "PDF"},
                               {"\211PNG", "a picture"},
                               {"\377\330\377", "a picture"},
                               {"\177ELF", "a program"},
                               {"SQLite format 3", "a database"},
                               {"\377\376", "UTF-16 (iconv -t UTF-8 converts it)"},
                               {"\376\377", "UTF-16 (iconv -t UTF-8 converts it)"}};

// By its first bytes. Text has next to no control characters but those that move the cursor; of
// anything packed or compiled every tenth byte is one, of UTF-16 and of archives more.
bool IsBinary(std::string_view head) {
  constexpr std::string_view kOfText = "\b\t\n\v\f\r\033";
  constexpr ptrdiff_t kStray = 8, kOneIn = 50;
  const auto controls = std::count_if(head.begin(), head.end(), [&](char byte) {
    return static_cast<uint8_t>(byte) < 0x20 && kOfText.find(byte) == std::string_view::npos;
  });
  return controls > kStray + std::ssize(head) / kOneIn;
}

absl::Status MustBeText(const std::string& path, std::string_view head) {
  constexpr size_t kLookedAt = 8 << 10;
  std::string_view is = IsBinary(head.substr(0, kLookedAt)) ? "binary data" : "";
  for (const NoText& other : kNoTexts) {
    if (head.starts_with(other.magic)) is = other.is;
  }
  if (is.empty()) return absl::OkStatus();
  return InvalidArgument(
      "%s: %s, no text; want text or JSON lines, plain, .gz or .zst: convert it, or leave it out "
      "[SK-data-text]",
      path, is);
}

std::string ErrnoText() {
  return std::generic_category().message(errno);
}

}  // namespace

// Unpacks from the front of `in`, which gets shorter, into `out`; returns how many bytes it wrote:
// if that is all of `out`, there may be more to come without further input.
class UnpackedFile::Stream {
 public:
  virtual ~Stream() = default;
  virtual absl::StatusOr<size_t> Unpack(std::string_view* in, std::string* out) = 0;
  // Whether the input may end here.
  virtual bool IsBetweenParts() const = 0;
};

class UnpackedFile::Gzip final : public Stream {
 public:
  Gzip() { SKERRY_CHECK(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK); }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  absl::StatusOr<size_t> Unpack(std::string_view* in, std::string* out) override {
    if (is_over_) {
      if (in->empty()) return 0;
      // As gzip has it: what follows the last member and is none is not looked at.
      if (in->front() != kGzipMagic.front()) {
        in->remove_prefix(in->size());
        return 0;
      }
      SKERRY_CHECK(inflateReset(&stream_) == Z_OK);
      is_over_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));
    stream_.avail_in = static_cast<uInt>(in->size());
    stream_.next_out = reinterpret_cast<Bytef*>(out->data());
    stream_.avail_out = static_cast<uInt>(out->size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    in->remove_prefix(in->size() - stream_.avail_in);
    is_over_ = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) {
      return out->size() - stream_.avail_out;
    }
    return DataLoss("%s", stream_.msg == nullptr ? "not gzip" : stream_.msg);
  }
  bool IsBetweenParts() const override { return is_over_; }

 private:
  z_stream stream_ = {};
  bool is_over_ = false;
};

class UnpackedFile::Zstandard final : public Stream {
 public:
  Zstandard() : stream_(ZSTD_createDStream()) { SKERRY_CHECK(stream_ != nullptr); }
  ~Zstandard() override { ZSTD_freeDStream(stream_); }
  Zstandard(const Zstandard&) = delete;
  Zstandard& operator=(const Zstandard&) = delete;

  absl::StatusOr<size_t> Unpack(std::string_view* in, std::string* out) override {
    if (is_over_ && in->empty()) return 0;
    ZSTD_inBuffer input = {in->data(), in->size(), 0};
    ZSTD_outBuffer output = {out->data(), out->size(), 0};
    const size_t left = ZSTD_decompressStream(stream_, &output, &input);
    in->remove_prefix(input.pos);
    if (ZSTD_isError(left)) return DataLoss("%s", ZSTD_getErrorName(left));
    is_over_ = left == 0;
    return output.pos;
  }
  bool IsBetweenParts() const override { return is_over_; }

 private:
  ZSTD_DStream* stream_;
  bool is_over_ = false;
};

struct UnpackedFile::State {
  std::string path;
  int file = -1;
  int64_t file_bytes = 0, read_bytes = 0;
  std::string packed;     // the last piece
  std::string_view left;  // of `packed`, not yet looked at
  bool is_read = false;   // to its end
  bool is_recognised = false;
  bool is_looked_at = false;       // whether it is text
  std::unique_ptr<Stream> stream;  // nullptr: as it is
  std::string unpacked;
  bool is_full = false;  // the last time, `unpacked` was filled

  ~State() {
    if (file > STDIN_FILENO) close(file);
  }
};

UnpackedFile::UnpackedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
UnpackedFile::UnpackedFile(UnpackedFile&&) noexcept = default;
UnpackedFile::~UnpackedFile() = default;

absl::StatusOr<UnpackedFile> UnpackedFile::Open(const std::string& path) {
  auto state = std::make_unique<State>();
  if (path == kStandardInput) {
    state->path = "standard input";
    state->file = STDIN_FILENO;
    state->packed.resize(kPieceBytes);
    return UnpackedFile(std::move(state));
  }
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    return NotFound("%s: cannot open: %s [SK-data-text]", path, ErrnoText());
  }
  if (!S_ISREG(facts.st_mode))
    return InvalidArgument(
        "%s: not a regular file; a pipe is read as -, standard input [SK-data-text]", path);
  state->path = path;
  state->file_bytes = facts.st_size;
  // Zeroing a large piece would take longer than reading a small file.
  state->packed.resize(
      std::clamp(static_cast<size_t>(facts.st_size) + 1, kPieceBytesMin, kPieceBytes));
  state->file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (state->file < 0) return PermissionDenied("%s: cannot open: %s", path, ErrnoText());
  return UnpackedFile(std::move(state));
}

// A full piece, or all that is left: a pipe gives what it has.
absl::Status UnpackedFile::Refill() {
  State& s = *state_;
  size_t filled = 0;
  while (filled < s.packed.size() && !s.is_read) {
    const ssize_t count = read(s.file, s.packed.data() + filled, s.packed.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unavailable("%s: cannot be read: %s", s.path, ErrnoText());
    s.is_read = count == 0;
    filled += static_cast<size_t>(count);
  }
  s.read_bytes += static_cast<int64_t>(filled);
  s.left = std::string_view(s.packed).substr(0, filled);
  return absl::OkStatus();
}

absl::Status UnpackedFile::Recognise() {
  SKERRY_RETURN_IF_ERROR(Refill());
  State& s = *state_;
  s.is_recognised = true;
  if (s.left.starts_with(kGzipMagic)) s.stream = std::make_unique<Gzip>();
  if (s.left.starts_with(kZstandardMagic)) s.stream = std::make_unique<Zstandard>();
  if (s.stream != nullptr) s.unpacked.resize(kPieceBytes);
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> UnpackedFile::Next() {
  SKERRY_ASSIGN_OR_RETURN(const std::string_view piece, Unpack());
  if (!std::exchange(state_->is_looked_at, true)) {
    SKERRY_RETURN_IF_ERROR(MustBeText(state_->path, piece));
  }
  return piece;
}

absl::StatusOr<std::string_view> UnpackedFile::Unpack() {
  State& s = *state_;
  if (!s.is_recognised) SKERRY_RETURN_IF_ERROR(Recognise());
  while (true) {
    if (s.left.empty() && !s.is_full) SKERRY_RETURN_IF_ERROR(Refill());
    if (s.stream == nullptr) return std::exchange(s.left, {});
    if (s.left.empty() && !s.is_full) {
      if (s.stream->IsBetweenParts()) return std::string_view();
      return DataLoss("%s: damaged or cut short: it ends in the middle", s.path);
    }
    const absl::StatusOr<size_t> count = s.stream->Unpack(&s.left, &s.unpacked);
    if (!count.ok()) {
      return DataLoss("%s: damaged or cut short: %s", s.path, count.status().message());
    }
    s.is_full = *count == s.unpacked.size();
    if (*count > 0) return std::string_view(s.unpacked).substr(0, *count);
  }
}

double UnpackedFile::progress() const {
  const State& s = *state_;
  if (s.is_read) return 1;
  if (s.file_bytes <= 0) return 0;
  return std::clamp(static_cast<double>(s.read_bytes) / static_cast<double>(s.file_bytes), 0., 1.);
}

}  // namespace skerry
