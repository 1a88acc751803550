#include "sim/out_directory.h"

#include <algorithm>

#include "common/status.h"
#include "model/file_io.h"

namespace skerry {

namespace fs = std::filesystem;

absl::Status PrepareOut(const fs::path& out, const OutDirectory& of) {
  std::error_code error;
  const std::string mark = ".skerry-" + of.maker;
  const auto is_there = [&](const std::string& name) { return fs::exists(out / name, error); };
  const bool is_ours = is_there(mark) || std::any_of(of.theirs.begin(), of.theirs.end(), is_there);
  fs::create_directories(out, error);
  if (error) return Unavailable("--out %s: %s", out.string(), error.message());
  if (const fs::directory_iterator first(out, error); !error && !is_ours && first != end(first)) {
    return InvalidArgument(
        "--out %s: it holds '%s', and no earlier '%s' was there, which would take away what it "
        "left; want a new directory, an empty one, or that of an earlier one",
        out.string(), first->path().filename().string(), of.maker);
  }
  if (error) return Unavailable("--out %s: %s", out.string(), error.message());
  SKERRY_RETURN_IF_ERROR(ReplaceText(
      (out / mark).string(), absl::StrFormat("skerry-sim %s keeps here what it makes; the next one "
                                             "with this --out takes it away\n",
                                             of.maker)));
  for (const std::string& name : of.removed) fs::remove_all(out / name, error);
  return absl::OkStatus();
}

}  // namespace skerry
