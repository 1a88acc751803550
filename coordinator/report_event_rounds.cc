// What an event log says of outer rounds.
#include <algorithm>
#include <utility>

#include "common/status.h"
#include "coordinator/report_events.h"

namespace skerry {

using nlohmann::json;

static constexpr int64_t kRoundsNamed = 16;  // of each stage: older ones keep no names

// Told once for each node: a wild one is wild every round, and the table counts them.
void EventFold::OnScreened(const std::string& node, const json& event) {
  const auto found = nodes_.find(node);
  const int64_t round = IntegerAt(event, "round");
  const auto [last, is_first] = screened_.try_emplace({node, IntegerAt(event, "stage")}, round);
  const bool is_new = is_first || last->second < round;
  last->second = std::max(last->second, round);
  if (found == nodes_.end() || !is_new) return;
  int64_t& rounds = found->second.rounds_screened;
  rounds += std::max<int64_t>(1, IntegerAt(event, "count", 1));
  if (std::exchange(found->second.is_screened, true)) return;
  Tell("screened",
       absl::StrFormat("The delta of %s in round %d of stage %d was too far from the others': it "
                       "counted for little or nothing.",
                       node, IntegerAt(event, "round"), IntegerAt(event, "stage")),
       true);
}

void EventFold::OnRound(const json& event) {
  const int64_t stage = IntegerAt(event, "stage");
  const int64_t index = IntegerAt(event, "round");
  ReportRound& round = rounds_[{stage, index}];
  round.stage = stage;
  round.round = index;
  round.committed_s = now_s_;
  round.participants = static_cast<int64_t>(TextsAt(event, "participants").size());
  NameWho(event, &round);
  late_.erase(late_.lower_bound({stage, 0}), late_.upper_bound({stage, index}));
  if (const auto old = rounds_.find({stage, index - kRoundsNamed}); old != rounds_.end()) {
    old->second.took_part.clear();
    old->second.missing.clear();
    old->second.is_missing_known = false;
  }
  if (keeps_ == Keeps::kRecent && rounds_.size() > 2 * kRoundsRecent) SumOldRounds();
}

void EventFold::NameWho(const json& event, ReportRound* round) {
  const std::vector<std::string> took_part = TextsAt(event, "participants");
  round->took_part.assign(
      took_part.begin(),
      took_part.begin() + static_cast<int64_t>(std::min(took_part.size(), ReportRound::kNamedMax)));
  round->missing.clear();
  round->missing_count = 0;
  const auto named = event.find("missing");
  round->is_missing_known = named != event.end() || !took_part.empty();
  if (named == event.end()) return FindMissing(took_part, round);
  if (!named->is_array()) return;
  for (const json& one : *named) {
    const bool whole =
        one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string();
    if (whole) AddMissing(one[0].get<std::string>(), one[1].get<std::string>(), round);
  }
  round->missing_count = std::max(round->missing_count, IntegerAt(event, "missing_count"));
}

// Of who is gone it is known how.
void EventFold::AddMissing(const std::string& node, const std::string& why, ReportRound* round) {
  if (++round->missing_count > static_cast<int64_t>(ReportRound::kNamedMax)) return;
  const auto away = away_.find(node);
  round->missing.emplace_back(node, away == away_.end() || why == "late" ? why : away->second);
}

// By the plan in force: who is a replica and not in it did not come in time.
void EventFold::FindMissing(const std::vector<std::string>& took_part, ReportRound* round) {
  const auto stage = static_cast<size_t>(round->stage);
  if (took_part.empty() || stage >= report_.stages.size()) return;
  const std::set<std::string> here(took_part.begin(), took_part.end());
  const auto late = late_.find({round->stage, round->round});
  for (const std::string& node : report_.stages[stage].replicas) {
    if (here.contains(node)) continue;
    const bool is_late = late != late_.end() && late->second.contains(node);
    AddMissing(node, is_late ? "late" : "not in it yet", round);
  }
}

// A round and all that its replicas said of it.
void EventFold::OnRoundSum(const json& event) {
  OnRound(event);
  const auto found = rounds_.find({IntegerAt(event, "stage"), IntegerAt(event, "round")});
  if (found == rounds_.end()) return;  // older than all that is kept
  ReportRound& round = found->second;
  round.participants = IntegerAt(event, "participants");
  round.committed_s -= std::max(0.0, NumberAt(event, "age_s"));
  round.landed_s = now_s_;
  round.transfer_s = NumberAt(event, "transfer_s");
  round.wait_s = NumberAt(event, "wait_s");
  round.last = TextAt(event, "node");
  round.replicas = IntegerAt(event, "replicas");
  round.bytes_sent = NumberAt(event, "bytes_sent");
  round.bytes_received = NumberAt(event, "bytes_received");
  if (const auto digests = event.find("digests"); digests != event.end() && digests->is_object()) {
    for (const auto& [digest, count] : digests->items()) {
      if (count.is_number_integer()) round.digests[digest] = count.get<int64_t>();
    }
  }
  if (const int64_t more = IntegerAt(event, "left_out"); more > 0) {
    report_.older_rounds[round.stage].rounds += more;
  }
}

// Of each stage the newest stay as they are.
void EventFold::SumOldRounds() {
  std::map<int64_t, size_t> of_stage;
  for (const auto& [key, round] : rounds_) ++of_stage[key.first];
  const size_t kept = std::max<size_t>(8, kRoundsRecent / std::max<size_t>(1, of_stage.size()));
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    size_t& left = of_stage[it->first.first];
    if (left <= kept) {
      ++it;
      continue;
    }
    --left;
    OlderRounds& older = report_.older_rounds[it->first.first];
    const ReportRound& round = it->second;
    ++older.rounds;
    older.replicas += round.replicas;
    older.transfer_s += round.transfer_s;
    older.wait_s += round.wait_s;
    older.bytes_sent += round.bytes_sent;
    older.bytes_received += round.bytes_received;
    it = rounds_.erase(it);
  }
}

void EventFold::OnApplied(const json& event) {
  const auto found = rounds_.find({IntegerAt(event, "stage"), IntegerAt(event, "round")});
  if (found == rounds_.end()) return;  // the line of its round was lost in a crash
  ReportRound& round = found->second;
  const double transfer_s = NumberAt(event, "transfer_s");
  const bool had_boundary = transfer_s > 0;  // a joiner has none
  if (had_boundary && (round.transfer_s == 0 || transfer_s < round.transfer_s)) {
    round.transfer_s = transfer_s;
    round.wait_s = NumberAt(event, "wait_s");
    round.last = TextAt(event, "node");
  }
  round.landed_s = now_s_;
  ++round.digests[TextAt(event, "digest")];
  if (!had_boundary) return;
  ++round.replicas;
  round.bytes_sent += NumberAt(event, "bytes_sent");
  round.bytes_received += NumberAt(event, "bytes_received");
}

}  // namespace skerry
