// Every rule of tools/tidy, with the smallest file that breaks it and the smallest that does not.
#include "tools/tidy/rules.h"

#include <catch2/catch.hpp>

namespace skerry::tidy {
namespace {

// Findings of one rule over a file given as text; "line: message" each.
std::vector<std::string> Find(const std::string& rule, const std::string& path,
                              const std::string& text) {
  std::vector<std::string> found;
  for (const Finding& finding : CheckSource(ParseSource(path, text))) {
    if (finding.rule == rule)
      found.push_back(std::to_string(finding.line) + ": " + finding.message);
  }
  return found;
}

bool Breaks(const std::string& rule, const std::string& path, const std::string& text) {
  return !Find(rule, path, text).empty();
}

std::string Including(const std::string& header) {
  return "#include \"" + header + "\"\n";
}

std::string Lines(int count, const std::string& line = "  Step();") {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("Tidy: includes go down", "[tidy]") {
  CHECK_FALSE(Breaks("floors", "model/a.cc", Including("kernels/backend.h")));
  CHECK_FALSE(Breaks("floors", "localsgd/a.cc", Including("compression/codec.h")));
  CHECK_FALSE(Breaks("floors", "sim/a.cc", Including("coordinator/coordinator.h")));
  CHECK_FALSE(Breaks("floors", "wire/courier.cc", Including("wire/message/message.h")));
  CHECK_FALSE(Breaks("floors", "pipeline/plan/a.cc", Including("routing/topology.h")));
  CHECK_FALSE(Breaks("floors", "wire/seal.cc", Including("wire/courier.h")));
}

TEST_CASE("Tidy: an include that goes up or sideways is found with its line", "[tidy]") {
  CHECK(Find("floors", "common/a.h", "// A.\n" + Including("model/adamw.h")) ==
        std::vector<std::string>{"2: common/ may not include model/adamw.h: that is up"});
  CHECK(Find("floors", "model/a.cc", Including("routing/topology.h")) ==
        std::vector<std::string>{"1: model/ may not include routing/topology.h: that is sideways"});
  CHECK(Breaks("floors", "kernels/a.cc", Including("wire/message/message.h")));
  CHECK(Breaks("floors", "routing/a.cc", Including("pipeline/plan/planner.h")));
  CHECK(Breaks("floors", "node/a.cc", Including("coordinator/journal.h")));
  CHECK(Breaks("floors", "wire/message/a.h", Including("wire/seal.h")));
  CHECK(Breaks("floors", "coordinator/a.cc", Including("sim/simulation.h")));
}

TEST_CASE("Tidy: only programs reach the sockets", "[tidy]") {
  const std::string sockets = Including("wire/event_loop.h");
  CHECK(Breaks("floors", "coordinator/admission.cc", sockets));
  CHECK(Breaks("floors", "localsgd/replica.cc", sockets));
  CHECK_FALSE(Breaks("floors", "coordinator/main.cc", sockets));
  CHECK_FALSE(Breaks("floors", "node/join_program.cc", sockets));
  CHECK_FALSE(Breaks("floors", "sim/emulator.cc", sockets));
  CHECK_FALSE(Breaks("floors", "tests/wire/a_test.cc", sockets));
}

TEST_CASE("Tidy: third-party libraries stay behind their fences", "[tidy]") {
  struct Case {
    const char* library;
    const char* home;
  };
  const Case fence =
      GENERATE(Case{"zmq.hpp", "wire/a.cc"}, Case{"capnp/message.h", "wire/a.cc"},
               Case{"sodium.h", "common/digest.cc"}, Case{"sodium.h", "wire/a.cc"},
               Case{"toml++/toml.h", "wire/config.cc"}, Case{"dnnl.hpp", "kernels/cpu/gemm.cc"},
               Case{"cublasLt.h", "kernels/cuda/gemm.cc"},
               Case{"sqlite3.h", "coordinator/journal_sqlite.cc"},
               Case{"CLI/CLI.hpp", "coordinator/main.cc"},
               Case{"catch2/catch.hpp", "tests/model/a_test.cc"});
  INFO(fence.library);

  CHECK_FALSE(Breaks("fences", fence.home, Including(fence.library)));
  CHECK(Breaks("fences", "routing/a.cc", Including(fence.library)));
}

TEST_CASE("Tidy: tests share the rights of the folder they mirror", "[tidy]") {
  CHECK_FALSE(Breaks("fences", "tests/wire/a_test.cc", Including("zmq.hpp")));
  CHECK(Breaks("fences", "tests/model/a_test.cc", Including("zmq.hpp")));
}

TEST_CASE("Tidy: logic has no clock, thread or chance of its own", "[tidy]") {
  const std::string line =
      GENERATE("auto t = std::chrono::steady_clock::now();\n", "std::mutex mutex;\n",
               "std::thread worker;\n", "usleep(5);\n", "std::random_device chance;\n");
  INFO(line);

  CHECK(Breaks("hosts", "coordinator/admission.cc", line));
  CHECK(Breaks("hosts", "sim/simulation.cc", line));
  CHECK(Breaks("hosts", "wire/courier.cc", line));
  CHECK_FALSE(Breaks("hosts", "wire/event_loop.cc", line));
  CHECK_FALSE(Breaks("hosts", "node/main.cc", line));
  CHECK_FALSE(Breaks("hosts", "kernels/cpu/team.cc", line));
}

TEST_CASE("Tidy: words in comments and strings are not code", "[tidy]") {
  CHECK_FALSE(Breaks("hosts", "model/a.cc", "// a std::mutex would do\n"));
  CHECK_FALSE(Breaks("hosts", "model/a.cc", "/* std::mutex\n std::mutex */ int i;\n"));
  CHECK_FALSE(Breaks("hosts", "model/a.cc", "const char* s = \"\\\"std::mutex\";\n"));
  CHECK_FALSE(Breaks("hosts", "model/a.cc", "const char* s = R\"(\nstd::mutex\n)\";\n"));
  CHECK(Breaks("hosts", "model/a.cc", "int n = 1'000; std::mutex m; int k = 1'000;\n"));
}

TEST_CASE("Tidy: what differs with the place or time of a build is found", "[tidy]") {
  CHECK(Breaks("builds", "common/a.cc", "#define PLACE Say(_\137FILE__)\n"));
  CHECK(Breaks("builds", "tests/wire/a_test.cc", "Say(_\137TIME__);\n"));
  CHECK_FALSE(Breaks("builds", "common/a.cc", "Say(_\137FILE_NAME__);\n"));
}

TEST_CASE("Tidy: a test that sleeps or reads a clock is found", "[tidy]") {
  CHECK(Breaks("tests", "tests/wire/a_test.cc", "std::this_thread::sleep_for(1s);\n"));
  CHECK(Breaks("tests", "tests/wire/a_test.cc", "std::chrono::system_clock::now();\n"));
  CHECK_FALSE(Breaks("tests", "tests/wire/a_test.cc", "simulation.RunFor(Duration::Millis(5));\n"));
}

TEST_CASE("Tidy: nobody throws", "[tidy]") {
  CHECK(Breaks("errors", "wire/a.cc", "throw 1;\n"));
  CHECK_FALSE(Breaks("errors", "wire/a.cc", "int throws = 0;\n"));
}

TEST_CASE("Tidy: files, lines and functions have limits", "[tidy]") {
  CHECK_FALSE(Breaks("sizes", "model/a.cc", Lines(400, "int x;")));
  CHECK(Breaks("sizes", "model/a.cc", Lines(401, "int x;")));

  CHECK_FALSE(Breaks("sizes", "model/a.cc", "// " + std::string(97, 'x') + "\n"));
  CHECK(Breaks("sizes", "model/a.cc", "// " + std::string(98, 'x') + "\n"));
  std::string hundred_wide = "// ";
  for (int i = 0; i < 97; ++i) hundred_wide += "θ";
  CHECK_FALSE(Breaks("sizes", "model/a.cc", hundred_wide + "\n"));
}

TEST_CASE("Tidy: a long function is found wherever it hides", "[tidy]") {
  const std::string head = GENERATE("void Run() {\n", "template <class T>\nvoid Run() {\n",
                                    "class A {\n public:\n  void Run() {\n",
                                    "A::A(int a) : a_{a} {\n", "namespace x {\nvoid Run() {\n");
  INFO(head);

  CHECK_FALSE(Breaks("sizes", "model/a.cc", head + Lines(56) + "}\n};\n"));
  CHECK(Breaks("sizes", "model/a.cc", head + Lines(60) + "}\n};\n"));
}

TEST_CASE("Tidy: long classes and tables are not functions", "[tidy]") {
  CHECK_FALSE(Breaks("sizes", "model/a.h", "// A.\nclass A {\n" + Lines(80, "  int x;") + "};\n"));
  CHECK_FALSE(Breaks("sizes", "model/a.cc", "int k[] = {\n" + Lines(80, "  1,") + "};\n"));
}

TEST_CASE("Tidy: a header says what it is and is included once", "[tidy]") {
  CHECK_FALSE(Breaks("header", "model/a.h", "// An idea.\n#pragma once\n"));
  CHECK(Breaks("header", "model/a.h", "#pragma once\n"));
  CHECK(Breaks("header", "model/a.h", "// An idea.\n"));
}

TEST_CASE("Tidy: a test's name is one name to CTest", "[tidy]") {
  CHECK(Breaks("builds", "tests/model/a_test.cc", "TEST_CASE(\"one\073 two\") {}\n"));
  CHECK_FALSE(Breaks("builds", "tests/model/a_test.cc", "TEST_CASE(\"one, two\") {}\n"));
}

TEST_CASE("Tidy: leftovers are found in any text", "[tidy]") {
  const std::string note = GENERATE("\124ODO: later", "fix \130XX", "status \106IXME",
                                    "this is N\157t Implemented", "see /h\157me/me/notes.txt");
  INFO(note);

  CHECK(Breaks("leftovers", "docs/A.md", note + "\n"));
  CHECK(Breaks("leftovers", "model/a.cc", "// " + note + "\n"));
}

TEST_CASE("Tidy: a merge that was left half-way is found", "[tidy]") {
  const std::string marker = GENERATE("\074<<<<<< HEAD", "\075======", "\076>>>>>> theirs");

  CHECK(Breaks("leftovers", "model/a.cc", marker + "\n"));
}

TEST_CASE("Tidy: ordinary prose is no leftover", "[tidy]") {
  CHECK_FALSE(Breaks("leftovers", "docs/A.md", "a net/w\157rk/of/nodes, a METHODOLOGY\n"));
  CHECK_FALSE(Breaks("leftovers", "docs/A.md", "===========\n"));
}

TEST_CASE("Tidy: a class is defined in one header only", "[tidy]") {
  const std::string header =
      "// A.\nnamespace skerry {\nclass Writer {\n};\nclass Other;  // what it is\n}\n";
  ClassNames names;
  Findings findings;
  names.Check(ParseSource("coordinator/a.h", header), findings);
  names.Check(ParseSource("coordinator/c.h", "namespace skerry {\nclass Other final {\n"),
              findings);
  names.Check(ParseSource("sim/b.h", "namespace skerry::sim {\nstruct Writer {\n};\n"), findings);
  names.Check(ParseSource("tests/b.h", header), findings);
  names.Check(ParseSource("node/b.h", "namespace skerry {\nclass Writer;\n"), findings);
  CHECK(findings.empty());
  names.Check(ParseSource("node/b.h", header), findings);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].line == 3);
  CHECK(findings[0].rule == "names");
  CHECK(findings[0].message.starts_with("Writer is a class of coordinator/a.h too"));
}

}  // namespace skerry::tidy
