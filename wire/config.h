// run.toml: the one place where a run is configured. Sections [run] [model] [inner] [outer]
// [pipeline] [data]; a key that is left out keeps RunConfig's default; a key nobody knows, a value
// of another type or out of range is an error with file and line.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/run_config.h"

namespace skerry {

class TomlDocument;

// Reads `text`; `file` only names it in messages.
//
// InvalidArgument, for example "run.toml:12: unknown key 'skip_ration' in [pipeline]; nearest is
// 'skip_ratio'" or "run.toml:7: hidden (190) must be a multiple of heads (6)".
absl::StatusOr<RunConfig> ParseRunConfig(const std::string& text, const std::string& file);

// What the mode of outer rounds fixes is filled in (common/round_clock.h).
//
// The same from a document that has other sections too (a scenario file): the reader of the rest
// calls TomlDocument::Finish, then CheckRunConfig for the rules between values.
RunConfig ReadRunConfig(TomlDocument& document);
absl::Status CheckRunConfig(const TomlDocument& document, const std::string& file,
                            const RunConfig& config);

// Reads the file at `path`. NotFound if it is not there.
absl::StatusOr<RunConfig> LoadRunConfig(const std::string& path);

// Every range and every rule between values. InvalidArgument names the first broken one as
// "[section] key: …". What comes over the wire is held to the same rules.
absl::Status ValidateRunConfig(const RunConfig& config);

// The whole configuration as commented TOML. ParseRunConfig of it gives `config` back, bit for bit.
std::string FormatRunConfig(const RunConfig& config);

// BLAKE2b over the canonical "section.key = value" lines: equal for equal configurations, whatever
// the comments and the order of their files.
Digest ConfigDigest(const RunConfig& config);

// The name of a run: its configuration's digest bound to a random creation nonce.
RunId MakeRunId(const RunConfig& config, const std::array<uint8_t, 32>& nonce);

// 32 fresh random bytes, for MakeRunId.
std::array<uint8_t, 32> RandomNonce();

}  // namespace skerry
