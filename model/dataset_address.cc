#include "model/dataset_address.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/status.h"
#include "model/file_io.h"
#include "model/token_dataset.h"

namespace skerry {
namespace {

constexpr char kKey[] = "base_url";
constexpr size_t kAddressBytesMax = 1024;
constexpr int64_t kIndexBytesMax = 64 << 20;

// A file's name is put behind it: nothing of it may be a query, and nothing may need quoting.
bool IsAddress(std::string_view text) {
  const auto is_plain = [](char c) {
    return c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '"';
  };
  if (text.size() > kAddressBytesMax || !std::all_of(text.begin(), text.end(), is_plain))
    return false;
  for (const std::string_view scheme : {"http://", "https://", "s3://"}) {
    if (text.starts_with(scheme)) return text.size() > scheme.size();
  }
  return false;
}

}  // namespace

std::string BaseAddressOf(const std::string& index_text) {
  const auto json = nlohmann::json::parse(index_text, nullptr, false);
  if (!json.is_object()) return "";
  const auto it = json.find(kKey);
  if (it == json.end() || !it->is_string()) return "";
  const auto& address = it->get_ref<const std::string&>();
  return IsAddress(address) ? address : "";
}

absl::Status SetBaseAddress(const std::string& directory, const std::string& address) {
  if (!address.empty() && !IsAddress(address)) {
    return InvalidArgument(
        "'%s': want an address that begins with http://, https:// or s3://, without spaces, ? and "
        "#: each shard's name is put behind it [SK-web]",
        address);
  }
  const std::string path = directory + "/" + kDatasetIndexFile;
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kIndexBytesMax));
  if (const auto index = ParseDatasetIndex(text); !index.ok()) {
    return Annotate(index.status(), path);
  }
  auto json = nlohmann::ordered_json::parse(text);
  std::string base = address;
  while (base.ends_with('/')) base.pop_back();
  json.erase(kKey);
  if (!base.empty()) json[kKey] = base;
  return WriteFileAtomically(path, json.dump(2) + "\n");
}

}  // namespace skerry
