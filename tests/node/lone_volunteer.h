// A directory for a node that has a ticket for nobody: it asks, and goes on asking.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/child_process.h"

namespace skerry::testing {

class LoneVolunteer {
 public:
  LoneVolunteer() {
    std::string name =
        (std::filesystem::temp_directory_path() / "skerry-volunteer-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    bin_ = std::filesystem::canonical("/proc/self/exe").parent_path().string();
    std::ofstream(directory_ / "text") << std::string(5000, 'a');
    const std::string coordinator = bin_ + "/skerry-coordinator",
                      run = (directory_ / "run").string();
    const auto made =
        RunAndCapture({coordinator, "init", run, "--data", (directory_ / "text").string()});
    const auto ticket =
        made.ok() ? RunAndCapture({coordinator, "ticket", run, "--advertise", "tcp://127.0.0.1:9"})
                  : made;
    if (!ticket.ok()) std::abort();
    ticket_ = ticket->substr(0, ticket->find('\n'));
  }
  LoneVolunteer(const LoneVolunteer&) = delete;
  LoneVolunteer& operator=(const LoneVolunteer&) = delete;
  ~LoneVolunteer() { std::filesystem::remove_all(directory_); }

  // The program, its subcommand and its home.
  CommandLine Node(const std::string& command) const {
    return {bin_ + "/skerry-node", command, "--home", home().string()};
  }
  CommandLine Join() const {
    CommandLine join = Node("join");
    join.insert(join.end(),
                {ticket_, "--device", "cpu", "--threads", "1", "--listen", "tcp://127.0.0.1:*"});
    return join;
  }

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path home() const { return directory_ / "home"; }
  std::string Text(const std::filesystem::path& file) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / file).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path directory_;
  std::string bin_, ticket_;
};

}  // namespace skerry::testing
