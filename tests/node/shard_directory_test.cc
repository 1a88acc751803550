// Training data from elsewhere, and a cache that is not too large.
#include "node/shard_directory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>

#include "common/digest.h"
#include "common/status.h"
#include "model/dataset_address.h"
#include "model/token_dataset_writer.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

constexpr char kBase[] = "https://example.org/shards";

// A data set of three shards, and where else they are.
struct Fixture {
  explicit Fixture(int32_t first_token = 0) {
    const auto writer = *TokenDatasetWriter::Create(Made(), 19, 100);
    std::vector<int32_t> tokens(250, first_token);
    REQUIRE(writer->Append(Split::kTrain, tokens).ok());
    REQUIRE(writer->Finish().ok());
    REQUIRE(SetBaseAddress(Made(), std::string(kBase) + "/").ok());
    const auto files = *ListDatasetFiles(Made());
    for (const DatasetFile& file : files) {
      names.push_back({file.file, file.digest, file.bytes});
      const std::string text = ReadFile(Made() + "/" + file.file);
      elsewhere[std::string(kBase) + "/" + file.file] = Bytes(text.begin(), text.end());
    }
  }
  std::string Made() const { return directory.Join("made"); }
  ShardDirectoryOptions Options() {
    ShardDirectoryOptions options;
    options.fetch = [this](const std::string& address, int64_t bytes) -> absl::StatusOr<Bytes> {
      asked.push_back(address);
      const auto it = elsewhere.find(address);
      if (it == elsewhere.end()) return NotFound("%s: there is no such file", address);
      CHECK(bytes == std::ssize(elsewhere.at(address)));
      return it->second;
    };
    options.say = [this](const std::string& line) { said.push_back(line); };
    return options;
  }
  const ShardName& index() const { return names.back(); }
  Bytes IndexBytes() const { return elsewhere.at(std::string(kBase) + "/index.json"); }
  size_t Here(ShardDirectory& shards) const {
    return static_cast<size_t>(std::count_if(names.begin(), names.end(),
                                             [&](const auto& name) { return shards.Has(name); }));
  }

  TemporaryDirectory directory;
  std::vector<ShardName> names;
  std::map<std::string, Bytes> elsewhere;
  std::vector<std::string> asked, said;
};

RunConfig Config() {
  RunConfig config;
  config.model.vocab = 19;
  config.model.context = 8;
  return config;
}

}  // namespace

TEST_CASE("ShardDirectory: with the index the shards come from where it says", "[node]") {
  Fixture f;
  ShardDirectory shards(f.directory.Join("cache"), f.Options());

  REQUIRE(shards.Put(f.index(), f.IndexBytes()).ok());

  CHECK(f.Here(shards) == 4);
  CHECK(f.asked.size() == 3);
  CHECK(shards.Open(Config(), f.names).ok());
}

TEST_CASE("ShardDirectory: what is altered or missing elsewhere is left to the coordinator",
          "[node][error]") {
  Fixture f;
  const std::string first = std::string(kBase) + "/train-00000.tok";
  SECTION("altered") {
    f.elsewhere.at(first)[70] ^= 1;
  }
  SECTION("missing") {
    f.elsewhere.erase(first);
  }
  ShardDirectory shards(f.directory.Join("cache"), f.Options());

  REQUIRE(shards.Put(f.index(), f.IndexBytes()).ok());

  CHECK(f.Here(shards) == 3);
  CHECK_FALSE(shards.Has(f.names[0]));
  REQUIRE(f.said.size() == 2);
  CHECK(f.said[0].find("the coordinator has it, too") != std::string::npos);
}

TEST_CASE("ShardDirectory: a server that fails twice is not asked further", "[node][error]") {
  Fixture f;
  ShardDirectory shards(f.directory.Join("cache"), f.Options());
  const Bytes index = f.IndexBytes();
  f.elsewhere.clear();

  REQUIRE(shards.Put(f.index(), index).ok());

  CHECK(f.asked.size() == 2);
  CHECK(f.Here(shards) == 1);
}

