#include "wire/web_client.h"

#include <curl/curl.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "wire/web_address.h"

namespace skerry {
namespace {

constexpr char kObjectStorage[] = "s3://";
constexpr size_t kErrorBytesMax = 64 << 10;  // of what comes instead of a file

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

bool IsObjectStorage(const std::string& address) {
  return address.starts_with(kObjectStorage);
}

// Lower-case names; what is no header line is left out.
std::string HeaderValue(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return "";
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = line[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != name[i]) return "";
  }
  line.remove_prefix(name.size() + 1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  return std::string(line);
}

std::string Sha256Hex(const Bytes* bytes) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, bytes == nullptr ? nullptr : bytes->data(),
                     bytes == nullptr ? 0 : bytes->size());
  char hex[2 * sizeof hash + 1];
  return sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
}

}  // namespace

enum class WebClient::Kind : uint8_t { kGet, kHead, kPut };

struct WebClient::Request {
  Kind kind = Kind::kGet;
  std::string address = {};
  Bytes* into = nullptr;        // appended to
  const Bytes* body = nullptr;  // of a PUT
  std::string range = {};       // "0-1023"; "": the whole
  size_t bytes_max = 0;         // of the answer's body
  long code = 0;                // of the answer
  std::string location = {}, content_range = {};
  bool is_overlong = false;
  bool is_page = false;  // of an error: its body is not looked at
  size_t page_bytes = 0;
  const std::function<bool()>* stops = nullptr;
  bool was_private = false;  // an address that is not called

  static size_t OnBody(char* data, size_t one, size_t count, void* self) {
    auto& request = *static_cast<Request*>(self);
    const size_t bytes = one * count;
    if (request.is_page) return (request.page_bytes += bytes) <= kErrorBytesMax ? bytes : 0;
    request.is_overlong = bytes > request.bytes_max;
    if (request.is_overlong) return 0;
    request.bytes_max -= bytes;
    if (request.into != nullptr) request.into->insert(request.into->end(), data, data + bytes);
    return bytes;
  }
  static size_t OnHeader(char* data, size_t one, size_t count, void* self) {
    auto& request = *static_cast<Request*>(self);
    const std::string_view line(data, one * count);
    if (line.starts_with("HTTP/")) {
      const size_t space = line.find(' ');
      request.is_page = space == std::string_view::npos || line.substr(space + 1, 1) != "2";
    }
    if (auto value = HeaderValue(line, "location"); !value.empty()) request.location = value;
    if (auto value = HeaderValue(line, "content-range"); !value.empty()) {
      request.content_range = value;
    }
    return line.size();
  }
  // What a name stands for is known only here, and may be another address each time.
  static curl_socket_t OnSocket(void* self, curlsocktype, curl_sockaddr* address) {
    if (!IsPublicAddress(address->addr)) {
      static_cast<Request*>(self)->was_private = true;
      return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& stops = *static_cast<Request*>(self)->stops;
    return stops && stops() ? 1 : 0;
  }
};

WebOptions WebOptionsOfEnvironment() {
  WebOptions options;
  options.access_key = Environment("AWS_ACCESS_KEY_ID", "");
  options.secret_key = Environment("AWS_SECRET_ACCESS_KEY", "");
  options.session_token = Environment("AWS_SESSION_TOKEN", "");
  options.region = Environment("AWS_REGION", Environment("AWS_DEFAULT_REGION", options.region));
  options.endpoint = Environment("AWS_ENDPOINT_URL", "");
  return options;
}

WebClient::WebClient(WebOptions options) : options_(std::move(options)) {
  static const CURLcode begun = curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = begun == CURLE_OK ? curl_easy_init() : nullptr;
  SKERRY_CHECK(curl_ != nullptr, "libcurl begins");
}

WebClient::~WebClient() {
  curl_easy_cleanup(curl_);
}

absl::StatusOr<std::string> WebClient::UrlOf(const std::string& address) const {
  if (address.starts_with("http://") || address.starts_with("https://")) return address;
  if (!IsObjectStorage(address)) {
    return InvalidArgument(
        "%s: want an address that begins with http://, https:// or s3:// [SK-web]", address);
  }
  if (options_.access_key.empty() || options_.secret_key.empty()) {
    return PermissionDenied(
        "%s: the environment has no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY [SK-web]", address);
  }
  const std::string path = address.substr(sizeof kObjectStorage - 1);
  const size_t slash = path.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == path.size()) {
    return InvalidArgument("%s: want s3://BUCKET/KEY [SK-web]", address);
  }
  if (!options_.endpoint.empty()) return options_.endpoint + "/" + path;
  return absl::StrFormat("https://%s.s3.%s.amazonaws.com%s", path.substr(0, slash), options_.region,
                         path.substr(slash));
}

// What came of it, as a sentence.
absl::Status WebClient::Judge(const Request& request, int result) {
  const std::string& address = request.address;
  const long code = request.code;
  if (result == CURLE_ABORTED_BY_CALLBACK) return Aborted("%s: stopped", address);
  if (result != CURLE_OK && request.was_private) {
    return PermissionDenied(
        "%s: leads into a private network, where this program fetches nothing [SK-web]", address);
  }
  if (request.is_overlong) return DataLoss("%s: sends more than was asked for [SK-web]", address);
  if (result == CURLE_PARTIAL_FILE) return DataLoss("%s: cut short [SK-web]", address);
  if (result != CURLE_OK && !(result == CURLE_WRITE_ERROR && request.is_page)) {
    return Unavailable("%s: %s [SK-web]", address,
                       curl_easy_strerror(static_cast<CURLcode>(result)));
  }
  if (code >= 200 && code < 300) return absl::OkStatus();
  if (code >= 300 && code < 400) {
    return Unavailable("%s: leads to %s, which is not followed; name that address [SK-web]",
                       address, request.location.empty() ? "nowhere" : request.location);
  }
  if (code == 404) return NotFound("%s: there is no such file [SK-web]", address);
  if (code == 401 || code == 403) {
    return PermissionDenied("%s: refused (HTTP %d); are the keys right? [SK-web]", address, code);
  }
  return Unavailable("%s: HTTP %d [SK-web]", address, code);
}

