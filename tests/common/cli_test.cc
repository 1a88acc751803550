// Every error's code has its page, and what all command lines have in common.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "common/cli_numbers_program.h"
#include "common/cli_program.h"
#include "common/error_pages.h"
#include "common/share_line_program.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

std::string TextOf(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Codes in brackets, as messages carry them, in everything that is a program's.
std::set<std::string> CodesInSources() {
  const std::regex code(R"(\[(SK-[a-z-]+)\])");
  std::set<std::string> codes;
  for (const char* folder : {"common", "coordinator", "node", "wire", "model", "sim", "kernels"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(SKERRY_SOURCE_DIR) / folder)) {
      const fs::path& file = entry.path();
      if (file.extension() != ".cc" && file.extension() != ".h") continue;
      if (file.filename() == "error_pages.h" || file.filename() == "error_pages.cc") continue;
      const std::string text = TextOf(file);
      for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it)
        codes.insert((*it)[1]);
    }
  }
  return codes;
}

}  // namespace

TEST_CASE("Every code that a message carries has a page, and every page is of one", "[common]") {
  const std::set<std::string> used = CodesInSources();
  CHECK(used.size() > 30);
  std::string last;
  for (const ErrorPage& page : ErrorPages()) {
    INFO(page.code);
    CHECK(used.contains(page.code));
    CHECK(last < page.code);
    CHECK(std::string(page.title).size() > 5);
    CHECK(std::string(page.cause).size() > 20);
    CHECK(std::string(page.action).size() > 10);
    last = page.code;
  }
  for (const std::string& code : used) {
    INFO(code);
    CHECK(FindErrorPage(code) != nullptr);
  }
}

TEST_CASE("docs/ERRORS.md is what the table says: skerry-coordinator help --pages writes it",
          "[common]") {
  CHECK(TextOf(fs::path(SKERRY_SOURCE_DIR) / "docs" / "ERRORS.md") == PagesMarkdown());
}

TEST_CASE("A code is found however it is written", "[common]") {
  CHECK(FindErrorPage("ticket-expired") == FindErrorPage("[SK-ticket-expired]"));
  CHECK(FindErrorPage("SK-TICKET-EXPIRED") != nullptr);
  CHECK(FindErrorPage("") == nullptr);
  CHECK(CodeIn("the ticket expired [SK-ticket-expired] [SK-refused]") == "SK-ticket-expired");
  CHECK(CodeIn("a list [1, 2]") == "");
  CHECK(CodeIn("[SK-cut") == "");
}

TEST_CASE("A mistyped word is guessed when one is near, and only then", "[common]") {
  const std::vector<std::string> words = {"join", "limit", "doctor", "status", "--home"};
  CHECK(NearestWord("jion", words) == "join");
  CHECK(NearestWord("docter", words) == "doctor");
  CHECK(NearestWord("stat", words) == "status");
  CHECK(NearestWord("--hme", words) == "--home");
  CHECK(NearestWord("xylophone", words) == "");
  CHECK(NearestWord("a", words) == "");
}

TEST_CASE("What takes more than two seconds says how far it has come", "[common]") {
  CHECK(ShareText("reading", 0.5, 1.9).empty());
  CHECK(ShareText("reading", 0, 5) == "reading   0 %");
  CHECK(ShareText("reading", 0.25, 4) == "reading  25 %, 12 s to go");
  CHECK(ShareText("reading", 0.5, 90) == "reading  50 %, 1 min 30 s to go");
  CHECK(ShareText("reading", 0.01, 100) == "reading   1 %, 2 h 45 min to go");
  CHECK(ShareText("reading", 1, 4) == "reading 100 %");
  CHECK(ShareText("reading", 1.5, 4) == "reading 100 %");  // it has grown meanwhile
}

