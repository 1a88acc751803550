#include "sim/scenario.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "sim/network_reader.h"
#include "sim/network_reader_units.h"
#include "sim/scenario_nodes.h"
#include "wire/config.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr double kHorizonSDefault = 3600;
constexpr double kHorizonSMax = 1e8;

// A path in the file, relative to the file's directory.
std::string Beside(const std::string& directory, const std::string& file) {
  return (fs::path(directory) / file).lexically_normal().string();
}

class ScenarioReader {
 public:
  ScenarioReader(TomlDocument& document, const std::string& file)
      : document_(document),
        file_(file),
        directory_(fs::absolute(file).parent_path().string()),
        network_(document, directory_) {}

  absl::StatusOr<Scenario> Read() {
    ReadHead();
    const absl::Status run = ReadRun();
    network_.ReadRegionsAndPaths();
    network_.ReadClassesAndSites();
    ScenarioNodesReader nodes(document_, network_, directory_);
    nodes.Read(scenario_);
    network_.ReadTraces(scenario_.horizon);
    scenario_.faults = ReadFaults(document_, network_, scenario_.horizon);
    ReadCheckers();
    ReadExpectations();
    CheckTogether();
    SKERRY_RETURN_IF_ERROR(document_.Finish());
    SKERRY_RETURN_IF_ERROR(run);
    if (inline_run_) SKERRY_RETURN_IF_ERROR(CheckRunConfig(document_, file_, scenario_.run));
    scenario_.network = std::move(network_.network());
    return std::move(scenario_);
  }

 private:
  void ReadHead() {
    TomlTable& root = document_.Root();
    scenario_.file = fs::absolute(file_).lexically_normal().string();
    scenario_.name = root.Text("name").value_or("");
    if (scenario_.name.empty()) root.Fail("name", "a scenario needs a name");
    scenario_.about = root.Text("about").value_or("");
    if (const auto text = root.Text("text")) scenario_.text_file = Beside(directory_, *text);
    scenario_.horizon =
        DurationOfSeconds(root.Number("horizon_s", 1, kHorizonSMax).value_or(kHorizonSDefault));
  }

  // A status is what is wrong inside another file.
  absl::Status ReadRun() {
    inline_run_ = document_.HasSection("run");
    if (inline_run_) {
      scenario_.run = ReadRunConfig(document_);
      return absl::OkStatus();
    }
    TomlTable& root = document_.Root();
    const auto file = root.Text("run");
    if (!file) {
      root.Fail("run", "the run is missing: want run = \"run.toml\" or a section [run]");
      return absl::OkStatus();
    }
    auto run = LoadRunConfig(Beside(directory_, *file));
    if (!run.ok() && absl::IsNotFound(run.status())) {
      root.Fail("run", ErrorText(run.status()));
      return absl::OkStatus();
    }
    SKERRY_RETURN_IF_ERROR(run.status());
    scenario_.run = *std::move(run);
    return absl::OkStatus();
  }

  void ReadCheckers() {
    TomlTable& section = document_.Section("check");
    const auto names = section.Texts("checkers", kCheckerNames.size());
    std::set<Checker> wanted;
    for (size_t i = 0; i < kCheckerNames.size(); ++i) {
      if (!names) wanted.insert(static_cast<Checker>(i));
    }
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      const auto* it = std::find(kCheckerNames.begin(), kCheckerNames.end(), name);
      if (it == kCheckerNames.end()) {
        std::string all;
        for (const char* known : kCheckerNames)
          all += (all.empty() ? "'" : ", '") + std::string(known) + "'";
        section.Fail("checkers", "there is no checker '" + name + "', there are " + all);
        return;
      }
      wanted.insert(static_cast<Checker>(it - kCheckerNames.begin()));
    }
    scenario_.checkers.assign(wanted.begin(), wanted.end());
  }

  void ReadExpectations() {
    TomlTable& section = document_.Section("expect");
    expect_ = &section;
    Expectations& expect = scenario_.expect;
    expect.step_s_min = section.Number("step_s_min", 0, 1e9);
    expect.step_s_max = section.Number("step_s_max", 1e-6, 1e9);
    expect.hidden_fraction_min = section.Number("hidden_fraction_min", 0, 1);
    expect.loss_ratio_max = section.Number("loss_ratio_max", 0.1, 1e3);
    expect.tokens_per_s_min = section.Number("tokens_per_s_min", 0, 1e15);
    expect.rounds_min = section.Number("rounds_min", 0, 1e9);
    expect.finish_s_max = section.Number("finish_s_max", 1e-3, kHorizonSMax);
  }

  void CheckTogether() {
    const auto count = static_cast<int64_t>(scenario_.nodes.size());
    if (scenario_.run.nodes_min > count && count > 0) {
      document_.Root().Fail("run", absl::StrFormat("the run waits for nodes_min = %d nodes, the "
                                                   "scenario has %d",
                                                   scenario_.run.nodes_min, count));
    }
    const Expectations& expect = scenario_.expect;
    if (expect.step_s_min && expect.step_s_max && *expect.step_s_min > *expect.step_s_max) {
      expect_->Fail("step_s_min", "is above step_s_max");
    }
    if (scenario_.expect.finish_s_max &&
        *scenario_.expect.finish_s_max > scenario_.horizon.seconds()) {
      expect_->Fail("finish_s_max", absl::StrFormat("is after the scenario's horizon_s of %g",
                                                    scenario_.horizon.seconds()));
    }
  }

  TomlDocument& document_;
  std::string file_;
  std::string directory_;
  NetworkReader network_;
  Scenario scenario_;
  TomlTable* expect_ = nullptr;
  bool inline_run_ = false;
};

}  // namespace

const std::string& Scenario::RegionOf(int32_t node) const {
  SKERRY_CHECK(node >= 0 && static_cast<size_t>(node) <= nodes.size());
  const auto site = static_cast<size_t>(network.site_of_node[static_cast<size_t>(node)]);
  return network.regions[static_cast<size_t>(network.sites[site].region)];
}

absl::StatusOr<Scenario> ParseScenario(const std::string& text, const std::string& file) {
  SKERRY_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, file));
  return ScenarioReader(document, file).Read();
}

absl::StatusOr<Scenario> LoadScenario(const std::string& path) {
  const std::string file =
      fs::is_directory(path) ? (fs::path(path) / "scenario.toml").string() : path;
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
  return ParseScenario(text, file);
}

absl::StatusOr<std::vector<ChurnEvent>> ChurnOf(const Scenario& scenario, uint64_t seed) {
  std::vector<ChurnEvent> all;
  for (const ChurnGroup& group : scenario.churn) {
    SKERRY_ASSIGN_OR_RETURN(const std::vector<ChurnEvent> events,
                            MakeChurn(group.spec, group.nodes, scenario.horizon, seed));
    all.insert(all.end(), events.begin(), events.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const ChurnEvent& a, const ChurnEvent& b) {
    return std::tie(a.at, a.node) < std::tie(b.at, b.node);
  });
  return all;
}

}  // namespace skerry
