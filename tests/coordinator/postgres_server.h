// A PostgreSQL server of its own for a test: Debian's binaries, a private directory, a private
// socket, no port. It ends with the test, whatever that dies of.
#pragma once

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "sim/child_process.h"

namespace skerry::testing {

class PostgresServer {
 public:
  PostgresServer() {
    namespace fs = std::filesystem;
    std::error_code none;
    for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
      if (fs::exists(version.path() / "bin/initdb")) bin_ = version.path().string() + "/bin/";
    }
    if (bin_.empty()) FAIL("there is no PostgreSQL server: ./dev deps installs Debian's");
    std::string name = (fs::temp_directory_path() / "skerry-pg-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at_ = name;
    // The server refuses to run as root.
    if (geteuid() == 0) {
      const passwd* user = getpwnam("postgres");
      if (user == nullptr) user = getpwnam("nobody");
      REQUIRE(user != nullptr);
      REQUIRE(chown(at_.c_str(), user->pw_uid, user->pw_gid) == 0);
      as_user_ = {"setpriv",
                  "--reuid",
                  std::to_string(user->pw_uid),
                  "--regid",
                  std::to_string(user->pw_gid),
                  "--clear-groups",
                  "--pdeathsig",
                  "QUIT"};
    }
    const auto made = RunAndCapture(AsUser({bin_ + "initdb", "-D", at_ + "/data", "-A", "trust",
                                            "-U", "skerry", "--no-sync", "--no-locale"}));
    INFO(made.status());
    REQUIRE(made.ok());
    Start();
  }
  ~PostgresServer() {
    if (server_) Stop();
    std::error_code ignored;
    std::filesystem::remove_all(at_, ignored);
  }

  void Start() {
    auto server = ChildProcess::Start(
        AsUser({bin_ + "postgres", "-D", at_ + "/data", "-k", at_, "-c", "listen_addresses=", "-c",
                "fsync=off", "-c", "max_connections=20", "-c", "shared_buffers=2MB"}),
        at_ + "/server.log");
    REQUIRE(server.ok());
    server_ = *std::move(server);
    while (!RunAndCapture({bin_ + "pg_isready", "-q", "-h", at_}).ok())
      REQUIRE(server_->Ended().empty());
  }
  // As a crash of the server: connections break, what was committed stays.
  void Stop() {
    kill(server_->pid(), SIGQUIT);
    server_->Wait();
    server_.reset();
  }

  std::string Url() const { return "postgresql://skerry@/postgres?host=" + at_; }

  // Of a query, one line a row.
  std::string Ask(const std::string& sql) const {
    const auto answer = RunAndCapture({bin_ + "psql", Url(), "-AtqX", "-c", sql});
    REQUIRE(answer.ok());
    return answer->substr(0, answer->find_last_not_of('\n') + 1);
  }

 private:
  CommandLine AsUser(const CommandLine& command) const {
    CommandLine whole = as_user_;
    whole.insert(whole.end(), command.begin(), command.end());
    return whole;
  }

  std::string bin_, at_;
  CommandLine as_user_;
  std::optional<ChildProcess> server_;
};

}  // namespace skerry::testing
