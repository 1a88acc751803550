// Files on the web and in S3-compatible object storage, for programs: read by ranges, written
// whole. By libcurl, which signs requests to object storage itself (AWS Signature Version 4).
//
// Addresses: http://, https://, and s3://BUCKET/KEY, which is signed with the keys of WebOptions.
// Nothing here is believed: who reads knows the digest of what should come. A redirect is refused:
// it could lead to machines that only this one reaches, and would carry a signed request with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"

namespace skerry {

struct WebOptions {
  std::string access_key, secret_key, session_token;  // "": s3:// is refused
  std::string region = "us-east-1";
  std::string endpoint;  // of s3://, as http://127.0.0.1:9000; "": Amazon's
  int connect_s = 10;    // until a server must have answered the call
  int slow_s = 15;       // slower than slow_bytes_s for so long: given up
  int64_t slow_bytes_s = 4 << 10;
  int attempts = 3;          // of a range or an object
  bool public_only = false;  // calls no address that not everybody reaches (wire/web_address.h)
  std::function<int64_t()> bytes_s_max;   // asked before each request; 0: no limit
  std::function<void(int64_t)> received;  // told of the bytes of each answer, whole or not
  std::function<bool()> stops;            // asked now and then: true ends what is under way
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL.
WebOptions WebOptionsOfEnvironment();

// One thread owns it; connections are kept. Errors name the address: NotFound (404),
// PermissionDenied (401, 403), DataLoss (fewer or other bytes than asked for), InvalidArgument (no
// address of these kinds), Unavailable for the rest; Aborted if it was stopped.
class WebClient {
 public:
  static constexpr int64_t kRangeBytes = 4 << 20;

  explicit WebClient(WebOptions options);
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  // A file of exactly so many bytes, range after range.
  absl::StatusOr<Bytes> Read(const std::string& address, int64_t bytes);
  // A file of at most so many bytes.
  absl::StatusOr<Bytes> ReadSmall(const std::string& address, int64_t bytes_max);
  // In object storage: there afterwards, whole.
  absl::Status Write(const std::string& address, const Bytes& bytes);
  absl::StatusOr<bool> Exists(const std::string& address);

 private:
  enum class Kind : uint8_t;
  struct Request;
  static absl::Status Judge(const Request& request, int result);
  absl::Status Perform(Request& request);
  absl::StatusOr<std::string> UrlOf(const std::string& address) const;
  absl::Status ReadRange(const std::string& address, int64_t offset, int64_t length, Bytes& into);

  WebOptions options_;
  void* curl_;
};

}  // namespace skerry
