#include "coordinator/dashboard_server_program.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/status.h"
#include "coordinator/dashboard_access.h"
#include "coordinator/dashboard_admission.h"
#include "coordinator/dashboard_command.h"
#include "coordinator/dashboard_view.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr auto kBeat = std::chrono::milliseconds(250);
constexpr int kThreads = 24;
constexpr int kViewersMax = 16;  // each keeps a thread
constexpr size_t kAskedBytesMax = 2048;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Asked for several encodings the library takes brotli, at its slowest: half a second for a page
// that gzip has ready in 10 ms. It has no setting for that, but looks at the request's header last.
void AskForGzip(const httplib::Request& request) {
  constexpr char kHeader[] = "Accept-Encoding";
  const bool takes_gzip = request.get_header_value(kHeader).find("gzip") != std::string::npos;
  auto& headers = const_cast<httplib::Request&>(request).headers;
  headers.erase(kHeader);
  if (takes_gzip) headers.emplace(kHeader, "gzip");
}

// By itself the library lets programs of one user share a port (SO_REUSEPORT): two runs would
// answer at one address in turn, and a port that is taken would not be noticed.
void TakeAlone(int socket) {
  const int yes = 1;  // also at once after another that ended
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

class DashboardServer::Routes {
 public:
  Routes(DashboardPicture* picture, DashboardServerOptions options)
      : picture_(*picture), options_(std::move(options)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_socket_options(TakeAlone);
    server_.set_payload_max_length(kAskedBytesMax);
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
      AskForGzip(request);
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
    if (!options_.viewers_need) {
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
    if (SameToken(header, "Bearer " + options_.token) ||
        SameToken(cookie, "skerry=" + options_.token))
      return true;
    if (SameToken(request.get_param_value("token"), options_.token)) {
      response.set_header("Set-Cookie",
                          "skerry=" + options_.token + "; HttpOnly; SameSite=Strict; Path=/");
      return true;
    }
    response.status = 401;
    response.set_content("want ?token=… once; the token stands in DIR/dashboard.token\n",
                         "text/plain");
    return false;
  }

  // Only the header counts: no page from elsewhere can make a browser send it.
  bool IsOperator(const httplib::Request& request, httplib::Response& response) const {
    const std::string header = request.get_header_value("Authorization");
    if (!options_.token.empty() && SameToken(header, "Bearer " + options_.token)) return true;
    response.status = 401;
    response.set_content("that is not the token in DIR/dashboard.token\n", "text/plain");
    return false;
  }

  void AddOperatorRoutes() {
    server_.Get("/api/admission", [this](const auto& request, auto& response) {
      if (IsOperator(request, response)) response.set_content(Admission(), "application/json");
    });
    server_.Get("/admission", [this](const auto& request, auto& response) {
      if (!IsOperator(request, response)) return;
      const Json admission = Json::parse(Admission(), nullptr, false);
      response.set_content(AdmissionPanel(admission), "text/html; charset=utf-8");
    });
    server_.Post("/api/do", [this](const auto& request, auto& response) {
      if (!IsOperator(request, response)) return;
      const auto command =
          OperatorCommand(Json::parse(request.body, nullptr, false), options_.directory);
      if (!command.ok()) return Fail(response, ErrorText(command.status()));
      const std::lock_guard one_at_a_time(commands_);
      const CommandAnswer answer = RunOwnCommand(*command);
      response.set_content(Dump({{"ok", answer.ok}, {"text", answer.text}}), "application/json");
    });
  }

  // As the coordinator last wrote it; of a run that none serves with this version, as its journal
  // says.
  std::string Admission() {
    std::string written = picture_.Admission();
    if (!written.empty()) return written;
    const std::lock_guard one_at_a_time(commands_);
    return RunOwnCommand({"admission", options_.directory, "--json"}).text;
  }

  void AddRoutes() {
    AddOperatorRoutes();
    using Request = httplib::Request;
    using Response = httplib::Response;
    server_.Get("/", [this](const Request&, Response& response) {
      response.set_content(picture_.Now()->page, "text/html; charset=utf-8");
    });
    server_.Get("/dashboard.js", [](const Request&, Response& response) {
      response.set_content(DashboardScript(), "text/javascript");
    });
    server_.Get("/live", [this](const Request& request, Response& response) {
      const std::string again = request.get_header_value("Last-Event-ID");
      Live(response, picture_.VersionIn(again.empty() ? request.get_param_value("seen") : again));
    });
    server_.Get("/nodes", [this](const Request& request, Response& response) {
      const std::string first = request.get_param_value("first");
      const auto number = std::max(0LL, std::strtoll(first.c_str(), nullptr, 10));
      response.set_content(
          picture_.Nodes(static_cast<size_t>(number), request.get_param_value("find")),
          "text/html; charset=utf-8");
    });
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
      Answer(response,
             picture_.Events(number("first", 0), number("count", DashboardPicture::kEventsMax)),
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
  void Live(httplib::Response& response, int64_t has_seen) {
    if (viewers_.fetch_add(1) >= kViewersMax) {
      --viewers_;
      response.status = 503;
      response.set_content("too many viewers\n", "text/plain");
      return;
    }
    struct Viewer {
      int64_t seen;
      bool greeted = false;  // told what time it is, whatever else is new
    };
    auto viewer = std::make_shared<Viewer>(Viewer{has_seen});
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, viewer](size_t, httplib::DataSink& sink) {
          const auto view = picture_.Now();
          Json pieces = Json::object();
          for (const DashboardPicture::Piece& piece : view->pieces) {
            if (piece.changed > viewer->seen) pieces[piece.id] = piece.html;
          }
          viewer->seen = view->version;
          const bool is_nothing = pieces.empty() && std::exchange(viewer->greeted, true);
          const std::string text = is_nothing ? ": nothing new\n\n"
                                              : "id: " + view->seen + "\ndata: " +
                                                    Dump({{"now_s", view->now_s},
                                                          {"admission", view->admission},
                                                          {"pieces", pieces}}) +
                                                    "\n\n";
          if (!sink.write(text.data(), text.size())) return false;
          for (int i = 0; i < 4; ++i) {
            std::this_thread::sleep_for(kBeat);
            if (!sink.is_writable()) return false;
          }
          return true;
        },
        [this](bool) { --viewers_; });
  }

  DashboardPicture& picture_;
  const DashboardServerOptions options_;
  std::mutex commands_;
  std::atomic<int> viewers_ = 0;
  httplib::Server server_;
};

DashboardServer::DashboardServer(DashboardPicture* picture, DashboardServerOptions options)
    : routes_(std::make_unique<Routes>(picture, std::move(options))) {}
DashboardServer::~DashboardServer() = default;

bool DashboardServer::Bind(const std::string& host, int* port) {
  return routes_->Bind(host, port);
}
bool DashboardServer::Listen() {
  return routes_->Listen();
}

}  // namespace skerry