absl::Status WebClient::Perform(Request& request) {
  SKERRY_ASSIGN_OR_RETURN(const std::string url, UrlOf(request.address));
  CURL* curl = curl_;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "skerry");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(options_.slow_bytes_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.slow_s));
  if (options_.public_only) {
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Request::OnSocket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &request);
  }
  const curl_off_t bytes_s_max = options_.bytes_s_max ? options_.bytes_s_max() : 0;
  curl_easy_setopt(curl, CURLOPT_MAX_RECV_SPEED_LARGE, bytes_s_max);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Request::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &request);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Request::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &request);
  request.stops = &options_.stops;
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Request::OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &request);
  if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
  if (request.kind == Kind::kHead) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  std::vector<std::string> headers;
  if (request.kind == Kind::kPut) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t{std::ssize(*request.body)});
    // A null pointer would make it ask for the bytes.
    const void* bytes = request.body->empty() ? static_cast<const void*>("") : request.body->data();
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, bytes);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    headers = {"Content-Type: application/octet-stream", "Expect:"};
  }
  const std::string signature = "aws:amz:" + options_.region + ":s3";
  if (IsObjectStorage(request.address)) {
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signature.c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME, options_.access_key.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, options_.secret_key.c_str());
    // Object storage wants it; libcurl 7.88 signs it and does not add it.
    headers.push_back("x-amz-content-sha256:" + Sha256Hex(request.body));
    if (!options_.session_token.empty()) {
      headers.push_back("x-amz-security-token:" + options_.session_token);
    }
  }
  curl_slist* list = nullptr;
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  const CURLcode result = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &request.code);
  curl_slist_free_all(list);
  curl_off_t received = 0;
  curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &received);
  if (options_.received) options_.received(received);
  return Judge(request, static_cast<int>(result));
}

absl::Status WebClient::ReadRange(const std::string& address, int64_t offset, int64_t length,
                                  Bytes& into) {
  const auto begin = static_cast<std::ptrdiff_t>(into.size());
  Request request{.address = address, .into = &into};
  request.range = absl::StrFormat("%d-%d", offset, offset + length - 1);
  request.bytes_max = static_cast<size_t>(length);
  absl::Status read = Perform(request);
  const int64_t came = std::ssize(into) - begin;
  // A server that knows no ranges answers 200 with the whole file.
  const std::string wanted = absl::StrFormat("bytes %s/", request.range);
  const bool is_range = request.code == 206 && request.content_range.starts_with(wanted);
  const bool is_whole = request.code == 200 && offset == 0;
  if (read.ok() && !is_range && !is_whole) {
    read = DataLoss("%s: asked for bytes %s, got '%s' (HTTP %d) [SK-web]", address, request.range,
                    request.content_range, request.code);
  }
  if (read.ok() && came != length) {
    read = DataLoss("%s: asked for %d bytes from %d on, got %d [SK-web]", address, length, offset,
                    came);
  }
  if (!read.ok()) into.resize(static_cast<size_t>(begin));
  return read;
}

absl::StatusOr<Bytes> WebClient::Read(const std::string& address, int64_t bytes) {
  Bytes file;
  file.reserve(static_cast<size_t>(bytes));
  while (std::ssize(file) < bytes) {
    const int64_t offset = std::ssize(file);
    const int64_t length = std::min(kRangeBytes, bytes - offset);
    absl::Status read;
    for (int attempt = 0; attempt < options_.attempts; ++attempt) {
      read = ReadRange(address, offset, length, file);
      if (!absl::IsUnavailable(read) && !absl::IsDataLoss(read)) break;
    }
    SKERRY_RETURN_IF_ERROR(read);
  }
  return file;
}

absl::StatusOr<Bytes> WebClient::ReadSmall(const std::string& address, int64_t bytes_max) {
  Bytes file;
  Request request{.address = address, .into = &file};
  request.bytes_max = static_cast<size_t>(bytes_max);
  SKERRY_RETURN_IF_ERROR(Perform(request));
  return file;
}

absl::Status WebClient::Write(const std::string& address, const Bytes& bytes) {
  if (!IsObjectStorage(address)) {
    return InvalidArgument("%s: want an address that begins with s3:// [SK-web]", address);
  }
  absl::Status written;
  for (int attempt = 0; attempt < options_.attempts; ++attempt) {
    Request request{.kind = Kind::kPut, .address = address, .body = &bytes};
    request.bytes_max = kErrorBytesMax;
    written = Perform(request);
    if (!absl::IsUnavailable(written)) break;
  }
  return written;
}

absl::StatusOr<bool> WebClient::Exists(const std::string& address) {
  Request request{.kind = Kind::kHead, .address = address};
  const absl::Status found = Perform(request);
  if (absl::IsNotFound(found)) return false;
  SKERRY_RETURN_IF_ERROR(found);
  return true;
}

}  // namespace skerry
