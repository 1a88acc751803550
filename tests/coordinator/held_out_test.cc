// The loss on held-out text while a run goes on, with skerry-node itself.
#include "coordinator/held_out_program.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "coordinator/import_program.h"
#include "model/export.h"
#include "model/parameter_layout.h"
#include "model/prepare_text.h"
#include "tests/model/temporary_directory.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

// A run's directory with the checkpoint of a model that finds all bytes alike, and with data.
class HeldOutRun {
 public:
  HeldOutRun() {
    TransformerConfig model;
    model.hidden = 16;
    model.layers = 2;
    model.heads = model.kv_heads = 2;
    model.ffn = 24;
    model.context = 32;
    const std::vector<float> zeros(static_cast<size_t>(ParameterLayout::ForModel(model).size()));
    REQUIRE(WriteHuggingFace(home.Join("hf"), model, zeros).ok());
    opened.directory.path = home.Join("run");
    opened.config = *ConfigForModel(home.Join("hf"));
    REQUIRE(ImportModel(home.Join("hf"), path(), opened.config).ok());
    Prepare(0.5);
  }
  void Prepare(double share) {
    WriteFile(home.Join("text"), std::string(4000, 'a'));
    PrepareTextOptions options;
    options.validation_share = share;
    fs::remove_all(path() + "/data");
    REQUIRE(PrepareText(home.Join("text"), path() + "/data", options).ok());
  }
  const std::string& path() const { return opened.directory.path; }

  TemporaryDirectory home;
  OpenedRun opened;
};

std::string Node() {
  return fs::canonical("/proc/self/exe").parent_path().string() + "/skerry-node";
}

}  // namespace

TEST_CASE("HeldOut: each checkpoint is evaluated once, and serve hears of it once",
          "[coordinator]") {
  const HeldOutRun run;
  HeldOutReader reader(run.path());
  CHECK_FALSE(reader.Look());
  CHECK(reader.newest().empty());

  const absl::Status done = EvaluateNewest(run.path(), Node(), 3);

  INFO(done.message());
  REQUIRE(done.ok());
  REQUIRE(reader.Look());
  CHECK(reader.newest().at("loss").get<double>() == Approx(std::log(256.0)));
  CHECK(reader.newest().at("generation") == 1);
  CHECK(reader.newest().at("step") == 0);
  CHECK(reader.newest().at("tokens") == 3 * 32);
  CHECK_FALSE(fs::exists(run.path() + "/held-out"));
  CHECK(EvaluateNewest(run.path(), "/no/such/program", 3).ok());  // there is nothing to do
  CHECK_FALSE(reader.Look());
  CHECK_FALSE(HeldOutReader(run.path()).Look());  // of another life: it was told
}

TEST_CASE("HeldOut: a failure says why, and leaves nothing behind", "[coordinator]") {
  HeldOutRun run;
  CHECK_FALSE(EvaluateNewest(run.path(), "/no/such/program", 3).ok());
  run.Prepare(0);

  const absl::Status none = EvaluateNewest(run.path(), Node(), 3);

  CHECK(std::string(none.message()).find("step 0: skerry-node: ") == 0);
  CHECK(std::string(none.message()).find("validation windows") != std::string::npos);
  CHECK_FALSE(fs::exists(run.path() + "/held-out.json"));
  CHECK_FALSE(fs::exists(run.path() + "/held-out"));
}

TEST_CASE("HeldOut: the finished model is read in its turn, unless that is not waited for",
          "[coordinator]") {
  const HeldOutRun run;
  fs::copy(run.home.Join("hf"), run.path() + "/model");
  const FinalEvaluation final = {run.path(), Node(), 3, 64, 32};

  CHECK(absl::IsCancelled(EvaluateFinal(final, [] { return false; })));

  CHECK_FALSE(fs::exists(run.path() + "/held-out"));
  CHECK_FALSE(fs::exists(run.path() + "/held-out.json"));
  HeldOutReader reader(run.path());
  REQUIRE(EvaluateFinal(final, [] { return true; }).ok());
  REQUIRE(reader.Look());
  CHECK(reader.newest().at("final") == true);
  CHECK(reader.newest().at("step") == 64);
  CHECK(reader.newest().at("loss").get<double>() == Approx(std::log(256.0)));
  CHECK(reader.newest().at("tokens") == 3 * 32);
}

TEST_CASE("HeldOut: only a run whose model was not read yet waits for that at its end",
          "[coordinator]") {
  HeldOutRun run;
  run.opened.config.checkpoint.every_rounds = 0;
  const auto patience = [&](std::optional<int64_t> windows) {
    return HeldOutWatcher(run.opened, windows).FinalPatience();
  };
  CHECK(patience(std::nullopt) == kFinalPatience);
  CHECK(patience(7) == kFinalPatienceAskedFor);
  CHECK(patience(0).count() == 0);
  WriteFile(run.path() + "/held-out.json", R"({"step": 64, "loss": 1.5, "generation": 2})");
  CHECK(patience(std::nullopt) == kFinalPatience);
  WriteFile(run.path() + "/held-out.json", R"({"step": 64, "loss": 1.5, "final": true})");
  CHECK(patience(std::nullopt).count() == 0);
}

TEST_CASE("HeldOut: what is in the way is said before the run begins", "[coordinator]") {
  HeldOutRun run;
  const auto why = [&](bool asked_for = false) {
    return WhyNoHeldOut(run.opened, asked_for, Node());
  };
  CHECK(why() == "");
  CHECK(WhyNoHeldOut(run.opened, true, "").find("skerry-node") == 0);
  SECTION("a large model is left alone unless somebody asks") {
    run.opened.config.model.hidden = 8192;
    CHECK(why().find("the model has ") == 0);
    CHECK(why(true) == "");
  }
  SECTION("nothing is held out") {
    run.Prepare(0);
    CHECK(why(true) == "fewer than 33 tokens of the data are held out");
  }
}