namespace {

// What one of the programs prints.
std::string Said(const std::string& command) {
  const fs::path bin = fs::canonical("/proc/self/exe").parent_path();
  const std::string shell = (bin / command).string() + " 2>/dev/null";
  std::string text;
  FILE* pipe = popen(shell.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char piece[4096];
  for (size_t got = 0; (got = fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, got);
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("Every command shows an example and the exit codes, every option says what it is for",
          "[common]") {
  int commands = 0, options = 0;
  for (const std::string program : {"skerry-coordinator", "skerry-node", "skerry-sim"}) {
    std::smatch paths;
    const std::string bash = Said(program + " completions bash");
    REQUIRE(std::regex_search(bash, paths, std::regex(R"(in (/.*)\) path=)")));
    std::istringstream all(paths[1]);
    for (std::string path; std::getline(all, path, '|'); ++commands) {
      std::replace(path.begin(), path.end(), '/', ' ');
      INFO(program << path);
      const std::string help = Said(program + path + " --help");
      CHECK(help.find("Examples:\n  " + program + " ") != std::string::npos);
      CHECK(help.find("exit codes: 0 ") != std::string::npos);
    }
    std::istringstream fish(Said(program + " completions fish"));
    for (std::string line; std::getline(fish, line); ++options) {
      INFO(line);
      CHECK_FALSE(line.ends_with("-d ''"));
    }
  }
  CHECK(commands > 50);
  CHECK(options > 150);
}

TEST_CASE("Output that could not be written is a failure", "[common][error]") {
  for (const std::string command :
       {"skerry-sim devices", "skerry-coordinator help SK-run-missing"}) {
    const std::string said = Said(command + " 2>&1 >/dev/full; echo $?");
    CHECK(said.find("the output cannot be written: No space left on device") != std::string::npos);
    CHECK(said.ends_with("\n1\n"));
    CHECK(Said(command + " >/dev/null; echo $?") == "0\n");
  }
}

TEST_CASE("Values of options are shown as people read them", "[common]") {
  const auto shown = [](const std::string& type, const std::string& usual) {
    const CliValues values = ShownValues(type, usual);
    return values.values + ";" + values.usual;
  };
  CHECK(shown("ENUM:value in {auto->0,cpu->1,cuda->2} OR {0,1,2}", "1") == "auto|cpu|cuda;cpu");
  CHECK(shown("on|off:value in {off->0,on->1} OR {0,1}", "") == "off|on;");
  CHECK(shown("TEXT:{text,json}", "text") == "text|json;text");
  CHECK(shown("FLOAT:FLOAT in [0 - 1e+06]", "0") == "0 to 1000000;0");
  CHECK(shown("FLOAT:FLOAT in [0.001 - 16384]", "32") == "0.001 to 16384;32");
  CHECK(shown("INT:NONNEGATIVE", "2e+05") == "INT;200000");
  CHECK(shown("TEXT", "run-1e") == "TEXT;run-1e");
}

TEST_CASE("A number without a sign is refused with one, and beyond the highest",
          "[common][error]") {
  const auto parsed = [](const char* number) {
    CLI::App app{"skerry-toy: a toy", "skerry-toy"};
    uint64_t seed = 1;
    app.add_subcommand("run", "runs")->add_option("--seed", seed, "of chance");
    const char* words[] = {"skerry-toy", "run", "--seed", number};
    const int done = 0;
    const int code = RunCommandLine(app, 4, const_cast<char**>(words), {}, &done);
    return code == 0 ? std::optional(seed) : std::nullopt;
  };
  CHECK(parsed("7") == 7);
  CHECK(parsed("18446744073709551615") == std::numeric_limits<uint64_t>::max());
  CHECK_FALSE(parsed("-1"));
  CHECK_FALSE(parsed("18446744073709551616"));
  CHECK_FALSE(parsed("seven"));
}

TEST_CASE("What is wrong with a command line is said with its command", "[common]") {
  CLI::App app{"skerry-toy: a toy", "skerry-toy"};
  std::string dir;
  double rate = 0;
  int kind = 0, times = 0;
  CLI::App* show = app.add_subcommand("show", "shows it");
  show->add_option("dir", dir, "of the run")->required();
  show->add_option("--rate", rate, "Mbit/s")->check(NumberIn(0, 1e6));
  show->add_option("--times", times, "so often")->check(CLI::NonNegativeNumber);
  show->add_option("--most", times, "at most")->check(CLI::PositiveNumber);
  const std::map<std::string, int> kinds = {{"auto", 0}, {"cpu", 1}};
  show->add_option("--kind", kind, "which")
      ->transform(CLI::CheckedTransformer(kinds).description(""));
  ShowPlainly(app);
  const auto said = [&app](const std::string& words) {
    std::ostringstream out, err;
    try {
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      CHECK(app.exit(error, out, err) >= 100);
    }
    return err.str();
  };
  const std::string more = "\n  skerry-toy show --help says more\n";
  CHECK(said("show") == "skerry-toy show: dir is required" + more);
  CHECK(said("show there --rate 5000000000") ==
        "skerry-toy show: --rate: Value 5000000000 not in range 0 to 1000000" + more);
  CHECK(said("show there --rate nan") ==
        "skerry-toy show: --rate: Value nan not in range 0 to 1000000" + more);
  CHECK(said("show there --rate inf") ==
        "skerry-toy show: --rate: Value inf not in range 0 to 1000000" + more);
  CHECK(said("show there --times -5") == "skerry-toy show: --times: Value -5 is below 0" + more);
  CHECK(said("show there --most 0") == "skerry-toy show: --most: Value 0 is not above 0" + more);
  CHECK(said("show there --kind gpu") == "skerry-toy show: --kind: want auto|cpu, got gpu" + more);
}

TEST_CASE("Completions and manual are made of the command line's own tree", "[common]") {
  CLI::App app{"skerry-toy: a toy", "skerry-toy"};
  std::string home;
  auto* config = app.add_subcommand("config", "configurations");
  config->add_subcommand("check", "reads one")->add_option("--home", home, "where it's kept");
  app.add_subcommand("secret", "not shown")->group("");
  const std::string bash = CompletionsFor(app, "bash");
  CHECK(bash.find("complete -F _skerry_toy skerry-toy") != std::string::npos);
  CHECK(bash.find("/config/check") != std::string::npos);
  CHECK(bash.find("--home") != std::string::npos);
  CHECK(bash.find("secret") == std::string::npos);
  CHECK(CompletionsFor(app, "zsh").starts_with("autoload"));
  CHECK(CompletionsFor(app, "fish").find("-l home -d 'where it\\'s kept'") != std::string::npos);
  const std::string manual = ManualFor(app, {{"config check", "config check x", "a try"}});
  CHECK(manual.starts_with(".TH SKERRY\\-TOY 1"));
  CHECK(manual.find(".SS config check") != std::string::npos);
  CHECK(manual.find("skerry\\-toy config check x") != std::string::npos);
}
