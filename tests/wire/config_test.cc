#include "wire/config.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/coded_error.h"

namespace skerry {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto config = ParseRunConfig(text, "run.toml");
  return config.ok() ? "accepted" : WithoutCode(config.status().message());
}

TEST_CASE("RunConfig: an empty file is the default configuration", "[wire][config]") {
  const auto config = ParseRunConfig("", "run.toml");
  REQUIRE(config.ok());
  CHECK(*config == RunConfig());
}

TEST_CASE("RunConfig: what is written is read", "[wire][config]") {
  const auto config = ParseRunConfig(R"(
[run]
name = "north sea"
seed = 42
steps = 64
[model]
tied_head = true
[inner]
optimizer = "sgd"
learning_rate = 1      # a whole number is a number
[outer]
inner_steps = 8
overlap_steps = 8
codec = "none"
residual = "weights"
[pipeline]
skip_ratio = 0.5
[data]
dir = "english"
)",
                                     "run.toml");
  REQUIRE(config.ok());
  CHECK(config->name == "north sea");
  CHECK(config->seed == 42);
  CHECK(config->model.tied_head);
  CHECK(config->inner.optimizer == InnerOptimizer::kSgd);
  CHECK(config->inner.learning_rate == 1.0f);
  CHECK(config->outer.codec == DeltaCodec::kNone);
  CHECK(config->outer.residual == ResidualPlace::kWeights);
  CHECK(config->pipeline.skip_ratio == 0.5);
  CHECK(config->data_dir == "english");
}

TEST_CASE("RunConfig: mistakes are reported with their line and, where it helps, a suggestion",
          "[wire][config][error]") {
  CHECK(
      absl::EndsWith(ParseRunConfig("steps = 3\n", "run.toml").status().message(), " [SK-config]"));
  CHECK(ErrorOf("[run]\nseed = 1\n\n[pipeline]\nskip_ration = 0.5\n") ==
        "run.toml:5: unknown key 'skip_ration' in [pipeline]; nearest is 'skip_ratio'");
  CHECK(ErrorOf("[pipelin]\nswaps = 1\n") ==
        "run.toml:1: unknown section 'pipelin'; nearest is 'pipeline'");
  CHECK(ErrorOf("steps = 3\n") == "run.toml:1: unknown key 'steps'");
  CHECK(ErrorOf("[modle]\n") == "run.toml:1: unknown section 'modle'; nearest is 'model'");
  // What else is wrong may follow from what is misspelt, and is not the cause.
  CHECK(ErrorOf("[run]\nsteps = 0\nnodes_mni = 3\n") ==
        "run.toml:3: unknown key 'nodes_mni' in [run]; nearest is 'nodes_min'");
  CHECK(ErrorOf("[run]\nsteps = 1.5\n") ==
        "run.toml:2: 'steps' must be a whole number such as 1, not one with a point or an exponent "
        "(1.5)");
  CHECK(ErrorOf("[run]\nsteps = 1e3\n") ==
        "run.toml:2: 'steps' must be a whole number such as 1000, not one with a point or an "
        "exponent (1000)");
  CHECK(ErrorOf("[run]\nname = 3\n") ==
        "run.toml:2: 'name' must be text in quotes, not a whole number");
  CHECK(ErrorOf("[model]\n\ntied_head = \"yes\"\n") ==
        "run.toml:3: 'tied_head' must be true or false, not text");
  CHECK(ErrorOf("[pipeline]\nskip_ratio = 0.6\n") ==
        "run.toml:2: 'skip_ratio' is 0.6, allowed are 0 to 0.5");
  CHECK(ErrorOf("[outer]\ncodec = \"int7\"\n") ==
        "run.toml:2: 'codec' is 'int7', allowed are 'none', 'int8', 'bf16', "
        "'int4', 'sign', 'ternary', 'topk', 'lowrank'");
  CHECK(ErrorOf("run = 4\n") == "run.toml:1: 'run' must be a section [run]");
  CHECK(ErrorOf("[inner]\nlearning_rate = nan\n") ==
        "run.toml:2: 'learning_rate' is nan, allowed are 1e-12 to 1000");
  CHECK(ErrorOf("[run]\nseed = = 3\n").rfind("run.toml:2: ", 0) == 0);
}

