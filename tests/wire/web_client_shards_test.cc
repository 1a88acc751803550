// Training data from a real server on this machine that serves it well or badly: what does not come
// whole is left to the coordinator, and nothing false is kept.
#include <httplib.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "common/digest.h"
#include "common/status.h"
#include "model/dataset_address.h"
#include "model/token_dataset_writer.h"
#include "node/shard_directory.h"
#include "tests/model/temporary_directory.h"
#include "wire/web_client.h"

namespace skerry {
namespace {

// Serves the files of a directory, in as many ways as it has paths.
class ShardServer {
 public:
  explicit ShardServer(std::string directory) : directory_(std::move(directory)) {
    server_.Get("/good/(.*)", [this](const auto& request, auto& response) {
      ++ranges;
      response.set_content(Of(request), "application/octet-stream");
    });
    server_.Get("/rangeless/(.*)", [this](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      response.set_content(Of(request), "application/octet-stream");
    });
    server_.Get("/corrupt/(.*)", [this](const auto& request, auto& response) {
      std::string text = Of(request);
      text[text.size() / 2] ^= 1;
      response.set_content(text, "application/octet-stream");
    });
    server_.Get("/short/(.*)", [this](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      const std::string text = Of(request);
      response.set_content(text.substr(0, text.size() - 1), "application/octet-stream");
    });
    // Sends the beginning, and says nothing more.
    server_.Get("/slow/(.*)", [this](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      response.set_content_provider(Of(request).size(), "application/octet-stream",
                                    [this](size_t, size_t, httplib::DataSink& sink) {
                                      sink.write("SKR", 3);
                                      released_.wait();
                                      return false;
                                    });
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~ShardServer() { End(); }
  void End() {
    if (!thread_.joinable()) return;
    released_.count_down();
    server_.stop();
    thread_.join();
  }
  std::string At(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  std::atomic<int> ranges = 0;

 private:
  std::string Of(const httplib::Request& request) const {
    return ReadFile(directory_ + "/" + request.matches[1].str());
  }
  std::string directory_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  std::latch released_{1};
};

// A run's data of two shards, the first of more than one range, and a node's cache.
struct Fixture {
  Fixture() {
    const auto writer = *TokenDatasetWriter::Create(made, 251, 2 * WebClient::kRangeBytes);
    std::vector<int32_t> tokens(static_cast<size_t>(2 * WebClient::kRangeBytes + 1000));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 251);
    REQUIRE(writer->Append(Split::kTrain, tokens).ok());
    REQUIRE(writer->Finish().ok());
    web.slow_s = 1;
    web.attempts = 1;
  }
  // What the coordinator does of it all: it announces the files, and sends the index.
  void Announce(const std::string& path) {
    REQUIRE(SetBaseAddress(made, server.At(path)).ok());
    names.clear();
    const auto files = *ListDatasetFiles(made);
    for (const DatasetFile& file : files) {
      names.push_back({file.file, file.digest, file.bytes});
    }
    ShardDirectoryOptions options;
    options.fetch = [client = std::make_shared<WebClient>(web)](const std::string& address,
                                                                int64_t bytes) {
      return client->Read(address, bytes);
    };
    options.say = [this](const std::string& line) { said += line + "\n"; };
    shards = std::make_unique<ShardDirectory>(directory.Join("cache"), std::move(options));
    put = shards->Put(names.back(), BytesOf(names.back()));
  }
  Bytes BytesOf(const ShardName& name) const {
    const std::string text = ReadFile(made + "/" + name.file);
    return {text.begin(), text.end()};
  }
  int Here() {
    int here = 0;
    for (const ShardName& name : names) here += shards->Has(name);
    return here;
  }
  // The coordinator's part, and then all is there.
  bool IsWholeWithTheCoordinator() {
    for (const ShardName& name : names) {
      if (!shards->Has(name) && !shards->Put(name, BytesOf(name)).ok()) return false;
    }
    RunConfig config;
    config.model.vocab = 251;
    config.model.context = 64;
    return shards->Open(config, names).ok() &&
           TokenDataset::Open(directory.Join("cache/sets/" + names.back().digest.Hex()),
                              Verify::kDigests)
               .ok();
  }

  TemporaryDirectory directory;
  std::string made = directory.Join("made");
  ShardServer server{made};
  WebOptions web;
  std::vector<ShardName> names;
  std::unique_ptr<ShardDirectory> shards;
  absl::Status put;
  std::string said;
};

}  // namespace

TEST_CASE("a node's shards come by ranges, and nothing is left to the coordinator", "[wire]") {
  Fixture f;

  f.Announce("/good");

  CHECK(f.put.ok());
  CHECK(f.Here() == 3);
  CHECK(f.server.ranges == 4);  // 8 MiB and a header: three; the rest: one
  CHECK(f.said.find("2 files of training data came from http://127.0.0.1:") == 0);
  CHECK(f.IsWholeWithTheCoordinator());
}

TEST_CASE("a server that serves shards badly is left, and the coordinator has them",
          "[wire][error]") {
  Fixture f;
  const auto [path, here, why] = GENERATE(table<const char*, int, const char*>(
      {{"/rangeless", 2, "sends more than was asked for"},  // the small shard comes whole
       {"/corrupt", 1, "its digest is not that of the run's data"},
       {"/short", 1, "sends more than was asked for"},
       {"/slow", 1, "Timeout was reached"},
       {"/nowhere", 1, "there is no such file"}}));
  CAPTURE(path);

  f.Announce(path);

  CHECK(f.put.ok());
  CHECK(f.Here() == here);
  CAPTURE(f.said);
  CHECK(f.said.find(why) != std::string::npos);
  CHECK(f.said.find("the coordinator has it, too") != std::string::npos);
  CHECK(f.IsWholeWithTheCoordinator());
}

TEST_CASE("a server that is dead is asked twice, and left", "[wire][error]") {
  Fixture f;
  f.server.End();

  f.Announce("/good");

  CHECK(f.put.ok());
  CHECK(f.Here() == 1);
  CHECK(f.said.find("the coordinator has it, too") != std::string::npos);
  CHECK(f.IsWholeWithTheCoordinator());
}

TEST_CASE("who leaves while shards come keeps no index, and begins with it again", "[wire]") {
  Fixture f;
  std::atomic<bool> leaves = true;
  f.web.stops = [&leaves] { return leaves.load(); };

  f.Announce("/good");
  CHECK(absl::IsAborted(f.put));
  CHECK(f.Here() == 0);

  leaves = false;
  f.Announce("/good");
  CHECK(f.put.ok());
  CHECK(f.Here() == 3);
}

TEST_CASE("a run that is served to everybody leads nobody into a private network",
          "[wire][error]") {
  Fixture f;
  f.web.public_only = true;

  f.Announce("/good");

  CHECK(f.Here() == 1);
  CHECK(f.server.ranges == 0);
  CHECK(f.said.find("leads into a private network") != std::string::npos);
}

}  // namespace skerry
