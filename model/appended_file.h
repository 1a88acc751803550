// A file that grows at its end, beside those that are there whole or not at all (model/file_io.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace skerry {

enum class Durable : uint8_t { kNo, kYes };

// Adds to the end of a file, which is made if there is none; not atomic. kYes: all of the file is
// on the disk when this returns. Errors as model/file_io.h.
absl::Status AppendToFile(const std::string& path, std::span<const uint8_t> bytes, Durable durable);

}  // namespace skerry
