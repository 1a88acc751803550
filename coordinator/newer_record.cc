#include "coordinator/newer_record.h"

#include "common/status.h"
#include "coordinator/record_json.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

bool SaysNothing(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
}

// The first key of `said` that `read` lacks; empty: there is none.
std::string Unread(const Json& said, const Json& read) {
  if (said.is_array() && read.is_array() && said.size() == read.size()) {
    for (size_t i = 0; i < said.size(); ++i) {
      if (!said[i].is_structured()) continue;
      if (std::string key = Unread(said[i], read[i]); !key.empty()) return key;
    }
  }
  if (!said.is_object() || !read.is_object()) return "";
  for (const auto& [key, value] : said.items()) {
    const auto known = read.find(key);
    if (known == read.end() && !SaysNothing(value)) return key;
    if (known == read.end() || !value.is_structured()) continue;
    if (std::string inner = Unread(value, *known); !inner.empty()) return inner;
  }
  return "";
}

}  // namespace

absl::Status WrittenByNewer(const std::string& what) {
  return FailedPrecondition(
      "%s: a newer version of Skerry wrote it; go on with that one or a later one "
      "[SK-journal-version]",
      what);
}

absl::Status CheckAllIsRead(const Json& record, const PipelinePlan& read) {
  const std::string unread = Unread(record, Json(read));
  if (unread.empty()) return absl::OkStatus();
  return WrittenByNewer(absl::StrFormat("plan %d has an unknown '%s'", read.version, unread));
}

}  // namespace skerry
