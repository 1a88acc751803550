// How --help shows the values of an option, and how a wrong command line is told.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "common/cli_program.h"
#include "common/plain_number.h"
#include "common/status.h"

namespace skerry {
namespace {

// "1e+06" as people write it.
std::string NumberShown(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_long = text.find('e') != std::string::npos && *end == '\0' && value >= 1;
  return is_long ? PlainNumber(value) : text;
}

// The same for the ends of a range in CLI11's "… not in range 0.000000 to 1000000.000000"; one
// without an end, which CLI11 shows as the largest number that there is, in words.
std::string RangeShown(const std::string& text) {
  const std::string range = " not in range ", to = " to ";
  const size_t begin = text.find(range), middle = text.find(to, begin);
  if (begin == std::string::npos || middle == std::string::npos) return text;
  const double first = std::strtod(text.c_str() + begin + range.size(), nullptr);
  const double last = std::strtod(text.c_str() + middle + to.size(), nullptr);
  const std::string value = text.substr(0, begin);
  constexpr double kEndless = 1e300;
  // Of "Value 0" only what must be above 0 is no number for it.
  if (last > kEndless) return value + (value.ends_with(" 0") ? " is not above 0" : " is below 0");
  return value + range + PlainNumber(first) + to + PlainNumber(last);
}

// What stands between two texts; "" where they do not.
std::string Between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(after, begin + before.size());
  return end == std::string::npos ? ""
                                  : text.substr(begin + before.size(), end - begin - before.size());
}

// The words of CLI11's "auto->0,cpu->1": its names, and which of them `number` is.
std::string Names(const std::string& list, const std::string& number, std::string* named) {
  std::string names;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    const size_t arrow = word.find("->");
    const std::string name = word.substr(0, arrow);
    if (arrow != std::string::npos && word.substr(arrow + 2) == number) *named = name;
    names += (names.empty() ? "" : "|") + name;
  }
  return names;
}

// CLI11's "--device: Check gpu value in {auto->0,cpu->1} OR {0,1} FAILED".
std::string WordsShown(const std::string& text) {
  const std::string word = Between(text, "Check ", " value in {");
  const std::string list = Between(text, " value in {", "}");
  if (word.empty() || list.empty()) return text;
  std::string none;
  return text.substr(0, text.find("Check ")) + "want " + Names(list, "", &none) + ", got " + word;
}

class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() != 0) {
      const CliValues shown = ShownValues(option->get_type_name(), option->get_default_str());
      if (!shown.values.empty()) text += " " + shown.values;
      if (!shown.usual.empty()) text += " (default " + shown.usual + ")";
      if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
      if (option->get_required()) text += " (required)";
    }
    if (!option->get_envname().empty()) text += " (or $" + option->get_envname() + ")";
    for (const CLI::Option* other : option->get_needs())
      text += " (with " + other->get_name() + ")";
    for (const CLI::Option* other : option->get_excludes())
      text += " (not with " + other->get_name() + ")";
    return text;
  }
};

void Format(CLI::App& app, const std::shared_ptr<PlainFormatter>& formatter) {
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    Format(*command, formatter);
  }
}

// The command that was given, as far as it was understood.
std::string PathOf(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  return path;
}

}  // namespace

CliValues ShownValues(const std::string& type, const std::string& usual) {
  CliValues shown{type.substr(0, type.find(':')), NumberShown(usual)};
  const std::string named = Between(type, "value in {", "}"), listed = Between(type, ":{", "}");
  const std::string range = Between(type, " in [", "]");
  const size_t dash = range.find(" - ");
  if (!named.empty()) shown.values = Names(named, usual, &shown.usual);
  if (!listed.empty()) shown.values = Names(listed, "", &shown.usual);
  if (dash != std::string::npos) {
    shown.values =
        NumberShown(range.substr(0, dash)) + " to " + NumberShown(range.substr(dash + 3));
  }
  return shown;
}

void ShowPlainly(CLI::App& app) {
  Format(app, std::make_shared<PlainFormatter>());
  app.failure_message([](const CLI::App* program, const CLI::Error& error) {
    const std::string path = PathOf(*program);
    return absl::StrFormat("%s: %s\n  %s --help says more\n", path,
                           WordsShown(RangeShown(error.what())), path);
  });
}

}  // namespace skerry