TEST_CASE("RunConfig: values that do not fit each other are reported at the line of one of them",
          "[wire][config][error]") {
  CHECK(ErrorOf("[model]\nheads = 5\nhidden = 192\n") ==
        "run.toml:3: [model] hidden: 192 must be a multiple of heads (5)");
  CHECK(ErrorOf("[model]\nheads = 64\nkv_heads = 1\n") ==
        "run.toml:2: [model] heads: hidden / heads is 3, rotary positions need it even");
  CHECK(ErrorOf("[model]\nkv_heads = 4\n") ==
        "run.toml:2: [model] kv_heads: heads (6) must be a multiple of kv_heads (4)");
  CHECK(ErrorOf("[run]\nsteps = 20\n") ==
        "run.toml:2: [run] steps: 20 must be a multiple of [outer] inner_steps (16)");
  CHECK(ErrorOf("[outer]\noverlap_steps = 17\n") ==
        "run.toml:2: [outer] overlap_steps: 17 must be at most inner_steps (16)");
  for (const char* sparse : {"codec = \"topk\"", "codec = \"ternary\"", "tier = \"auto\""}) {
    CHECK(ErrorOf(std::string("[outer]\nrobust = \"trim\"\n") + sparse + "\n")
              .find("run.toml:2: [outer] robust: trim leaves nothing of deltas that are mostly") ==
          0);
  }
  CHECK(ErrorOf("[run]\nheartbeat_s = 6\n") ==
        "run.toml:1: [run] node_silent_s: 10 must be at least twice heartbeat_s (6)");
  CHECK(ErrorOf("[pipeline]\nstages = 9\n") ==
        "run.toml:2: [pipeline] stages: 9 must be at most [model] layers (8)");
  CHECK(ErrorOf("[model]\nladder = 3\n") ==
        "run.toml:2: [model] ladder: layers (8) must be a multiple of ladder (3)");
  CHECK(ErrorOf("[model]\nladder = 16\n") ==
        "run.toml:2: [model] ladder: layers (8) must be a multiple of ladder (16)");
  CHECK(ErrorOf("[model]\nladder = 4\n[pipeline]\nstages = 3\n") ==
        "run.toml:4: [pipeline] stages: 3 must be at most 2: [model] ladder keeps 4 of the 8 "
        "layers together");
  CHECK(ErrorOf("[model]\nladder = 4\n[pipeline]\nstages = 2\n") == "accepted");
}

TEST_CASE("RunConfig: every field survives being written and read", "[wire][config]") {
  RunConfig config;
  config.name = "a \"quoted\" \\ name";
  config.seed = 9'007'199'254'740'993;  // no double
  config.heartbeat_s = 0.1;
  config.model.rope_base = 1.0f / 3.0f + 9999.0f;
  config.inner.learning_rate = 1.0f / 3.0f;
  config.inner.epsilon = 1e-8f;
  config.outer.codec = DeltaCodec::kNone;
  config.pipeline.skip_ratio = 1.0 / 3.0;
  config.model.tied_head = true;
  config.model.qkv_bias = true;
  config.model.rope_scaling = RopeScaling::kLlama3;
  config.model.rope_factor = 8;
  config.model.rope_low_frequency = 1.25f;
  config.model.rope_high_frequency = 5;
  config.model.rope_original_context = 8192;
  config.model.positions = 131072;
  config.model.ladder = 4;

  const auto read = ParseRunConfig(FormatRunConfig(config), "run.toml");

  REQUIRE(read.ok());
  CHECK(*read == config);
}

TEST_CASE("RunConfig: numbers are written as people write them, and read back the same",
          "[wire][config]") {
  RunConfig config;
  const auto line = [&](const std::string& key) {
    const std::string text = FormatRunConfig(config);
    const size_t at = text.find("\n" + key + " = ") + 1;
    return text.substr(at, text.find_first_of(" \n", at + key.size() + 3) - at);
  };
  const std::map<double, std::string> seconds = {
      {4.0, "4.0"},      {10, "10.0"},        {60, "60.0"},   {100, "100.0"},
      {1'250, "1250.0"}, {86'400, "86400.0"}, {12.5, "12.5"}, {1.0 / 3 + 4, "4.333333333333333"}};
  for (const auto& [value, text] : seconds) {
    config.node_silent_s = value;
    CHECK(line("node_silent_s") == "node_silent_s = " + text);
    CHECK(ParseRunConfig(FormatRunConfig(config), "run.toml").value() == config);
  }
  config.model.rope_base = 500'000;
  CHECK(line("rope_base") == "rope_base = 500000.0");
  config.model.rope_base = 9e8f;
  CHECK(line("rope_base") == "rope_base = 900000000.0");
  CHECK(ParseRunConfig(FormatRunConfig(config), "run.toml").value() == config);
  config.model.norm_epsilon = 1e-5f;
  CHECK(line("norm_epsilon") == "norm_epsilon = 1e-05");
}

