// What an event log says of who came and went, of what nodes were found to do, and of checkpoints.
#include "common/status.h"
#include "coordinator/report_events.h"

namespace skerry {

using nlohmann::json;

namespace {

std::string Because(const std::string& why) {
  return why.empty() ? "" : ": " + why;
}

std::string TableTold(const json& event) {
  const auto over = event.find("over_budget");
  return absl::StrFormat(
      "Stage %d: a codec for each tensor from round %d on (%s), %.2f bits a parameter with %.2f "
      "times the error of one codec for all%s.",
      IntegerAt(event, "stage"), IntegerAt(event, "from_round"), TextAt(event, "text"),
      NumberAt(event, "bits"), NumberAt(event, "error_ratio"),
      over != event.end() && *over == true ? "; fewer bits are not to be had" : "");
}

std::string SizesTold(const std::string& kind, const std::string& node, const json& event) {
  if (kind == "sizes_settled") return "What " + node + " sends is as large as what others send.";
  return absl::StrFormat("The %s of %s in stage %d %s.", TextAt(event, "what"), node,
                         IntegerAt(event, "stage"),
                         kind == "odd_sizes" ? "are unlike those of others"
                                             : "are in doubt, and so are those of another");
}

}  // namespace

// Why somebody is away stays known until it is back: its rounds go on without it.
void EventFold::OnComingAndGoing(const std::string& kind, const std::string& node,
                                 const json& event) {
  const std::string why = TextAt(event, "why");
  if (kind == "returned" || kind == "joined") {
    away_.erase(node);
    if (kind == "returned") Tell(kind, node + " came back.");
  } else if (kind == "left") {
    constexpr std::string_view kBefore = "it left: ";
    away_[node] = "left";
    Tell(kind, node + " left" +
                   Because(why.starts_with(kBefore) ? why.substr(kBefore.size()) : "") + ".");
  } else if (why.empty() || why == "it is silent") {
    away_[node] = "silent";
    Tell(kind,
         absl::StrFormat("%s was silent for %.1f s and is taken for dead.", node,
                         NumberAt(event, "silent_s")),
         true);
  } else {
    away_[node] = why;
    Tell(kind, node + " is out" + Because(why) + ".", true);
  }
}

void EventFold::OnMembership(const std::string& kind, const json& event) {
  const std::string node = TextAt(event, "node");
  if (kind == "admitted") {
    nodes_[node] = {node, TextAt(event, "region"), TextAt(event, "device"),
                    NumberAt(event, "gflops")};
  } else if (kind == "unreachable") {
    Tell(kind, "Node " + TextAt(event, "node") + " cannot be dialled: it is seen at " +
                   TextAt(event, "seen") + ", behind a router or firewall.");
  } else if (kind == "dead" || kind == "left" || kind == "returned" || kind == "joined") {
    OnComingAndGoing(kind, node, event);
  } else if (kind == "paused") {
    Tell(kind, absl::StrFormat("The operator pauses the run at step %d%s.",
                               IntegerAt(event, "step"), Because(TextAt(event, "why"))));
  } else if (kind == "resumed_training") {
    Tell(kind, absl::StrFormat("The run goes on at step %d.", IntegerAt(event, "step")));
  } else if (kind == "digest_mismatch") {
    Tell(kind,
         absl::StrFormat("%s disagreed about the parameters of stage %d after round %d.", node,
                         IntegerAt(event, "stage"), IntegerAt(event, "round")),
         true);
  } else if (kind == "memory") {
    ReportNode& of = nodes_[node];
    of.id = node;
    of.held_bytes = IntegerAt(event, "held_bytes");
    of.model_bytes = IntegerAt(event, "model_bytes");
  } else if (kind == "screened") {
    OnScreened(node, event);
  } else if (kind == "false_sum" || kind == "sum_disputed") {
    Tell(kind,
         absl::StrFormat("The sum of %s in round %d of stage %d %s.", node,
                         IntegerAt(event, "round"), IntegerAt(event, "stage"),
                         kind == "false_sum" ? "was false" : "is of what its senders deny"),
         true);
  } else if (kind == "odd_sizes" || kind == "sizes_disputed" || kind == "sizes_settled") {
    Tell(kind, SizesTold(kind, node, event), kind != "sizes_settled");
  } else if (kind == "absent") {
    late_[{IntegerAt(event, "stage"), IntegerAt(event, "round")}].insert(node);
    Tell(kind,
         absl::StrFormat("Round %d of stage %d went on without %s, which was late.",
                         IntegerAt(event, "round"), IntegerAt(event, "stage"), node),
         true);
  } else if (kind == "replan") {
    Tell(kind, absl::StrFormat("Looked for a better use of the nodes (%s): %s.",
                               TextAt(event, "reason"), TextAt(event, "why")));
  } else if (kind == "table") {
    Tell(kind, TableTold(event));
  } else if (kind == "statistics_refused") {
    Tell(kind,
         absl::StrFormat("What %s said of its delta in round %d cannot be: %s.", node,
                         IntegerAt(event, "round"), TextAt(event, "why")),
         true);
  } else if (OnCheckpoint(kind, event)) {
  } else if (kind == "exported") {
    Tell(kind, absl::StrFormat("The model was written: %d parameters, %.1f MB.",
                               IntegerAt(event, "parameters"), NumberAt(event, "bytes") * 1e-6));
  }
}

bool EventFold::OnCheckpoint(const std::string& kind, const json& event) {
  const int64_t step = IntegerAt(event, "step");
  if (kind == "checkpoint") {
    Tell(kind,
         absl::StrFormat("Checkpoint %d: the state after %d steps, %.1f MB, of which %.1f MB "
                         "were fetched.",
                         IntegerAt(event, "generation"), step, NumberAt(event, "bytes") * 1e-6,
                         NumberAt(event, "new_bytes") * 1e-6));
  } else if (kind == "checkpoint_failed") {
    Tell(kind, absl::StrFormat("No checkpoint of version %d: %s.", IntegerAt(event, "round"),
                               TextAt(event, "why")));
  } else if (kind == "checkpoint_damaged") {
    Tell(kind, absl::StrFormat("A checkpoint cannot be used: %s.", TextAt(event, "reason")), true);
  } else if (kind == "awaited") {
    Tell(kind, absl::StrFormat("All wait for %s: %s.", TextAt(event, "node"), TextAt(event, "why")),
         true);
  } else if (kind == "stage_lost" && event.contains("then")) {
    Tell(kind,
         absl::StrFormat("A stage has nobody left (%s): %s.", TextAt(event, "why"),
                         TextAt(event, "then")),
         true);
  } else if (kind == "stage_remade") {
    Tell(kind,
         absl::StrFormat("A lost stage was made again from the means of its neighbours, as of step "
                         "%d: what it had learnt itself is gone.",
                         step),
         true);
  } else if (kind == "stage_not_remade") {
    Tell(kind,
         absl::StrFormat("A lost stage could not be made from its neighbours: %s.",
                         TextAt(event, "why")),
         true);
  } else if (kind == "stage_lost") {
    Tell(kind,
         absl::StrFormat("A stage has nobody left (%s): the run goes back to checkpoint %d, of "
                         "step %d.",
                         TextAt(event, "why"), IntegerAt(event, "generation"), step),
         true);
  } else if (kind == "rewind") {
    Tell(kind,
         absl::StrFormat("The run begins with checkpoint %d, at step %d; the credit of %d "
                         "tokens was taken back.",
                         IntegerAt(event, "generation"), step, IntegerAt(event, "rewound_tokens")));
    steps_.Rewind(step);
    std::erase_if(report_.validation, [&](const auto& point) { return point.first > step; });
  } else {
    return false;
  }
  return true;
}

}  // namespace skerry