TEST_CASE("ShardDirectory: who is killed while it fetches asks only for the rest", "[node]") {
  Fixture f;
  {
    ShardDirectory shards(f.directory.Join("cache"), f.Options());
    const std::string text = ReadFile(f.Made() + "/" + f.names[1].file);
    REQUIRE(shards.Put(f.names[1], Bytes(text.begin(), text.end())).ok());
  }
  ShardDirectory shards(f.directory.Join("cache"), f.Options());

  REQUIRE(shards.Put(f.index(), f.IndexBytes()).ok());

  CHECK(f.asked.size() == 2);
  CHECK(f.Here(shards) == 4);
}

TEST_CASE("ShardDirectory: an index that is not the announced one fetches nothing",
          "[node][error]") {
  Fixture f;
  ShardDirectory shards(f.directory.Join("cache"), f.Options());
  Bytes index = f.IndexBytes();
  index.push_back(' ');

  CHECK(absl::IsDataLoss(shards.Put(f.index(), index)));
  CHECK(f.asked.empty());
}

TEST_CASE("ShardDirectory: beyond its limit the cache drops what was used longest ago", "[node]") {
  Fixture old(1), newer(2), current(3);
  const std::string cache = old.directory.Join("cache");
  ShardDirectoryOptions options = old.Options();
  const int64_t one = 3 * 64 + 250 + old.index().bytes;
  options.bytes_max = GENERATE_COPY(one / 2, 2 * one + one / 2, 10 * one);
  const auto use = [&](Fixture& f) {
    options.fetch = f.Options().fetch;
    ShardDirectory shards(cache, options);
    REQUIRE(shards.Put(f.index(), f.IndexBytes()).ok());
    REQUIRE(shards.Open(Config(), f.names).ok());
  };

  use(old);
  const std::string set_of_old = cache + "/sets/" + old.index().digest.Hex();
  std::filesystem::last_write_time(
      set_of_old, std::filesystem::last_write_time(set_of_old) - std::chrono::hours(1));
  use(newer);
  use(current);

  ShardDirectory shards(cache, options);
  CHECK(current.Here(shards) == 4);
  CHECK(newer.Here(shards) == (options.bytes_max > 2 * one ? 4 : 0));
  CHECK(old.Here(shards) == (options.bytes_max > 3 * one ? 4 : 0));
}

TEST_CASE("ShardDirectory: room for a run's data is made before it comes", "[node]") {
  Fixture old(1), current(2);
  const std::string cache = old.directory.Join("cache");
  ShardDirectoryOptions options = old.Options();
  {
    ShardDirectory shards(cache, options);
    REQUIRE(shards.Put(old.index(), old.IndexBytes()).ok());
    REQUIRE(shards.Open(Config(), old.names).ok());
  }
  options.bytes_max = old.index().bytes + 2 * (3 * 64 + 250);  // not both indexes
  size_t old_ones = 9;
  ShardDirectory* looked_at = nullptr;
  options.fetch = [&](const std::string&, int64_t) -> absl::StatusOr<Bytes> {
    old_ones = old.Here(*looked_at);
    return NotFound("away");
  };
  ShardDirectory shards(cache, options);
  looked_at = &shards;

  REQUIRE(shards.Put(current.index(), current.IndexBytes()).ok());

  CHECK(old_ones == 0);
}

TEST_CASE("SetBaseAddress: says where, and no more", "[node]") {
  Fixture f;
  CHECK(BaseAddressOf(ReadFile(f.Made() + "/index.json")) == kBase);
  CHECK(TokenDataset::Open(f.Made(), Verify::kDigests).ok());
  CHECK(absl::IsInvalidArgument(SetBaseAddress(f.Made(), "file:///etc")));
  CHECK(absl::IsInvalidArgument(SetBaseAddress(f.Made(), "https://example.org/shards?key=")));
  CHECK(absl::IsInvalidArgument(SetBaseAddress(f.Made(), "https://example.org/my shards")));
  REQUIRE(SetBaseAddress(f.Made(), "").ok());
  CHECK(BaseAddressOf(ReadFile(f.Made() + "/index.json")).empty());
  CHECK(BaseAddressOf("{\"base_url\": 7}").empty());
  CHECK(BaseAddressOf("{\"base_url\": \"gopher://a\"}").empty());
  CHECK(BaseAddressOf("{\"base_url\": \"http://router/reboot#\"}").empty());
  CHECK(BaseAddressOf("no json").empty());
}

}  // namespace skerry
