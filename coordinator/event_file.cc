#include "coordinator/event_file.h"

#include "absl/strings/str_format.h"

namespace skerry {

void EventFile::Write(const std::string& kind, std::string fields) {
  if (fields.starts_with('{') && fields.ends_with('}')) {
    fields = fields.substr(1, fields.size() - 2);
  }
  Append(budget_.On(clock_.seconds(), kind, fields));
}

void EventFile::Flush() {
  Append(budget_.Flush(clock_.seconds()));
}

void EventFile::Append(const EventBudget::Lines& lines) {
  for (const auto& [kind, fields] : lines) {
    file_.Append(absl::StrFormat(R"({"t":%.3f,"utc":"%s","kind":"%s"%s%s})", clock_.seconds(),
                                 clock_.utc(), kind, fields.empty() ? "" : ",", fields));
  }
}

}  // namespace skerry
