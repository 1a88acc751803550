#include "wire/identity.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// An empty directory that goes away.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "skerry-identity-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }
  size_t FileCount() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

TEST_CASE("Identity: the first start creates a private key file, later ones read it",
          "[wire][identity]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("node.key");

  const auto created = Identity::LoadOrCreate(path);
  REQUIRE(created.ok());
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(directory.FileCount() == 1);

  const auto loaded = Identity::LoadOrCreate(path);
  REQUIRE(loaded.ok());
  CHECK(loaded->id() == created->id());
  CHECK(loaded->curve_secret() == created->curve_secret());
}

TEST_CASE("Identity: a key that others may read is refused with the remedy",
          "[wire][identity][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("node.key");
  REQUIRE(Identity::LoadOrCreate(path).ok());
  const mode_t mode = GENERATE(0640, 0604, 0660, 0644);
  REQUIRE(chmod(path.c_str(), mode) == 0);

  const auto identity = Identity::LoadOrCreate(path);

  CHECK(absl::IsPermissionDenied(identity.status()));
  CHECK_THAT(std::string(identity.status().message()), Contains("chmod 600 " + path));
}

TEST_CASE("Identity: a damaged key file is never replaced", "[wire][identity][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("node.key");
  const std::string text =
      GENERATE("", "hello", "skerry-key-ed25519 abcd\n", "skerry-key-ed25519 zz");
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), 0600) == 0);

  CHECK(absl::IsDataLoss(Identity::LoadOrCreate(path).status()));

  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == text);
}

TEST_CASE("Identity: a directory that is not there is an error, and Load creates nothing",
          "[wire][identity][error]") {
  const TemporaryDirectory directory;
  CHECK(absl::IsUnavailable(Identity::LoadOrCreate(directory.File("no/such.key")).status()));
  CHECK(absl::IsNotFound(Identity::Load(directory.File("node.key")).status()));
  CHECK(directory.FileCount() == 0);
}

TEST_CASE("Identity: processes that start together end with one key", "[wire][identity]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("node.key");
  std::vector<NodeId> ids(8);
  std::vector<std::thread> threads;
  for (NodeId& id : ids) {
    threads.emplace_back([&] {
      const auto identity = Identity::LoadOrCreate(path);
      if (identity.ok()) id = identity->id();
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (const NodeId& id : ids) CHECK(id == ids[0]);
  CHECK_FALSE(ids[0].IsZero());
  CHECK(directory.FileCount() == 1);
}

TEST_CASE("Identity: only the signer's key confirms a signature", "[wire][identity]") {
  const Identity alice = Identity::FromSeed({1});
  const Identity bob = Identity::FromSeed({2});
  const std::vector<uint8_t> text = {'h', 'i'};
  const Signature signature = alice.Sign(text);

  CHECK(IsSignedBy(alice.id(), text, signature));
  CHECK_FALSE(IsSignedBy(bob.id(), text, signature));
  CHECK_FALSE(IsSignedBy(alice.id(), std::vector<uint8_t>{'h', 'o'}, signature));
}

TEST_CASE("Identity: a statement is of one run, and no other text of its signer",
          "[wire][identity]") {
  const Identity alice = Identity::FromSeed({1});
  const std::vector<uint8_t> text = {'h', 'i'};
  RunId run, other;
  run.bytes[0] = 1;
  other.bytes[0] = 2;
  const Signature signature = SignStatement(alice, run, text);

  CHECK(IsStatementOf(alice.id(), run, text, signature));
  CHECK_FALSE(IsStatementOf(alice.id(), other, text, signature));
  CHECK_FALSE(IsStatementOf(Identity::FromSeed({2}).id(), run, text, signature));
  CHECK_FALSE(IsStatementOf(alice.id(), run, text, alice.Sign(text)));
  CHECK_FALSE(IsSignedBy(alice.id(), text, signature));
}

TEST_CASE("Identity: a node's CURVE key follows from its id alone", "[wire][identity]") {
  const Identity alice = Identity::Generate();
  CHECK(*CurveKeyOf(alice.id()) == alice.curve_public());
  CHECK(absl::IsInvalidArgument(CurveKeyOf(NodeId()).status()));
}

}  // namespace
}  // namespace skerry
