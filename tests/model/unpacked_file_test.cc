// Packed files, whole, in several parts, and cut.
#include "model/unpacked_file.h"

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>

#include "common/rng.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

// Text that packs badly, so that packed pieces are many, then well, so that one piece of it unpacks
// to many.
std::string Bulk() {
  std::string text;
  Rng rng(5, "bulk");
  while (text.size() < 1'500'000) text += static_cast<char>('a' + rng.Below(26));
  return text + std::string(3'000'000, 'z');
}

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstandard(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

absl::StatusOr<std::string> AllOf(const std::string& path) {
  auto file = UnpackedFile::Open(path);
  if (!file.ok()) return file.status();
  std::string all;
  while (true) {
    const auto piece = file->Next();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) break;
    all += *piece;
  }
  CHECK(file->progress() == 1);
  CHECK(file->Next()->empty());
  return all;
}

TEST_CASE("UnpackedFile: plain, gzip and Zstandard, of one part and of two", "[model]") {
  const TemporaryDirectory directory;
  const std::string file = directory.Join("in"), bulk = Bulk();
  const auto check = [&](const std::string& bytes, const std::string& text) {
    WriteFile(file, bytes);
    const auto read = AllOf(file);
    REQUIRE(read.ok());
    CHECK((*read == text));
  };
  check(bulk, bulk);
  check("", "");
  check("\x1f", "\x1f");
  for (const auto pack : {Gzip, Zstandard}) {
    check(pack(bulk), bulk);
    check(pack(""), "");
    check(pack("one ") + pack(bulk) + pack("three"), "one " + bulk + "three");
  }
  check(Gzip("text") + std::string(600'000, '\0'), "text");
}

TEST_CASE("UnpackedFile: files that are no text are refused by what they are", "[model][error]") {
  const TemporaryDirectory directory;
  const auto [magic, is] = GENERATE(table<std::string, std::string>(
      {{"PAR1", "Parquet"}, {"PK\x03\x04", "a ZIP file"}, {"%PDF-1.4", "PDF"}}));
  WriteFile(directory.Join("x"), magic + " and more");
  const auto all = AllOf(directory.Join("x"));
  REQUIRE(absl::IsInvalidArgument(all.status()));
  CHECK(std::string(all.status().message()).find("/x: " + is + ", no text") != std::string::npos);
  WriteFile(directory.Join("y"), "text of " + magic);
  CHECK(*AllOf(directory.Join("y")) == "text of " + magic);
}

TEST_CASE("UnpackedFile: what nothing marks as no text is told by its bytes, packed or not",
          "[model][error]") {
  const TemporaryDirectory directory;
  std::string noise, archive = "notes.txt" + std::string(503, '\0') + "a note";
  for (uint32_t i = 1; noise.size() < 3000; i = i * 1664525 + 1013904223) {
    noise += static_cast<char>(i >> 24);
  }
  std::string wide;
  for (const char c : std::string("text of two bytes a character")) wide += {c, '\0'};
  const auto refusal = [&](const std::string& bytes) {
    WriteFile(directory.Join("x"), bytes);
    return std::string(AllOf(directory.Join("x")).status().message());
  };
  for (const std::string& bytes : {noise, archive, wide}) {
    CHECK_THAT(refusal(bytes), Catch::Contains("x: binary data, no text"));
    CHECK_THAT(refusal(Gzip(bytes)), Catch::Contains("x: binary data, no text"));
  }
  CHECK_THAT(refusal("\xff\xfe" + wide), Catch::Contains("x: UTF-16 (iconv"));
  CHECK_THAT(refusal(Zstandard("%PDF-1.4")), Catch::Contains("x: PDF, no text"));
  // In any language and encoding of one, of terminals, with a stray byte: text.
  for (const std::string& bytes :
       {std::string("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"), std::string("caf\xe9"),
        std::string("\x1b[1mbold\x1b[0m a\bb\f"), "a" + std::string(8, '\0')}) {
    CHECK(refusal(bytes).empty());
  }
}

TEST_CASE("UnpackedFile: a packed file that is cut or changed is an error that names it",
          "[model][error]") {
  const TemporaryDirectory directory;
  const std::string file = directory.Join("in"), bulk = Bulk();
  for (const auto pack : {Gzip, Zstandard}) {
    const std::string packed = pack(bulk);
    for (const size_t kept : {size_t{10}, packed.size() / 2, packed.size() - 1}) {
      WriteFile(file, packed.substr(0, kept));
      const auto read = AllOf(file);
      CHECK(absl::IsDataLoss(read.status()));
      CHECK_THAT(std::string(read.status().message()), Catch::Contains(file));
    }
    std::string changed = packed;
    for (size_t i = 0; i < 8; ++i) changed[packed.size() / 2 + i] ^= 0x55;
    WriteFile(file, changed);
    const auto read = AllOf(file);
    CHECK((!read.ok() || *read != bulk));
  }
  CHECK(absl::IsNotFound(UnpackedFile::Open(directory.Join("none")).status()));
  CHECK(absl::IsInvalidArgument(UnpackedFile::Open(directory.Join("")).status()));
}

}  // namespace
}  // namespace skerry
