#include "coordinator/screen.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/listings.h"
#include "pipeline/plan/memory_model.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

std::string Megabytes(const Json& bytes) {
  return absl::StrFormat("%.1f MB", bytes.get<double>() / 1e6);
}

// "1.17 of 1.20 GiB": the most it has held, and what the memory model says.
std::string Memory(const Json& node) {
  const auto held = node.value("memory_bytes", int64_t{0});
  const auto model = node.value("memory_model_bytes", int64_t{0});
  if (model == 0) return "";
  if (held == 0) return "model " + BytesText(model);
  return absl::StrFormat("%s, model %s", BytesText(held), BytesText(model));
}

std::string NodeLine(const Json& node) {
  const int stage = node.value("stage", -1);
  const std::string waiting = node.value("waiting_for", "");
  const auto screened = node.value("rounds_screened", int64_t{0});
  const std::string wild =
      screened == 0 ? "" : absl::StrFormat("deltas of %d rounds screened  ", screened);
  return absl::StrFormat(
      "  %-9s %-10s %-8s %-20s step %-5d round %-4d %-27s %s", node.value("id", ""),
      node.value("region", "").substr(0, 10),
      stage < 0 ? "-" : absl::StrFormat("%d.%d", stage, node.value("replica", 0)),
      node.value("phase", ""), node.value("step", 0), node.value("base_version", 0), Memory(node),
      (node.value("reachable", true) ? "" : "not reachable  ") + wild +
          (waiting.empty() ? "" : "waits for the " + waiting));
}

std::string Preparing(const Json& status) {
  if (const std::string note = status.value("note", ""); !note.empty()) {
    return "no plan yet: " + note;
  }
  const size_t nodes = status["nodes"].size();
  if (status["phase"] == "waiting for nodes") {
    return absl::StrFormat("%s: %d of %d", status["phase"].get<std::string>(), nodes,
                           status.value("nodes_min", 0));
  }
  if (status["phase"] != "measuring links") return status["phase"];
  return absl::StrFormat("%s: %d of %d", status["phase"].get<std::string>(),
                         status.value("links", 0), nodes * (nodes - 1));
}

// "  loss 1.4095 (held-out 1.6392 at step 192)"
std::string LossText(const Json& status) {
  if (status.value("step", 0) == 0) return "-";
  const std::string loss = absl::StrFormat("%.4f", status.value("loss", 0.0));
  const Json held_out = status.value("held_out", Json::object());
  if (!held_out.contains("loss")) return loss;
  return absl::StrFormat("%s (held-out %.4f at step %d)", loss, held_out.value("loss", 0.0),
                         held_out.value("step", 0));
}

}  // namespace

std::string StatusLine(const Json& status) {
  if (status.value("version", 0) == 0) return Preparing(status);
  const auto alive = std::count_if(status["nodes"].begin(), status["nodes"].end(),
                                   [](const Json& node) { return node.value("alive", false); });
  std::string phase = status["phase"].get<std::string>();
  if (const int left_s = status.value("held_out_left_s", 0); left_s > 0) {
    phase +=
        absl::StrFormat(", its loss on held-out text is being read (%d s more at most)", left_s);
  }
  return absl::StrFormat(
      "%s  step %d/%d  loss %s  %.0f tokens/s  up %s  down %s  rounds %d  nodes %d", phase,
      status.value("step", 0), status.value("steps", 0), LossText(status),
      status.value("tokens_per_s", 0.0), Megabytes(status["bytes_sent"]),
      Megabytes(status["bytes_received"]), status.value("rounds", 0), alive);
}

std::string WaitingText(const Json& status) {
  int count = 0, here = 0;
  std::string example;
  for (const Json& node : status["nodes"]) {
    if (!node.value("alive", false) || node.value("stage", -1) < 0) continue;
    ++here;
    const std::string what = node.value("waiting_for", "");
    if (!what.empty() && ++count == 1) example = what;
  }
  if (count == 0) return "";
  return absl::StrFormat("%d of %d wait, one for the %s", count, here, example);
}

