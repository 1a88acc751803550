// Files made to hurt: every one must be refused when it is opened.
#include <catch2/catch.hpp>
#include <cstring>

#include "common/status.h"
#include "model/safetensors.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

std::string WithHeader(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\0');
}

absl::Status OpenBytes(const std::string& bytes) {
  const TemporaryDirectory directory;
  WriteFile(directory.Join("a"), bytes);
  return SafetensorsFile::Open(directory.Join("a")).status();
}

std::string Tensor(const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "\"F32\"") {
  return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

}  // namespace

TEST_CASE("Safetensors: the well-formed neighbour of the hostile ones opens", "[model]") {
  CHECK(OpenBytes(WithHeader(Tensor("[2]", "[0,8]"), 8)).ok());
  CHECK(OpenBytes(WithHeader("{}", 0)).ok());
  CHECK(OpenBytes(WithHeader(Tensor("[0]", "[0,0]"), 0)).ok());
}

TEST_CASE("Safetensors: a header length beyond the file is refused", "[model][error]") {
  const uint64_t length =
      GENERATE(uint64_t{1}, uint64_t{17} << 20, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7);
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);

  CHECK(absl::IsInvalidArgument(OpenBytes(file)));
}

TEST_CASE("Safetensors: a file cut anywhere is refused", "[model][error]") {
  const std::string whole = WithHeader(Tensor("[2]", "[0,8]"), 8);
  for (size_t length = 0; length < whole.size(); ++length) {
    CHECK(absl::IsInvalidArgument(OpenBytes(whole.substr(0, length))));
  }
}

TEST_CASE("Safetensors: a header that lies is refused", "[model][error]") {
  const std::string header = GENERATE(
      // not JSON, not an object, not tensors
      std::string(), std::string("["), std::string("[]"), std::string("null"),
      std::string(R"({"t":1})"), std::string(R"({"t":{}})"), std::string(10000, '['),
      // types
      Tensor("[2]", "[0,8]", "\"F64\""), Tensor("[2]", "[0,8]", "7"), Tensor("[2]", "[0,8]", "[]"),
      // shapes
      Tensor("2", "[0,8]"), Tensor("[3]", "[0,8]"), Tensor("[-2]", "[0,8]"),
      Tensor("[2.0]", "[0,8]"), Tensor("[1,1,1,1,1,1,1,1,2]", "[0,8]"),
      Tensor("[4294967296,4294967296]", "[0,8]"), Tensor("[18446744073709551615]", "[0,8]"),
      Tensor("[1e400]", "[0,8]"), Tensor("[0,9223372036854775807]", "[0,0]"),
      // offsets
      Tensor("[2]", "[8,0]"), Tensor("[2]", "[0]"), Tensor("[2]", "[0,8,8]"),
      Tensor("[2]", "[8,16]"), Tensor("[2]", "[-8,0]"), Tensor("[2]", "[0,\"8\"]"),
      Tensor("[1]", "[0,4]"), Tensor("[1]", "[4,8]"),
      Tensor("[2]", "[18446744073709551608,18446744073709551615]"),
      // two tensors over each other
      std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"));
  INFO(header.substr(0, 100));

  CHECK(absl::IsInvalidArgument(OpenBytes(WithHeader(header, 8))));
}

TEST_CASE("Safetensors: a refusal names file and tensor", "[model][error]") {
  const absl::Status status = OpenBytes(WithHeader(Tensor("[3]", "[0,8]"), 8));

  CHECK(ErrorText(status).find("/a: tensor t: ") != std::string::npos);
}

}  // namespace skerry
