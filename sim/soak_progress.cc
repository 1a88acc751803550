#include "sim/soak_progress.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace skerry {

using Json = nlohmann::json;

void SoakProgress::Feed(Instant now, std::string_view appended) {
  partial_ += appended;
  size_t begin = 0;
  for (size_t end = 0; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    OnLine(now, partial_.substr(begin, end - begin));
  }
  partial_.erase(0, begin);
}

void SoakProgress::OnLine(Instant now, const std::string& line) {
  const Json event = Json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("kind")) {
    complaints_.push_back("events.jsonl has a line that is no event: " + line.substr(0, 80));
    return;
  }
  const std::string kind = event.value("kind", "");
  if (kind == "step") {
    ++steps_;
    marks_.push_back(now);
  } else if (kind == "steps") {  // several, of a long run (coordinator/event_budget.h)
    steps_ += event.value("steps", 1);
    marks_.push_back(now);
  } else if (kind == "round" || kind == "round_sum") {
    ++rounds_;
    marks_.push_back(now);
  } else if (kind == "finished") {
    finished_ = true;
    marks_.push_back(now);
  } else if (kind == "applied") {
    ++digests_;
    const std::pair<int64_t, int64_t> key = {event.value("stage", -1), event.value("round", -1)};
    const std::string digest = event.value("digest", "");
    const auto [first, is_new] = digest_of_.try_emplace(key, digest);
    if (!is_new && first->second != digest) {
      complaints_.push_back(absl::StrFormat("stage %d, round %d: replicas hold %s and %s",
                                            key.first, key.second, first->second, digest));
    }
  } else if (kind == "digest_mismatch") {
    complaints_.push_back("the coordinator says: " + line);
  }
}

Duration SoakProgress::LongestGap(Instant from, Instant to) const {
  Duration longest;
  Instant last = from;
  for (auto mark = std::upper_bound(marks_.begin(), marks_.end(), from); mark != marks_.end();
       ++mark) {
    longest = std::max(longest, *mark - last);
    last = *mark;
    if (*mark >= to) return longest;
  }
  return std::max(longest, to - last);
}

Instant SoakProgress::FirstMarkAfter(Instant from, Instant otherwise) const {
  const auto mark = std::lower_bound(marks_.begin(), marks_.end(), from);
  return mark == marks_.end() ? otherwise : *mark;
}

}  // namespace skerry