std::string StatusScreen(const Json& status) {
  std::string text =
      absl::StrFormat("%s (run %s), %.0f s\n%s\n", status.value("name", ""),
                      status.value("run", ""), status.value("elapsed_s", 0.0), StatusLine(status));
  const Json outer = status.value("outer", Json());
  if (outer.is_object() && status.value("version", 0) > 0) {
    const std::string mode = outer.value("mode", "overlap");
    text += absl::StrFormat("outer rounds: %sδ %d of τ %d, %s",
                            mode == "overlap" ? "" : mode + ", ", outer.value("overlap_steps", 0),
                            outer.value("inner_steps", 0), outer.value("codec", ""));
    const Json traffic = status.value("round_traffic", Json::object());
    if (const double up = traffic.value("bits_up", 0.0); up > 0) {
      text += absl::StrFormat("; %.2f bits up and %.2f down a parameter; %.1f %% hidden", up,
                              traffic.value("bits_down", 0.0),
                              100 * traffic.value("hidden_fraction", 0.0));
    }
    text += "\n";
  }
  for (const std::string& line : TableLines(status.value("tables", Json::array()))) {
    text += line + "\n";
  }
  if (const auto relayed = status.value("relayed_pairs", int64_t{0}); relayed > 0)
    text += absl::StrFormat("%d pair%s of nodes cannot be dialled and go%s through relays\n",
                            relayed, relayed == 1 ? "" : "s", relayed == 1 ? "es" : "");
  const Json checkpoint = status.value("checkpoint", Json::object());
  if (checkpoint.contains("generation")) {
    text += absl::StrFormat("checkpoints: %d kept, the newest of step %d, %.1f MB\n",
                            checkpoint.value("kept", 0), checkpoint.value("step", int64_t{0}),
                            1e-6 * checkpoint.value("bytes", 0.0));
  } else if (checkpoint.value("every_rounds", 0) > 0) {
    text += "checkpoints: none yet\n";
  }
  if (checkpoint.value("rewinds", 0) > 0) {
    text += absl::StrFormat("begun with a checkpoint: %d times\n", checkpoint.value("rewinds", 0));
  }
  for (const Json& stage : status.value("left_out", Json::array())) {
    text += absl::StrFormat(
        "stage %d is lost and left out: nobody has what it learnt, the model cannot be collected\n",
        stage.get<int>());
  }
  text += "  node      region     stage    phase                                    held\n";
  for (const Json& node : status["nodes"]) text += NodeLine(node) + "\n";
  return text;
}

std::vector<std::string> FrameOf(const std::string& screen, const TerminalSize& terminal) {
  std::vector<std::string> lines;
  for (const auto line : absl::StrSplit(absl::StripSuffix(screen, "\n"), '\n')) {
    for (std::string& part : WrappedTo(std::string(line), terminal.columns)) {
      lines.push_back(std::move(part));
    }
  }
  // The last row is the cursor's.
  const auto rows = static_cast<size_t>(std::max(terminal.rows - 1, 2));
  if (lines.size() <= rows) return lines;
  const size_t more = lines.size() - rows + 1;
  lines.resize(rows - 1);
  lines.push_back(absl::StrFormat("  and %d more lines: skerry-coordinator nodes", more));
  return lines;
}

void LiveScreen::Show(const Json& status) {
  const auto terminal = TerminalAt(STDOUT_FILENO);
  if (!terminal) {
    // A line a second says little that one in five does not.
    const std::string waiting = WaitingText(status);
    const std::string line = StatusLine(status) + (waiting.empty() ? "" : "  " + waiting);
    const double at_s = status.value("elapsed_s", 0.0);
    const Json phase = {status.value("phase", ""), status.value("note", "").empty(),
                        status.contains("held_out_left_s")};
    const bool same_phase = phase.dump() == last_phase_;
    if (line == last_ || (same_phase && at_s >= last_at_s_ && at_s - last_at_s_ < 5)) return;
    last_ = line;
    last_phase_ = phase.dump();
    last_at_s_ = at_s;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    return;
  }
  const auto lines = FrameOf(StatusScreen(status), *terminal);
  if (lines_drawn_ > 0) std::printf("\x1b[%dA\x1b[J", lines_drawn_);
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  lines_drawn_ = static_cast<int>(lines.size());
}

}  // namespace skerry
