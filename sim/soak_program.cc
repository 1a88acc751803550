#include "sim/soak_program.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "common/cli_numbers_program.h"
#include "common/median.h"
#include "common/status.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

// One line of the verdict: what was worst, against its goal.
struct Figure {
  std::string name;
  size_t count = 0;
  double worst = 0;
  double goal = 0;
  std::string unit;
  bool Missed() const { return worst > goal; }
  void Add(double value) { worst = count++ == 0 ? value : std::max(worst, value); }
};

// The median of what each pair says; the two of a pair ran one after the other.
Figure CheckpointCost(const SoakResult& result) {
  std::vector<double> ratios;
  for (size_t i = 0; i + 1 < result.legs.size(); i += 2) {
    const SoakLeg &a = result.legs[i], &b = result.legs[i + 1];
    const SoakLeg& with = a.checkpoints ? a : b;
    const SoakLeg& without = a.checkpoints ? b : a;
    if (without.training_s > 0) ratios.push_back(with.training_s / without.training_s);
  }
  return {"training / without checkpoints", ratios.size(), Median(ratios), kSoakCheckpointGoal, ""};
}

std::vector<Figure> FiguresOf(const SoakResult& result) {
  Figure gap{"gap in progress", 0, 0, kSoakGapGoalS, "s"};
  Figure back{"coordinator back to progress", 0, 0, kSoakBackGoalS, "s"};
  Figure leave{"Ctrl-C to end of process", 0, 0, kSoakLeaveGoalS, "s"};
  Figure loss{"loss / undisturbed", 0, 0, kSoakLossGoal, ""};
  Figure complaints{"complaints", 0, 0, 0, ""};
  for (const SoakLeg& leg : result.legs) {
    complaints.count += leg.complaints.size();
    complaints.worst = static_cast<double>(complaints.count);
    if (leg.number == 0) continue;
    for (const SoakEventResult& event : leg.events) {
      if (event.gap_s) gap.Add(*event.gap_s);
      if (event.back_s) back.Add(*event.back_s);
    }
    for (const double took : leg.leave_s) leave.Add(took);
    const double undisturbed = result.legs.front().loss;
    if (undisturbed > 0 && leg.loss > 0) loss.Add(leg.loss / undisturbed);
  }
  const bool compares = std::any_of(result.legs.begin(), result.legs.end(),
                                    [](const SoakLeg& leg) { return leg.checkpoints; });
  if (compares) return {CheckpointCost(result), complaints};
  return {gap, back, leave, loss, complaints};
}

struct OfKind {
  int count = 0, measured = 0;
  double sum = 0, worst = 0;
};

void PrintTables(const SoakResult& result, const std::vector<Figure>& figures) {
  std::map<std::string, OfKind> kinds;
  for (const SoakLeg& leg : result.legs) {
    for (const SoakEventResult& event : leg.events) {
      OfKind& kind = kinds[NameOf(event.event.fault)];
      ++kind.count;
      if (!event.gap_s) continue;
      ++kind.measured;
      kind.sum += *event.gap_s;
      kind.worst = std::max(kind.worst, *event.gap_s);
    }
  }
  std::printf("\n%-26s %6s %10s %10s\n", "event", "times", "mean gap", "worst gap");
  for (const auto& [name, kind] : kinds) {
    std::printf("%-26s %6d %8.2f s %8.2f s\n", name.c_str(), kind.count,
                kind.measured > 0 ? kind.sum / kind.measured : 0, kind.worst);
  }
  std::printf("\n%-30s %6s %10s %10s\n", "figure", "of", "worst", "goal");
  for (const Figure& figure : figures) {
    std::printf("%-30s %6zu %10.3f %10.3g %s\n", figure.name.c_str(), figure.count, figure.worst,
                figure.goal, figure.Missed() ? "MISSED" : "");
  }
  for (const SoakLeg& leg : result.legs) {
    for (const std::string& complaint : leg.complaints) {
      std::printf("leg %d: %s\n", leg.number, complaint.c_str());
    }
  }
}

