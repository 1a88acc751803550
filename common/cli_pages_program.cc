// Shell completions and manual pages of a command line.
#include <algorithm>
#include <functional>

#include "common/cli_program.h"
#include "common/status.h"

namespace skerry {
namespace {

using Visit = std::function<void(const CLI::App& command, const std::string& path)>;

// The tree, parents first; `path` is "" for the program, "/config/check" for a command.
void ForEach(const CLI::App& app, const std::string& path, const Visit& visit) {
  visit(app, path);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) ForEach(*command, path + "/" + command->get_name(), visit);
  }
}

std::vector<const CLI::Option*> ShownOptions(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(option);
  }
  return options;
}

std::string WordsOf(const CLI::App& app) {
  std::string words;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) words += command->get_name() + " ";
  }
  for (const CLI::Option* option : ShownOptions(app)) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  return words;
}

std::string Bash(const CLI::App& app) {
  std::string function = "_" + app.get_name();
  std::replace(function.begin(), function.end(), '-', '_');
  std::string paths, words;
  ForEach(app, "", [&](const CLI::App& command, const std::string& path) {
    if (!path.empty()) paths += (paths.empty() ? "" : "|") + path;
    words += "    \"" + path + "\") words=\"" + WordsOf(command) + "\" ;;\n";
  });
  return function +
         "() {\n"
         "  local path=\"\" words=\"\" word current=${COMP_WORDS[COMP_CWORD]}\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$path/$word\" in " +
         paths +
         ") path=\"$path/$word\" ;; esac\n"
         "  done\n"
         "  case \"$path\" in\n" +
         words +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "}\ncomplete -F " +
         function + " " + app.get_name() + "\n";
}

std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("\\'") : std::string(1, c);
  return out + "'";
}

std::string Fish(const CLI::App& app) {
  std::string out;
  ForEach(app, "", [&](const CLI::App& command, const std::string& path) {
    const std::string when = path.empty()
                                 ? "-n __fish_use_subcommand"
                                 : "-n '__fish_seen_subcommand_from " + command.get_name() + "'";
    for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_group().empty()) continue;
      out += absl::StrFormat("complete -c %s %s -f -a %s -d %s\n", app.get_name(), when,
                             sub->get_name(), Quoted(sub->get_description()));
    }
    for (const CLI::Option* option : ShownOptions(command)) {
      for (const std::string& name : option->get_lnames()) {
        out += absl::StrFormat("complete -c %s %s -l %s -d %s\n", app.get_name(), when, name,
                               Quoted(option->get_description()));
      }
    }
  });
  return out;
}

// Text as roff takes it: a dot or quote at a line's beginning would be a request.
std::string Roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

std::string ManualOptions(const CLI::App& command) {
  std::string out;
  for (const CLI::Option* option : ShownOptions(command)) {
    std::string name;
    for (const std::string& l : option->get_lnames()) name += (name.empty() ? "--" : ", --") + l;
    if (option->get_positional()) name = option->get_name();
    out += ".TP\n.B " + Roff(name) + "\n" + Roff(option->get_description()) + "\n";
  }
  return out;
}

}  // namespace

std::string CompletionsFor(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return Fish(app);
  return (shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "") + Bash(app);
}

std::string ManualFor(const CLI::App& app, const std::vector<CliExample>& examples) {
  std::string upper = app.get_name();
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string about = app.get_description();
  std::string out = ".TH " + Roff(upper) + " 1 \"\" \"Skerry\" \"Skerry\"\n.SH NAME\n" +
                    Roff(app.get_name()) + " \\- " +
                    Roff(about.substr(std::min(about.size(), about.find(": ") + 2))) +
                    "\n.SH SYNOPSIS\n.B " + Roff(app.get_name()) +
                    "\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  ForEach(app, "", [&](const CLI::App& command, const std::string& path) {
    if (path.empty()) return;
    std::string words = path.substr(1);
    std::replace(words.begin(), words.end(), '/', ' ');
    out += ".SS " + Roff(words) + "\n" + Roff(command.get_description()) + "\n" +
           ManualOptions(command);
  });
  out += ".SH EXAMPLES\n";
  for (const CliExample& example : examples) {
    out +=
        ".TP\n.B " + Roff(app.get_name() + " " + example.line) + "\n" + Roff(example.what) + "\n";
  }
  return out + ".SH \"EXIT STATUS\"\n" + Roff(app.get_footer()) +
         "\n.SH \"ERRORS\"\nA message ends with its code in brackets;\n.B " +
         Roff(app.get_name() + " help CODE") + "\nsays why it comes and what to do.\n";
}

}  // namespace skerry
