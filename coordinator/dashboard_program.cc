#include "coordinator/dashboard_program.h"

#include <httplib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "common/status.h"
#include "coordinator/dashboard_access.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/event_tail.h"
#include "model/file_io.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kFresh =
    std::chrono::milliseconds(500);  // a view younger than this is not made anew
constexpr auto kBeat = std::chrono::milliseconds(250);
constexpr int kThreads = 24;
constexpr int kViewersMax = 16;  // each keeps a thread
constexpr int64_t kEventsMax = 1000;
constexpr int kPortsTried = 20;

std::string ReadWhole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What is to be seen of a run's directory, made at most twice a second however many look.
// Thread-safe.
class Picture {
 public:
  explicit Picture(fs::path directory)
      : directory_(std::move(directory)), tail_(directory_ / "events.jsonl") {}

  struct Piece {
    std::string id, html;
    int64_t changed = 0;  // in which version
  };
  struct View {
    std::vector<Piece> pieces;
    int64_t version = 0;
    double now_s = 0;
    std::string page;
  };

  std::shared_ptr<const View> Now() {
    const std::lock_guard lock(mutex_);
    Refresh();
    return view_;
  }
  std::string Status() {
    const std::lock_guard lock(mutex_);
    Refresh();
    return status_text_;
  }
  std::string Metrics() {
    const std::lock_guard lock(mutex_);
    Refresh();
    return MetricsText(status_, status_age_s_);
  }
  std::string Report() {
    const std::lock_guard lock(mutex_);
    Refresh();
    return ReportJson(tail_.Report());
  }
  // The pieces as they were `seconds` into the run.
  absl::StatusOr<std::string> At(double seconds) {
    const std::lock_guard lock(mutex_);
    Refresh();
    SKERRY_ASSIGN_OR_RETURN(const RunReport report, tail_.ReportUntil(seconds));
    Json pieces = Json::object();
    for (const auto& [id, html] : DashboardView(nullptr, 0, report)) pieces[id] = html;
    return Dump({{"now_s", tail_.now_s()}, {"pieces", std::move(pieces)}});
  }
  absl::StatusOr<std::string> Events(int64_t first, int64_t count) {
    const std::lock_guard lock(mutex_);
    Refresh();
    SKERRY_ASSIGN_OR_RETURN(const auto lines, tail_.Lines(first, std::min(count, kEventsMax)));
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

 private:
  void ReadStatus() {
    struct stat file {};
    const std::string path = (directory_ / "status.json").string();
    if (stat(path.c_str(), &file) != 0) return;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    status_age_s_ = static_cast<double>(now.tv_sec - file.st_mtim.tv_sec) +
                    1e-9 * static_cast<double>(now.tv_nsec - file.st_mtim.tv_nsec);
    std::string text = ReadWhole(path);
    Json parsed = Json::parse(text, nullptr, false);
    if (!parsed.is_object()) return;
    status_text_ = std::move(text);
    status_ = std::move(parsed);
  }

  void Refresh() {
    const auto now = Clock::now();
    if (view_ && now - made_ < kFresh) return;
    made_ = now;
    ReadStatus();
    tail_.Read().status().IgnoreError();  // not there yet: the next time
    const RunReport report = tail_.Report();
    const DashboardPieces pieces = DashboardView(status_, status_age_s_, report);
    auto view = std::make_shared<View>();
    view->version = view_ ? view_->version + 1 : 1;
    view->now_s = tail_.now_s();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool same = view_ && view_->pieces[i].html == pieces[i].second;
      view->pieces.push_back(
          {pieces[i].first, pieces[i].second, same ? view_->pieces[i].changed : view->version});
    }
    view->page = DashboardPage(pieces, report);
    view_ = std::move(view);
  }

  std::mutex mutex_;
  fs::path directory_;
  EventTail tail_;
  std::string status_text_ = "{}\n";
  Json status_;
  double status_age_s_ = 0;
  Clock::time_point made_;
  std::shared_ptr<const View> view_;
};

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

class WebServer {
 public:
  WebServer(Picture* picture, std::string token) : picture_(*picture), token_(std::move(token)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(1024);
    server_.set_keep_alive_max_count(100);
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_default_headers(
        {{"Content-Security-Policy",
          "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
          "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Cache-Control", "no-store"}});
    server_.set_pre_routing_handler([this](const auto& request, auto& response) {
      if (IsAllowed(request, response)) return httplib::Server::HandlerResponse::Unhandled;
      return httplib::Server::HandlerResponse::Handled;
    });
    AddRoutes();
  }

  // False: it is taken. Port 0 becomes one that is free.
  bool Bind(const std::string& host, int* port) {
    if (*port > 0) return server_.bind_to_port(host, *port);
    *port = server_.bind_to_any_port(host);
    return *port > 0;
  }
  bool Listen() { return server_.listen_after_bind(); }

 private:
  // Without a token only names of this machine are served: a page from elsewhere whose name is made
  // to lead here (DNS rebinding) says its own.
  bool IsAllowed(const httplib::Request& request, httplib::Response& response) const {
    if (token_.empty()) {
      const std::string name = request.get_header_value("Host");
      const auto parsed =
          ParseWebAddress(name.find(':') == std::string::npos ? name + ":80" : name);
      if (parsed.ok() && IsLoopback(parsed->first)) return true;
      response.status = 403;
      response.set_content("this dashboard answers to 127.0.0.1 and localhost only\n",
                           "text/plain");
      return false;
    }
    const std::string header = request.get_header_value("Authorization");
    const std::string cookie = request.get_header_value("Cookie");
    if (SameToken(header, "Bearer " + token_) || SameToken(cookie, "skerry=" + token_)) return true;
    if (SameToken(request.get_param_value("token"), token_)) {
      response.set_header("Set-Cookie", "skerry=" + token_ + "; HttpOnly; SameSite=Strict; Path=/");
      return true;
    }
    response.status = 401;
    response.set_content("want ?token=… once; the token stands in DIR/dashboard.token\n",
                         "text/plain");
    return false;
  }

