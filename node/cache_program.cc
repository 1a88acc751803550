#include "node/cache_program.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/status.h"
#include "node/limits_program.h"
#include "node/say.h"
#include "wire/coordinator_route.h"
#include "wire/web_address.h"
#include "wire/web_client.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

bool IsAtHome(const std::string& coordinator) {
  const auto endpoints = SplitEndpoints(coordinator);
  return !endpoints.empty() && std::all_of(endpoints.begin(), endpoints.end(), IsPrivateEndpoint);
}

// Slower than this the coordinator is the better source, unless the volunteer wants it slow.
constexpr int64_t kSlowBytes = 32 << 10;

int64_t DownBytes(const std::string& limits_file) {
  const auto limits = LoadLimits(limits_file);
  return limits.ok() ? static_cast<int64_t>(limits->down_mbit * 1e6 / 8) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardCache>> ShardCache::Open(const CacheWish& wish,
                                                             const fs::path& home,
                                                             const std::string& coordinator) {
  std::unique_ptr<ShardCache> cache(new ShardCache());
  std::string directory = (home / "shards").string();
  if (!wish.directory.empty()) {
    directory = wish.directory;
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) return Unavailable("%s: %s [SK-disk-write]", directory, error.message());
    SKERRY_ASSIGN_OR_RETURN(HomeLock lock, HomeLock::Take(directory));
    cache->lock_ = std::make_unique<HomeLock>(std::move(lock));
  }
  const std::string limits = (home / kLimitsFile).string();
  WebOptions web = WebOptionsOfEnvironment();
  web.attempts = 2;  // there is the coordinator
  web.public_only = !IsAtHome(coordinator);
  web.stops = [stops = &cache->stops_] { return stops->load(); };
  web.received = [bytes = &cache->bytes_](int64_t more) { *bytes += more; };
  web.bytes_s_max = [limits] { return DownBytes(limits); };
  const int64_t down = DownBytes(limits);
  web.slow_bytes_s = down == 0 ? kSlowBytes : std::min(kSlowBytes, down / 2);
  ShardDirectoryOptions options;
  options.fetch = [client = std::make_shared<WebClient>(std::move(web))](const std::string& address,
                                                                         int64_t bytes) {
    return client->Read(address, bytes);
  };
  options.say = [](const std::string& line) { Say(line); };
  options.bytes_max = static_cast<int64_t>(wish.gib * (int64_t{1} << 30));
  cache->shards_ = std::make_unique<ShardDirectory>(directory, std::move(options));
  return cache;
}

}  // namespace skerry
