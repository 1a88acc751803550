#include "coordinator/link_records.h"

#include <algorithm>

#include "common/status.h"
#include "coordinator/record_json.h"

namespace skerry {

using Json = nlohmann::json;

std::string LinkRecord(const NodeId& from, const LinkReading& reading) {
  return Json{{"kind", "link"}, {"from", from}, {"reading", reading}}.dump();
}

std::string LineRecord(const LineFinding& finding) {
  return Json{{"kind", "line"}, {"finding", finding}}.dump();
}

void ApplyLinkRecord(const Json& json, RunState& state) {
  const auto reading = json.at("reading").get<LinkReading>();
  state.links[{json.at("from").get<NodeId>(), reading.target}] = reading;
}

// Of a house that has grown the older one is no more; what one of it carries to several is another
// question.
absl::Status ApplyLineRecord(const Json& json, RunState& state) {
  const auto finding = json.at("finding").get<LineFinding>();
  if (!finding.IsWhole()) return DataLoss("who shares a line is not said of each of them");
  std::erase_if(state.lines, [&](const LineFinding& known) {
    return known.FansOut() == finding.FansOut() &&
           std::ranges::includes(finding.members, known.members);
  });
  state.lines.push_back(finding);
  return absl::OkStatus();
}

}  // namespace skerry