Json ToJson(const SoakResult& result, const std::vector<Figure>& figures) {
  Json legs = Json::array();
  for (const SoakLeg& leg : result.legs) {
    Json events = Json::array();
    for (const SoakEventResult& event : leg.events) {
      events.push_back({{"event", NameOf(event.event.fault)},
                        {"node", event.event.node},
                        {"other", event.event.other},
                        {"lasts_s", event.event.lasts.seconds()},
                        {"at_s", event.at_s},
                        {"gap_s", event.gap_s ? Json(*event.gap_s) : Json()},
                        {"back_s", event.back_s ? Json(*event.back_s) : Json()}});
    }
    legs.push_back({{"leg", leg.number},
                    {"seconds", leg.seconds},
                    {"training_s", leg.training_s},
                    {"checkpoints", leg.checkpoints},
                    {"steps", leg.steps},
                    {"rounds", leg.rounds},
                    {"digests", leg.digests},
                    {"loss", leg.loss},
                    {"leave_s", leg.leave_s},
                    {"complaints", leg.complaints},
                    {"events", events}});
  }
  Json goals = Json::array();
  for (const Figure& figure : figures) {
    goals.push_back({{"figure", figure.name},
                     {"of", figure.count},
                     {"worst", figure.worst},
                     {"goal", figure.goal},
                     {"missed", figure.Missed()}});
  }
  return {{"seed", result.seed},
          {"network", result.network},
          {"not_drawn", result.not_drawn},
          {"legs", legs},
          {"goals", goals}};
}

}  // namespace

CLI::App* AddSoakCommand(CLI::App& app, SoakProgramOptions& options) {
  SoakOptions& soak = options.soak;
  soak.out_dir = "soak-out";
  CLI::App* command =
      app.add_subcommand("soak", "real processes under random faults, until the time is up");
  command->add_option("--minutes", soak.minutes, "of disturbed runs")
      ->capture_default_str()
      ->check(NumberIn(0, 1e6));
  command->add_option("--seed", soak.seed, "of the faults")->capture_default_str();
  command->add_option("--out", soak.out_dir, "where everything goes")->capture_default_str();
  command->add_option("--text", soak.text_file, "to train on: plain, .gz or .dz")
      ->capture_default_str();
  command->add_option("--steps", soak.steps, "inner steps of a leg; 0: about two minutes of them")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--legs", soak.legs, "so many disturbed legs, instead of --minutes")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--checkpoints", soak.checkpoint_pairs,
                   "instead: so many pairs of undisturbed legs, with checkpoints and without")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "--programs", soak.other_programs_dir,
          "a directory with skerry-node and skerry-coordinator of another version: half of "
          "the processes are of it, and who is started again changes")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--json", options.json, "for programs");
  const std::map<std::string, EmulateShaper> shapers = {{"inprocess", EmulateShaper::kInProcess},
                                                        {"packets", EmulateShaper::kPackets},
                                                        {"auto", EmulateShaper::kAuto}};
  command->add_option("--shaper", soak.shaper, "as of emulate; links are cut with packets only")
      ->transform(CLI::CheckedTransformer(shapers).description(""))
      ->type_name("inprocess|packets|auto")
      ->default_str("auto");
  return command;
}

absl::Status RunSoak(const SoakProgramOptions& options, const volatile bool& interrupted) {
  SoakOptions soak = options.soak;
  soak.quiet = options.json;
  SKERRY_ASSIGN_OR_RETURN(const SoakResult result, Soak(soak, interrupted));
  const std::vector<Figure> figures = FiguresOf(result);
  if (options.json) {
    std::printf(
        "%s\n",
        ToJson(result, figures).dump(1, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    PrintTables(result, figures);
  }
  std::string missed;
  for (const Figure& figure : figures) {
    if (figure.Missed()) missed += (missed.empty() ? "" : ", ") + figure.name;
  }
  return missed.empty() ? absl::OkStatus() : Internal("soak: missed: %s", missed);
}

}  // namespace skerry
