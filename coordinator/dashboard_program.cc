#include "coordinator/dashboard_program.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "common/status.h"
#include "coordinator/dashboard_access.h"
#include "coordinator/dashboard_picture_program.h"
#include "coordinator/dashboard_server_program.h"
#include "coordinator/log_program.h"
#include "model/file_io.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int kPortsTried = 20;
constexpr auto kTryAgain = std::chrono::milliseconds(200);
constexpr auto kLetOthersLook = std::chrono::milliseconds(2);  // between pieces of a long history

std::string ReadWhole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The one in the file, or a new one that only this user can read.
absl::StatusOr<std::string> TokenOf(const fs::path& file) {
  constexpr size_t kDigits = 32;
  std::string token = ReadWhole(file).substr(0, kDigits);
  if (token.size() == kDigits) return token;
  token.clear();
  std::random_device chance;
  while (token.size() < kDigits) token += absl::StrFormat("%08x", chance());
  const mode_t before = umask(0077);
  const absl::Status written = WriteFileAtomically(file.string(), token + "\n");
  umask(before);
  SKERRY_RETURN_IF_ERROR(written);
  return token;
}

absl::StatusOr<fs::path> PlaceOf(const std::string& directory) {
  for (const fs::path& place : {fs::path(directory) / "run", fs::path(directory)}) {
    if (fs::exists(place / "run.toml")) return place;
  }
  return NotFound(
      "%s: no run is there (run.toml is missing); want the directory of a run [SK-run-missing]",
      directory);
}

absl::Status BindTo(const DashboardOptions& options, const std::string& host, int* port,
                    DashboardServer* server) {
  const int last = options.any_port ? *port + kPortsTried : *port;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(options.patience_s);
  bool is_told = false;
  while (!server->Bind(host, port)) {
    if (*port < last) {
      ++*port;
    } else if (std::chrono::steady_clock::now() < until) {
      if (!std::exchange(is_told, true))
        LogLine(absl::StrFormat("dashboard: %s is taken; tried again for %d s", options.address,
                                options.patience_s));
      std::this_thread::sleep_for(kTryAgain);
    } else {
      return Unavailable(
          "dashboard: %s is taken or not this machine's; choose another: --dashboard "
          "HOST:PORT, or none [SK-dashboard-address]",
          options.address);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> ServeDashboard(const DashboardOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const fs::path place, PlaceOf(options.directory));
  SKERRY_ASSIGN_OR_RETURN(auto address, ParseWebAddress(options.address));
  auto& [host, port] = address;
  const bool viewers_need = !IsLoopback(host);
  auto token = TokenOf(place / "dashboard.token");
  // A directory that may only be read can be looked at; nobody can do anything there.
  if (!token.ok() && viewers_need) return token.status();
  DashboardPicture picture(place);
  DashboardServer server(&picture,
                         {fs::absolute(place).string(), token.value_or(""), viewers_need});
  SKERRY_RETURN_IF_ERROR(BindTo(options, host, &port, &server));
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const std::string url = absl::StrFormat("http://%s:%d/", shown, port);
  WriteFileAtomically((place / "dashboard").string(), url + "\n").IgnoreError();
  LogLine("dashboard: " + url +
          (!viewers_need ? "" : "?token=…, which stands in dashboard.token beside the run"));
  // Who looks meanwhile sees as much as was read.
  std::thread reader([&picture] {
    while (picture.ReadOn()) std::this_thread::sleep_for(kLetOthersLook);
  });
  const bool served = server.Listen();
  reader.join();
  return served ? 0 : 1;
}

DashboardChild::DashboardChild(const DashboardOptions& options) {
  std::fflush(nullptr);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const pid_t parent = getpid();
  if (fork() != 0) {
    close(ends[0]);
    awaited_ = ends[1];
    return;
  }
  close(ends[1]);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  std::signal(SIGINT, SIG_IGN);  // the parent's to answer; this ends with it
  std::signal(SIGTERM, SIG_DFL);
  char word = 0;
  if (read(ends[0], &word, 1) != 1) _exit(0);
  close(ends[0]);
  const auto served = ServeDashboard(options);
  _exit(served.ok() ? *served : LogEnd(served.status()));
}

DashboardChild::~DashboardChild() {
  if (awaited_ >= 0) close(awaited_);
}

void DashboardChild::Begin() {
  if (awaited_ < 0) return;
  send(awaited_, "!", 1, MSG_NOSIGNAL);
  close(std::exchange(awaited_, -1));
}

void AddDashboardCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<DashboardOptions>();
  auto* command = app.add_subcommand("dashboard", "show a run in a browser, also one that is over");
  command->add_option("dir", options->directory, "of the run")->required();
  auto* bind =
      command
          ->add_option("--bind", options->address,
                       "host:port, beyond this machine it wants a token; default: this or one "
                       "of the next ports")
          ->capture_default_str();
  command->callback([options, bind, exit_code] {
    options->any_port = bind->count() == 0;
    const auto served = ServeDashboard(*options);
    if (!served.ok()) {
      std::fprintf(stderr, "skerry-coordinator: %s\n", ErrorText(served.status()).c_str());
    }
    *exit_code = served.ok() ? *served : 1;
  });
}

}  // namespace skerry