TEST_CASE("RunConfig: the digest follows the values, not the file", "[wire][config]") {
  const auto a = ParseRunConfig("[run]\nseed = 3\n[outer]\ncodec = \"none\"\n", "a");
  const auto b = ParseRunConfig("[outer]\ncodec = 'none' # plain\n[run]\nseed = 3\n", "b");
  const auto c = ParseRunConfig("[run]\nseed = 4\n[outer]\ncodec = \"none\"\n", "c");
  REQUIRE((a.ok() && b.ok() && c.ok()));
  CHECK(ConfigDigest(*a) == ConfigDigest(*b));
  CHECK(ConfigDigest(*a) != ConfigDigest(*c));
  RunConfig ladder = *a;
  ladder.model.ladder = 2;
  CHECK(ConfigDigest(ladder) != ConfigDigest(*a));
  CHECK(MakeRunId(*a, {1}) == MakeRunId(*b, {1}));
  CHECK(MakeRunId(*a, {1}) != MakeRunId(*a, {2}));
}

TEST_CASE("RunConfig: what is left open of outer rounds must make sense together",
          "[wire][config]") {
  const auto open =
      ParseRunConfig("[outer]\ninner_steps = 0\noverlap_steps = -1\ntier = \"auto\"\n", "run.toml");
  REQUIRE(open.ok());
  CHECK(open->outer.inner_steps == 0);
  CHECK(open->outer.overlap_steps == -1);
  CHECK(open->outer.tier == OuterTier::kAuto);
  CHECK(ParseRunConfig(FormatRunConfig(*open), "run.toml").value() == *open);
  CHECK(ErrorOf("[outer]\noverlap_steps = -1\n") == "accepted");
  // Synchronous rounds of whatever length.
  CHECK(ErrorOf("[outer]\ninner_steps = 0\noverlap_steps = 0\n") == "accepted");
  // Any number of steps has a divisor.
  CHECK(ErrorOf("[run]\nsteps = 101\n[outer]\ninner_steps = 0\noverlap_steps = -1\n") ==
        "accepted");
  CHECK(ErrorOf("[outer]\ninner_steps = 0\noverlap_steps = 2\n").find("needs inner_steps") !=
        std::string::npos);
  CHECK(ErrorOf("[outer]\ninner_steps = 0\n").find("needs inner_steps") != std::string::npos);
}

TEST_CASE("RunConfig: what a mode of outer rounds fixes is filled in, what it cannot is refused",
          "[wire][config]") {
  const auto outer = [](const std::string& lines) {
    const auto config = ParseRunConfig("[outer]\n" + lines, "run.toml");
    REQUIRE(config.ok());
    CHECK(ParseRunConfig(FormatRunConfig(*config), "run.toml").value() == *config);
    return config->outer;
  };
  CHECK(outer("mode = \"synchronous\"\n").overlap_steps == 0);
  CHECK(outer("mode = \"co2\"\n").overlap_steps == 16);
  CHECK(outer("mode = \"co2\"\ninner_steps = 0\n").overlap_steps == -1);
  CHECK(outer("mode = \"data_parallel\"\ninner_steps = 1\n").learning_rate == 1);
  CHECK(outer("mode = \"streaming\"\nfragments = 3\n").overlap_steps == 4);
  CHECK(ErrorOf("[outer]\nmode = \"data_parallel\"\n").find("want 1") != std::string::npos);
  CHECK(ErrorOf("[outer]\nmode = \"co2\"\nreduce = \"sharded\"\n").find("want auto or all") !=
        std::string::npos);
}

