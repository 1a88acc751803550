#include "model/safetensors.h"

#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "common/status.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

// A file of one tensor "t" whose stored bytes are given.
std::string FileOf(const std::string& dtype, const std::string& shape, const std::string& data) {
  const std::string header = R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape +
                             R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + data;
}

// Lets a file grow to `bytes` at most, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    previous_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, previous_);
  }

 private:
  rlimit before_{};
  void (*previous_)(int);
};

}  // namespace

TEST_CASE("Safetensors: what was written in pieces is read by name", "[model]") {
  const TemporaryDirectory directory;
  const std::string path = directory.Join("a.safetensors");
  auto writer = *SafetensorsWriter::Create(path, {{"m", {2, 3}}, {"v", {2}}}, {{"format", "pt"}});
  REQUIRE(writer->Append(std::vector{1.0f, 2.0f, 3.0f, 4.0f}).ok());
  REQUIRE(writer->Append(std::vector{5.0f, 6.0f, -0.0f, 1e-42f}).ok());
  REQUIRE(writer->Commit().ok());

  const auto file = *SafetensorsFile::Open(path);

  std::vector<float> m(6), v(2);
  REQUIRE(file->Read("m", {2, 3}, m).ok());
  REQUIRE(file->Read("v", {2}, v).ok());
  CHECK(m == std::vector{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  CHECK(std::signbit(v[0]));
  CHECK(v[1] == 1e-42f);
  CHECK(file->tensors().size() == 2);
}

TEST_CASE("Safetensors: the data begin on a border of eight bytes", "[model]") {
  const TemporaryDirectory directory;
  const std::string path = directory.Join("a.safetensors");
  auto writer = *SafetensorsWriter::Create(path, {{"x", {1}}}, {});
  REQUIRE(writer->Append(std::vector{1.0f}).ok());
  REQUIRE(writer->Commit().ok());

  const std::string bytes = ReadFile(path);

  CHECK((bytes.size() - 4) % 8 == 0);
  CHECK(bytes.substr(8, 12) == R"({"x":{"dtype)");
}

TEST_CASE("Safetensors: half precision is read as float32", "[model]") {
  const TemporaryDirectory directory;
  const std::string path = directory.Join("a.safetensors");
  std::vector<float> values(2);

  // bfloat16 0x3fc0 = 1.5, 0xc100 = −8
  WriteFile(path, FileOf("BF16", "[2]", std::string("\xc0\x3f\x00\xc1", 4)));
  REQUIRE((*SafetensorsFile::Open(path))->Read("t", {2}, values).ok());
  CHECK(values == std::vector{1.5f, -8.0f});

  // float16 0x3e00 = 1.5, 0x8001 = −2⁻²⁴
  WriteFile(path, FileOf("F16", "[2]", std::string("\x00\x3e\x01\x80", 4)));
  REQUIRE((*SafetensorsFile::Open(path))->Read("t", {2}, values).ok());
  CHECK(values == std::vector{1.5f, -0x1.0p-24f});

  // float16 0x7c00 = ∞, 0x7bff = 65504
  WriteFile(path, FileOf("F16", "[2]", std::string("\x00\x7c\xff\x7b", 4)));
  REQUIRE((*SafetensorsFile::Open(path))->Read("t", {2}, values).ok());
  CHECK(values == std::vector{INFINITY, 65504.0f});
}

TEST_CASE("Safetensors: without Commit nothing is left behind", "[model]") {
  const TemporaryDirectory directory;
  {
    auto writer = *SafetensorsWriter::Create(directory.Join("a"), {{"x", {1}}}, {});
    REQUIRE(writer->Append(std::vector{1.0f}).ok());
  }

  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("Safetensors: a full disk leaves the old file and says so", "[model][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.Join("a.safetensors");
  WriteFile(path, "old");
  absl::Status status;
  {
    const FileSizeLimit limit(1000);
    auto writer = *SafetensorsWriter::Create(path, {{"x", {1000}}}, {});
    status = writer->Append(std::vector<float>(1000));
  }

  CHECK(absl::IsResourceExhausted(status));
  CHECK(ErrorText(status).find(path) == 0);
  CHECK(ReadFile(path) == "old");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_CASE("Safetensors: a place where nothing can be written is named", "[model][error]") {
  const TemporaryDirectory directory;
  WriteFile(directory.Join("file"), "");

  const auto missing = SafetensorsWriter::Create(directory.Join("no/such/a"), {}, {});
  const auto below_a_file = SafetensorsWriter::Create(directory.Join("file/a"), {}, {});

  CHECK(absl::IsNotFound(missing.status()));
  CHECK(ErrorText(missing.status()).find("no/such/a") != std::string::npos);
  CHECK(absl::IsNotFound(below_a_file.status()));
}

TEST_CASE("Safetensors: a tensor that is missing or has another shape is refused by name",
          "[model][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.Join("a.safetensors");
  WriteFile(path, FileOf("F32", "[1,2]", std::string(8, '\0')));
  const auto file = *SafetensorsFile::Open(path);
  std::vector<float> values(2);

  CHECK(absl::IsNotFound(file->Read("u", {2}, values)));
  const absl::Status status = file->Read("t", {2}, values);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("tensor t has shape [1, 2], want [2]") != std::string::npos);
}

}  // namespace skerry
