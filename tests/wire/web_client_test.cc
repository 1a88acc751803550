// A real server on this machine, which checks what it is asked and answers well or badly.
#include "wire/web_client.h"

#include <httplib.h>
#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cctype>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "common/status.h"
#include "tests/wire/web_client_storage.h"

namespace skerry {
namespace {

constexpr char kAccess[] = "AKIAIOSFODNN7EXAMPLE";
constexpr char kSecret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

std::string Hex(const unsigned char* bytes, size_t count) {
  std::string hex(2 * count + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), bytes, count);
  hex.pop_back();
  return hex;
}

std::string Sha256(const std::string& text) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return Hex(hash, sizeof hash);
}

std::string Hmac(const std::string& key, const std::string& text) {
  crypto_auth_hmacsha256_state state;
  unsigned char mac[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                text.size());
  crypto_auth_hmacsha256_final(&state, mac);
  return {reinterpret_cast<const char*>(mac), sizeof mac};
}

struct SignedRequest {
  std::string method, path, authorization, body;
  std::map<std::string, std::string> headers;  // lower-case names
};

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return text.substr(from, end.empty() ? std::string::npos : text.find(end, from) - from);
}

// Amazon's description of Signature Version 4, step by step; "" or what is wrong.
std::string SignatureProblem(const SignedRequest& request, const std::string& region) {
  const std::string& authorization = request.authorization;
  const std::string names = Between(authorization, "SignedHeaders=", ",");
  const std::string scope = Between(authorization, std::string("Credential=") + kAccess + "/", ",");
  const std::string date = scope.substr(0, scope.find('/'));
  if (scope != date + "/" + region + "/s3/aws4_request") return "scope is " + scope;
  const auto header = [&](const std::string& name) {
    const auto it = request.headers.find(name);
    return it == request.headers.end() ? std::string() : it->second;
  };
  if (header("x-amz-content-sha256") != Sha256(request.body)) return "the hash of the body";
  std::string canonical = request.method + "\n" + request.path + "\n\n";
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(';', at), names.size());
    const std::string name = names.substr(at, end - at);
    canonical += name + ":" + header(name) + "\n";
    at = end + 1;
  }
  for (const char* name : {"host", "x-amz-date", "x-amz-content-sha256"}) {
    if ((";" + names + ";").find(std::string(";") + name + ";") == std::string::npos) {
      return std::string(name) + " is not signed";
    }
  }
  canonical += "\n" + names + "\n" + Sha256(request.body);
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + header("x-amz-date") + "\n" + scope + "\n" + Sha256(canonical);
  std::string key = Hmac(std::string("AWS4") + kSecret, date);
  for (const std::string& part : {region, std::string("s3"), std::string("aws4_request")}) {
    key = Hmac(key, part);
  }
  const std::string mac = Hmac(key, to_sign);
  const std::string want = Hex(reinterpret_cast<const unsigned char*>(mac.data()), mac.size());
  return Between(authorization, "Signature=", "") == want ? "" : "the signature";
}

SignedRequest Seen(const httplib::Request& request) {
  SignedRequest seen{
      request.method, request.path, request.get_header_value("Authorization"), request.body, {}};
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    seen.headers[lower] = value;
  }
  return seen;
}