  void AddRoutes() {
    using Request = httplib::Request;
    using Response = httplib::Response;
    server_.Get("/", [this](const Request&, Response& response) {
      response.set_content(picture_.Now()->page, "text/html; charset=utf-8");
    });
    server_.Get("/dashboard.js", [](const Request&, Response& response) {
      response.set_content(DashboardScript(), "text/javascript");
    });
    server_.Get("/live", [this](const Request&, Response& response) { Live(response); });
    server_.Get("/at", [this](const Request& request, Response& response) {
      const std::string text = request.get_param_value("s");
      char* end = nullptr;
      const double seconds = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != 0) return Fail(response, "want at?s=SECONDS");
      Answer(response, picture_.At(seconds), "application/json");
    });
    server_.Get("/api/status", [this](const Request&, Response& response) {
      response.set_content(picture_.Status(), "application/json");
    });
    server_.Get("/api/report", [this](const Request&, Response& response) {
      response.set_content(picture_.Report(), "application/json");
    });
    server_.Get("/api/events", [this](const Request& request, Response& response) {
      const auto number = [&](const char* key, int64_t otherwise) {
        const std::string text = request.get_param_value(key);
        return text.empty() ? otherwise
                            : static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10));
      };
      Answer(response, picture_.Events(number("first", 0), number("count", kEventsMax)),
             "application/x-ndjson");
    });
    server_.Get("/metrics", [this](const Request&, Response& response) {
      response.set_content(picture_.Metrics(), "text/plain; version=0.0.4");
    });
  }

  static void Fail(httplib::Response& response, const std::string& why) {
    response.status = 400;
    response.set_content(why + "\n", "text/plain");
  }
  static void Answer(httplib::Response& response, const absl::StatusOr<std::string>& text,
                     const char* type) {
    if (!text.ok()) return Fail(response, ErrorText(text.status()));
    response.set_content(*text, type);
  }

  // Server-sent events: the pieces that changed since this viewer saw them.
  void Live(httplib::Response& response) {
    if (viewers_.fetch_add(1) >= kViewersMax) {
      --viewers_;
      response.status = 503;
      response.set_content("too many viewers\n", "text/plain");
      return;
    }
    auto seen = std::make_shared<int64_t>(0);
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, seen](size_t, httplib::DataSink& sink) {
          const auto view = picture_.Now();
          Json pieces = Json::object();
          for (const Picture::Piece& piece : view->pieces) {
            if (piece.changed > *seen) pieces[piece.id] = piece.html;
          }
          *seen = view->version;
          const std::string text =
              pieces.empty()
                  ? ": nothing new\n\n"
                  : "data: " + Dump({{"now_s", view->now_s}, {"pieces", pieces}}) + "\n\n";
          if (!sink.write(text.data(), text.size())) return false;
          for (int i = 0; i < 4; ++i) {
            std::this_thread::sleep_for(kBeat);
            if (!sink.is_writable()) return false;
          }
          return true;
        },
        [this](bool) { --viewers_; });
  }

  Picture& picture_;
  const std::string token_;
  std::atomic<int> viewers_ = 0;
  httplib::Server server_;
};

absl::StatusOr<fs::path> PlaceOf(const std::string& directory) {
  for (const fs::path& place : {fs::path(directory) / "run", fs::path(directory)}) {
    if (fs::exists(place / "run.toml")) return place;
  }
  return NotFound(
      "%s: no run is there (run.toml is missing); want the directory of a run [SK-run-missing]",
      directory);
}

}  // namespace

absl::StatusOr<int> ServeDashboard(const DashboardOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const fs::path place, PlaceOf(options.directory));
  SKERRY_ASSIGN_OR_RETURN(auto address, ParseWebAddress(options.address));
  auto& [host, port] = address;
  std::string token;
  if (!IsLoopback(host)) {
    SKERRY_ASSIGN_OR_RETURN(token, TokenOf(place / "dashboard.token"));
  }
  Picture picture(place);
  WebServer server(&picture, token);
  const int last = options.any_port ? port + kPortsTried : port;
  while (!server.Bind(host, &port)) {
    if (++port > last) {
      return Unavailable(
          "dashboard: %s is taken or not this machine's; choose another: --dashboard "
          "HOST:PORT, or none [SK-dashboard-address]",
          options.address);
    }
  }
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const std::string url = absl::StrFormat("http://%s:%d/", shown, port);
  WriteFileAtomically((place / "dashboard").string(), url + "\n").IgnoreError();
  std::printf("dashboard: %s%s\n", url.c_str(),
              token.empty() ? "" : "?token=…, which stands in dashboard.token beside the run");
  std::fflush(stdout);
  return server.Listen() ? 0 : 1;
}

void StartDashboard(const DashboardOptions& options) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  std::signal(SIGINT, SIG_IGN);  // the parent's to answer; this ends with it
  std::signal(SIGTERM, SIG_DFL);
  const auto served = ServeDashboard(options);
  if (!served.ok()) {
    std::fprintf(stderr, "skerry-coordinator: %s\n", ErrorText(served.status()).c_str());
  }
  _exit(served.ok() ? *served : 1);
}

void AddDashboardCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<DashboardOptions>();
  auto* command = app.add_subcommand("dashboard", "show a run in a browser, also one that is over");
  command->add_option("dir", options->directory)->required();
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
