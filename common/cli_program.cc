#include "common/cli_program.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>

#include "common/error_pages.h"
#include "common/status.h"

namespace skerry {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> LongOptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Levenshtein's distance, with the swap of two neighbours as one slip.
size_t Slips(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// The first word that the tree does not know, and what it may have been. "" when all is known.
std::string Suggestion(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    const bool is_option = word.starts_with("--") && word.size() > 2;
    const std::vector<std::string> known = is_option ? LongOptionsOf(*at) : NamesOf(*at);
    if (!is_option && known.empty()) continue;
    if (std::find(known.begin(), known.end(), word) != known.end()) {
      if (!is_option) at = at->get_subcommand(word);
      continue;
    }
    if (!is_option && word.starts_with("-")) continue;
    std::string text =
        absl::StrFormat("there is no %s '%s'", is_option ? "option" : "command", word);
    const std::string nearest = NearestWord(word, known);
    if (!nearest.empty()) text += absl::StrFormat("; did you mean '%s'?", nearest);
    std::string path = app.get_name();
    if (at != &app) path += " " + at->get_name();
    return text + absl::StrFormat("\n  %s --help lists them", path);
  }
  return "";
}

void AddExamples(CLI::App& app, const std::string& program, const std::string& path,
                 const std::vector<CliExample>& examples) {
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string name = path.empty() ? command->get_name() : path + " " + command->get_name();
    std::string footer;
    for (const CliExample& example : examples) {
      if (example.command != name) continue;
      footer += footer.empty() ? "Examples:\n" : "";
      footer += "  " + program + " " + example.line + "\n      " + example.what + "\n";
    }
    CLI::App* own = app.get_subcommand(command->get_name());
    if (!footer.empty()) own->footer(footer + "\n" + own->get_footer());
    AddExamples(*own, program, name, examples);
  }
}

// CLI11 takes "-1" for the highest number without a sign, as strtoull does, and what is beyond it.
std::string NoWholeNumber(const std::string& text) {
  errno = 0;
  static_cast<void>(std::strtoull(text.c_str(), nullptr, 0));
  if (text.starts_with("-")) return absl::StrFormat("Value %s is below 0", text);
  if (errno != ERANGE) return "";  // whether it is a number at all is CLI11's to say
  return absl::StrFormat("Value %s is above %d", text, std::numeric_limits<uint64_t>::max());
}

void CheckWholeNumbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_type_name().starts_with("UINT"))
      option->check(CLI::Validator(NoWholeNumber, ""));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    CheckWholeNumbers(*command);
}

// `help`, `help COMMAND`, `help CODE`.
int Help(const CLI::App& app, const std::vector<std::string>& words, bool pages) {
  if (pages) {
    std::cout << PagesMarkdown();
    return 0;
  }
  if (words.empty()) {
    std::cout << app.help();
    return 0;
  }
  if (const ErrorPage* page = FindErrorPage(words.front())) {
    std::cout << PageText(*page);
    return 0;
  }
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const auto names = NamesOf(*at);
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      std::vector<std::string> known = names;
      for (const ErrorPage& page : ErrorPages()) known.push_back(page.code);
      const std::string nearest = NearestWord(word, known);
      std::fprintf(stderr, "%s: there is no command and no code '%s'%s\n", app.get_name().c_str(),
                   word.c_str(),
                   nearest.empty() ? "" : ("; did you mean '" + nearest + "'?").c_str());
      return 1;
    }
    at = at->get_subcommand(word);
  }
  std::cout << at->help(app.get_name());
  return 0;
}

}  // namespace

std::string NearestWord(const std::string& word, const std::vector<std::string>& words) {
  std::string nearest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const bool begins = word.size() >= 2 && candidate.starts_with(word);
    const size_t slips = begins ? 1 : Slips(word, candidate);
    if (slips >= least) continue;
    least = slips;
    nearest = candidate;
  }
  return nearest;
}

int EndedWith(const char* program, const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string text = ErrorText(status);
  std::fprintf(stderr, "%s: %s\n", program, text.c_str());
  const std::string code = CodeIn(text);
  if (FindErrorPage(code) != nullptr) {
    std::fprintf(stderr, "  why, and what to do: %s help %s\n", program, code.c_str());
  }
  return 1;
}

int RunCommandLine(CLI::App& app, int argc, char** argv, const std::vector<CliExample>& examples,
                   const int* exit_code) {
  int own_code = -1;
  auto words = std::make_shared<std::vector<std::string>>();
  auto pages = std::make_shared<bool>(false);
  auto* help =
      app.add_subcommand("help", "help CODE: what an error means, and what to do about it");
  help->add_option("words", *words, "an error's code, as SK-ticket-expired, or a command");
  help->add_flag("--pages", *pages, "all of them, as docs/ERRORS.md")->group("");
  help->callback([&app, &own_code, words, pages] { own_code = Help(app, *words, *pages); });
  auto shell = std::make_shared<std::string>("bash");
  auto* completions = app.add_subcommand("completions", "for a shell, to be sourced")->group("");
  completions->add_option("shell", *shell)->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completions->callback([&app, &own_code, shell] {
    std::cout << CompletionsFor(app, *shell);
    own_code = 0;
  });
  auto* manual = app.add_subcommand("manual", "the manual page, as roff")->group("");
  manual->callback([&app, &own_code, &examples] {
    std::cout << ManualFor(app, examples);
    own_code = 0;
  });
  AddExamples(app, app.get_name(), "", examples);
  CheckWholeNumbers(app);
  ShowPlainly(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_word = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                         error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
    const std::string suggestion = is_word ? Suggestion(app, argc, argv) : "";
    if (suggestion.empty()) return app.exit(error);
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), suggestion.c_str());
    return error.get_exit_code();
  }
  const int code = own_code >= 0 ? own_code : *exit_code;
  // What is still kept back goes now: of a disk that is full a part of the output would pass for
  // all. What serves for days and writes line by line keeps nothing back; who closed it wants none.
  if (std::fflush(stdout) == 0 || errno == EBADF || code != 0) return code;
  std::fprintf(stderr, "%s: the output cannot be written: %s [SK-disk-write]\n",
               app.get_name().c_str(), std::strerror(errno));
  return 1;
}

}  // namespace skerry