// Objects in memory behind signatures, as object storage has them; other files open to all.
class Server {
 public:
  Server() {
    ServeObjects(server_, objects, mutex_, [this](const auto& request, auto& response) {
      return Refused(request, response);
    });
    server_.Get("/file", [this](const auto& request, auto& response) {
      const std::lock_guard lock(mutex_);
      ranges.push_back(request.get_header_value("Range"));
      response.set_content(file, "application/octet-stream");
    });
    server_.Get("/without-ranges", [this](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      response.set_content(file, "application/octet-stream");
    });
    server_.Get("/other-range", [](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      response.status = 206;
      response.set_header("Content-Range", "bytes 7-16/100");
      response.set_content("0123456789", "application/octet-stream");
    });
    server_.Get("/cut", [](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      response.set_content_provider(1000, "application/octet-stream",
                                    [](size_t, size_t, httplib::DataSink& sink) {
                                      sink.write("only this", 9);
                                      return false;
                                    });
    });
    server_.Get("/elsewhere", [](const auto&, auto& response) {
      response.set_redirect("http://127.0.0.1:1/secret");
    });
    server_.Get("/broken", [this](const auto& request, auto& response) {
      const_cast<httplib::Ranges&>(request.ranges).clear();
      if (++broken <= 2) {
        response.status = 503;
      } else {
        response.set_content("at last!", "application/octet-stream");
      }
    });
    server_.Get("/stuck", [this](const auto&, auto&) { released_.wait(); });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Server() {
    Release();
    server_.stop();
    thread_.join();
  }
  void Release() {
    if (!is_released_.exchange(true)) released_.count_down();
  }
  std::string At(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  std::string file;
  std::vector<std::string> ranges;
  std::map<std::string, std::string> objects;
  std::string problem;  // of the first signature that was wrong
  std::atomic<int> broken = 0;

 private:
  bool Refused(const httplib::Request& request, httplib::Response& response) {
    const std::string wrong = SignatureProblem(Seen(request), "eu-north-1");
    if (wrong.empty()) return false;
    const std::lock_guard lock(mutex_);
    if (problem.empty()) problem = wrong;
    response.status = 403;
    return true;
  }
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::latch released_{1};
  std::atomic<bool> is_released_ = false;
};

WebOptions Keys(const Server& server) {
  WebOptions options;
  options.access_key = kAccess;
  options.secret_key = kSecret;
  options.region = "eu-north-1";
  options.endpoint = server.At("");
  return options;
}

Bytes BytesOf(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

TEST_CASE("the test's own signatures: Amazon's published example", "[wire]") {
  const std::string nothing = Sha256("");
  SignedRequest request{"GET", "/test.txt", "", "", {}};
  request.headers = {{"host", "examplebucket.s3.amazonaws.com"},
                     {"range", "bytes=0-9"},
                     {"x-amz-content-sha256", nothing},
                     {"x-amz-date", "20130524T000000Z"}};
  request.authorization =
      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

  CHECK(SignatureProblem(request, "us-east-1").empty());
  request.headers["range"] = "bytes=0-8";
  CHECK(SignatureProblem(request, "us-east-1") == "the signature");
}

TEST_CASE("WebClient: a file comes in ranges and is whole", "[wire]") {
  Server server;
  server.file.resize(static_cast<size_t>(2 * WebClient::kRangeBytes + 1000));
  for (size_t i = 0; i < server.file.size(); ++i)
    server.file[i] = static_cast<char>(i * 7 + i / 999);
  WebClient client({});

  const auto file = client.Read(server.At("/file"), std::ssize(server.file));

  REQUIRE(file.ok());
  const bool is_equal = *file == BytesOf(server.file);
  CHECK(is_equal);
  CHECK(server.ranges == std::vector<std::string>{"bytes=0-4194303", "bytes=4194304-8388607",
                                                  "bytes=8388608-8389607"});
}

TEST_CASE("WebClient: a server without ranges serves small files", "[wire]") {
  Server server;
  server.file = std::string(1000, 'x');
  WebClient client({});

  CHECK(client.Read(server.At("/without-ranges"), 1000)->size() == 1000);
  CHECK(client.ReadSmall(server.At("/without-ranges"), 1000)->size() == 1000);
}

TEST_CASE("WebClient: other bytes than asked for are refused", "[wire][error]") {
  Server server;
  WebClient client({});
  server.file = std::string(1000, 'x');

  SECTION("longer than announced") {
    CHECK(absl::IsDataLoss(client.Read(server.At("/without-ranges"), 999).status()));
    CHECK(absl::IsDataLoss(client.ReadSmall(server.At("/file"), 999).status()));
  }
  SECTION("shorter") {
    CHECK_FALSE(client.Read(server.At("/without-ranges"), 1001).ok());
    CHECK_FALSE(client.Read(server.At("/file"), 1001).ok());
  }
  SECTION("cut in the middle") {
    CHECK(absl::IsDataLoss(client.Read(server.At("/cut"), 1000).status()));
    CHECK(absl::IsDataLoss(client.ReadSmall(server.At("/cut"), 1000).status()));
  }
  SECTION("another range") {
    CHECK(absl::IsDataLoss(client.Read(server.At("/other-range"), 10).status()));
  }
  SECTION("no ranges where they are needed") {
    server.file = std::string(static_cast<size_t>(WebClient::kRangeBytes) + 1, 'x');
    CHECK(absl::IsDataLoss(
        client.Read(server.At("/without-ranges"), std::ssize(server.file)).status()));
  }
}

TEST_CASE("WebClient: a redirect is not followed, and said", "[wire][error]") {
  Server server;
  WebClient client({});

  const auto read = client.Read(server.At("/elsewhere"), 10).status();

  CHECK(absl::IsUnavailable(read));
  CHECK(ErrorText(read).find("http://127.0.0.1:1/secret") != std::string::npos);
}

TEST_CASE("WebClient: asks again what failed, and gives up after three times", "[wire]") {
  Server server;
  WebClient client({});

  CHECK(client.Read(server.At("/broken"), 8).ok());
  CHECK(server.broken == 3);
  server.broken = -1;
  CHECK(absl::IsUnavailable(client.Read(server.At("/broken"), 8).status()));
  CHECK(absl::IsNotFound(client.Read(server.At("/none"), 8).status()));
}

TEST_CASE("WebClient: a server that says nothing is given up, or left when it is time",
          "[wire][error]") {
  Server server;
  WebOptions options;
  options.slow_s = 1;
  SECTION("slow") {
    CHECK(absl::IsUnavailable(WebClient(options).ReadSmall(server.At("/stuck"), 8).status()));
  }
  SECTION("stopped") {
    options.slow_s = 1000;
    options.stops = [] { return true; };
    CHECK(absl::IsAborted(WebClient(options).Read(server.At("/stuck"), 8).status()));
  }
  server.Release();
}

TEST_CASE("WebClient: object storage, every request signed", "[wire]") {
  Server server;
  WebOptions options = Keys(server);
  SECTION("keys that last") {}
  SECTION("keys of a session") {
    options.session_token = "session/token==";
  }
  WebClient client(options);
  std::string body = "zero \0 and more";
  body += std::string(300'000, '\xff') + std::string("\0", 1);

  CHECK_FALSE(*client.Exists("s3://bucket/run/chunks/ab.tok"));
  REQUIRE(client.Write("s3://bucket/run/chunks/ab.tok", BytesOf(body)).ok());
  CHECK(*client.Exists("s3://bucket/run/chunks/ab.tok"));
  CHECK(*client.Read("s3://bucket/run/chunks/ab.tok", std::ssize(body)) == BytesOf(body));
  CHECK(*client.ReadSmall("s3://bucket/run/chunks/ab.tok", 1 << 20) == BytesOf(body));
  REQUIRE(client.Write("s3://bucket/empty", {}).ok());
  CHECK(client.ReadSmall("s3://bucket/empty", 1)->empty());
  CHECK(server.problem == "");
  CHECK(server.objects.at("/bucket/run/chunks/ab.tok") == body);
}

TEST_CASE("WebClient: wrong keys are refused by the storage, missing ones here", "[wire][error]") {
  Server server;
  WebOptions options = Keys(server);
  options.secret_key = "another";
  CHECK(absl::IsPermissionDenied(WebClient(options).Write("s3://bucket/a", {1})));
  CHECK(server.problem == "the signature");
  options.secret_key = "";
  CHECK(absl::IsPermissionDenied(WebClient(options).ReadSmall("s3://bucket/a", 1).status()));
}

TEST_CASE("WebClient: what is no address is refused", "[wire][error]") {
  Server server;
  WebClient client(Keys(server));
  for (const char* address : {"file:///etc/passwd", "ftp://a/b", "", "s3://", "s3://bucket",
                              "s3://bucket/", "s3:///key"}) {
    CAPTURE(address);
    CHECK(absl::IsInvalidArgument(client.ReadSmall(address, 10).status()));
  }
  CHECK(absl::IsInvalidArgument(client.Write(server.At("/file"), {1})));
}

}  // namespace skerry
