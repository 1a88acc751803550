// Where else a data set's shards are: "base_url" in its index.json, an address below which every
// file has its name.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace skerry {

// "" if the index says nothing, or no address that begins with http://, https:// or s3://.
std::string BaseAddressOf(const std::string& index_text);

// Writes it into the index of `directory`; "" takes it out. InvalidArgument: no such address.
absl::Status SetBaseAddress(const std::string& directory, const std::string& address);

}  // namespace skerry