TEST_CASE("RunConfig: cohorts have rounds of either kind, and auto stays open", "[wire][config]") {
  for (const OuterReduce reduce : {OuterReduce::kAuto, OuterReduce::kAll, OuterReduce::kSharded}) {
    RunConfig config;
    config.cluster.groups = "measured";
    config.outer.reduce = reduce;
    const auto read = ParseRunConfig(FormatRunConfig(config), "run.toml");
    REQUIRE(read.ok());
    CHECK(read->outer.reduce == reduce);
  }
}

TEST_CASE("RunConfig: a tier says codec, way down and residual", "[wire][config]") {
  const auto outer = [](const std::string& lines) {
    const auto config = ParseRunConfig("[outer]\n" + lines, "run.toml");
    REQUIRE(config.ok());
    CHECK(ParseRunConfig(FormatRunConfig(*config), "run.toml").value() == *config);
    return config->outer;
  };
  const OuterConfig usual = outer("tier = \"default\"\ncodec = \"int4\"\ndown_codec = \"int8\"\n");
  CHECK(usual.codec == DeltaCodec::kTernary);
  CHECK(DownCodecOf(usual) == DeltaCodec::kTernary);
  CHECK(usual.residual == ResidualPlace::kWeights);
  const OuterConfig starved = outer("tier = \"starved\"\n");
  CHECK(starved.codec == DeltaCodec::kLowRank);
  CHECK(starved.budget_bits == 0.15f);
  CHECK(starved.residual == ResidualPlace::kWeights);
  const OuterConfig rich = outer("tier = \"rich\"\nresidual = \"weights\"\n");
  CHECK(rich.codec == DeltaCodec::kInt8);
  CHECK(rich.residual == ResidualPlace::kBuffer);
  CHECK(outer("tier = \"default\"\nmode = \"co2\"\n").residual == ResidualPlace::kBuffer);
  CHECK(ErrorOf("[outer]\ntier = \"starved\"\nbudget = \"bits\"\n").find("table of codecs") !=
        std::string::npos);
  CHECK(ErrorOf("[outer]\ntier = \"default\"\nrobust = \"trim\"\n").find("trim") !=
        std::string::npos);
  CHECK(ErrorOf("[outer]\ntier = \"poor\"\n") != "accepted");
}

TEST_CASE("RunConfig: products are of float32 or bf16, float32 if nothing is said",
          "[wire][config]") {
  CHECK(ErrorOf("[inner]\ncompute = \"bf16\"\nz_loss = 1e-4\n") == "accepted");
  CHECK(ErrorOf("[inner]\ncompute = \"float32\"\n") == "accepted");
  CHECK(ErrorOf("[inner]\ncompute = \"fp8\"\n") != "accepted");
  CHECK(RunConfig().inner.compute == InnerCompute::kFloat32);
}

TEST_CASE("RunConfig: activations have two codecs to choose from", "[wire][config]") {
  CHECK(ErrorOf("[pipeline]\nslow_link_codec = \"bf16\"\n") == "accepted");
  CHECK(ErrorOf("[pipeline]\nslow_link_codec = \"int8\"\n") == "accepted");
  CHECK(ErrorOf("[pipeline]\nrecompute = \"always\"\n") == "accepted");
  CHECK(ErrorOf("[pipeline]\nrecompute = \"sometimes\"\n") != "accepted");
  CHECK(ErrorOf("[pipeline]\noffload = \"always\"\n") == "accepted");
  CHECK(ErrorOf("[inner]\noptimizer = \"muon\"\n[pipeline]\noffload = \"never\"\n") == "accepted");
  for (const char* choice : {"auto", "never", "always"}) {
    CHECK(ErrorOf(std::string("[pipeline]\noffload_activations = \"") + choice + "\"\n") ==
          "accepted");
  }
  const std::string wrong = ErrorOf("[pipeline]\noffload_activations = \"disk\"\n");
  CHECK(wrong.find("offload_activations") != std::string::npos);
  CHECK(wrong.find("always") != std::string::npos);
  CHECK(
      ErrorOf("[inner]\noptimizer = \"muon\"\n[pipeline]\noffload = \"always\"\n").find("adamw") !=
      std::string::npos);
  CHECK(ErrorOf("[pipeline]\nslow_link_codec = \"topk\"\n") != "accepted");
  RunConfig config;
  config.pipeline.slow_link_codec = DeltaCodec::kTernary;
  CHECK_FALSE(ValidateRunConfig(config).ok());
}

}  // namespace
}  // namespace skerry
