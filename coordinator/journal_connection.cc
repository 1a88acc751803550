#include "coordinator/journal_connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "absl/strings/escaping.h"
#include "common/status.h"

namespace skerry {
namespace {

struct Cleared {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, Cleared>;

// What libpq says ends with a line break, or with several lines.
std::string OneLine(const char* text) {
  std::string line = text == nullptr ? "" : text;
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  std::erase(line, '\t');
  for (size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n'))
    line.replace(at, 1, "; ");
  return line;
}

// Rings once. A poll's own time-out would begin anew with every byte that comes.
class Deadline {
 public:
  explicit Deadline(Duration after)
      : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    itimerspec when{};
    when.it_value = {static_cast<time_t>(after.nanos() / 1'000'000'000),
                     static_cast<long>(after.nanos() % 1'000'000'000)};
    timerfd_settime(fd_, 0, &when, nullptr);
  }
  ~Deadline() { close(fd_); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string PostgresConnection::Hex(const std::string& bytes) {
  return "\\x" + absl::BytesToHexString(bytes);
}

std::string PostgresConnection::FromHex(const std::string& text) {
  return text.size() < 2 ? "" : absl::HexStringToBytes(text.substr(2));
}

absl::StatusOr<std::string> PostgresConnection::Shown(const std::string& url) {
  char* complaint = nullptr;
  PQconninfoOption* options = PQconninfoParse(url.c_str(), &complaint);
  if (options == nullptr) {
    const std::string what = OneLine(complaint);
    PQfreemem(complaint);
    return InvalidArgument("the store's URL is not one libpq takes: %s", what);
  }
  std::string host, database;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    if (std::string_view(option->keyword) == "host") host = option->val;
    if (std::string_view(option->keyword) == "dbname") database = option->val;
  }
  PQconninfoFree(options);
  return "postgresql://" + host + "/" + database;
}

void PostgresConnection::Drop() {
  if (connection_ != nullptr) PQfinish(connection_);
  connection_ = nullptr;
}

absl::Status PostgresConnection::Connect() {
  const std::string connect_s = std::to_string(kConnectSeconds);
  // What stands in the URL comes last and wins. Of several hosts the one that can be written to.
  const std::array<const char*, 8> names = {
      "fallback_application_name", "connect_timeout", "tcp_user_timeout", "keepalives_idle",
      "target_session_attrs",      "client_encoding", "dbname",           nullptr};
  const std::array<const char*, 8> values = {"skerry-coordinator",
                                             connect_s.c_str(),
                                             "4000",
                                             "5",
                                             "read-write",
                                             "UTF8",
                                             url_.c_str(),
                                             nullptr};
  connection_ = PQconnectdbParams(names.data(), values.data(), 1);
  if (connection_ == nullptr || PQstatus(connection_) != CONNECTION_OK) {
    const std::string what =
        connection_ == nullptr ? "out of memory" : OneLine(PQerrorMessage(connection_));
    Drop();
    return Unavailable("%s", what);
  }
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  PQsetnonblocking(connection_, 1);
  // Durable means durable, whatever the server's default.
  const auto millis = [](Duration d) { return std::to_string(d.nanos() / 1'000'000); };
  const auto set =
      Run("SELECT set_config('lock_timeout', $1, false),"
          " set_config('statement_timeout', $2, false), set_config('bytea_output', 'hex', false),"
          " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
          " THEN set_config('synchronous_commit', 'on', false) END",
          {millis(kPatience), millis(kLongPatience)}, kPatience);
  return set.status();
}

absl::StatusOr<PostgresConnection::Answer> PostgresConnection::Ask(
    const std::string& sql, const std::vector<std::string>& values, Duration patience) {
  if (connection_ == nullptr) SKERRY_RETURN_IF_ERROR(Connect());
  auto answer = Run(sql, values, patience);
  if (absl::IsUnavailable(answer.status())) Drop();
  return answer;
}

absl::Status PostgresConnection::Await(Duration patience) {
  const Deadline deadline(patience);
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return Unavailable("%s", OneLine(PQerrorMessage(connection_)));
    if (unsent == 0 && PQisBusy(connection_) == 0) return absl::OkStatus();
    const auto events = static_cast<short>(POLLIN | (unsent > 0 ? POLLOUT : 0));
    std::array<pollfd, 2> wait = {pollfd{PQsocket(connection_), events, 0},
                                  pollfd{deadline.fd(), POLLIN, 0}};
    if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR)
      return Unavailable("the connection broke");
    if (wait[0].revents != 0 && PQconsumeInput(connection_) == 0)
      return Unavailable("%s", OneLine(PQerrorMessage(connection_)));
    if (wait[0].revents == 0 && wait[1].revents != 0)
      return Unavailable("no answer within %g s", patience.seconds());
  }
}

absl::StatusOr<PostgresConnection::Answer> PostgresConnection::Run(
    const std::string& sql, const std::vector<std::string>& values, Duration patience) {
  std::vector<const char*> parameters;
  for (const std::string& value : values) parameters.push_back(value.c_str());
  if (PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(parameters.size()), nullptr,
                        parameters.data(), nullptr, nullptr, 0) == 0) {
    return Unavailable("%s", OneLine(PQerrorMessage(connection_)));
  }
  Answer answer;
  absl::Status failed;
  while (true) {
    SKERRY_RETURN_IF_ERROR(Await(patience));
    const Result result(PQgetResult(connection_));
    if (!result) break;
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      if (failed.ok()) failed = ErrorOf(result.get());
      continue;
    }
    answer.changed += std::atoll(PQcmdTuples(result.get()));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      Row& values_of = answer.rows.emplace_back();
      for (int column = 0; column < PQnfields(result.get()); ++column)
        values_of.emplace_back(PQgetvalue(result.get(), row, column),
                               static_cast<size_t>(PQgetlength(result.get(), row, column)));
    }
  }
  if (!failed.ok()) return failed;
  if (PQstatus(connection_) != CONNECTION_OK)
    return Unavailable("%s", OneLine(PQerrorMessage(connection_)));
  return answer;
}

absl::Status PostgresConnection::ErrorOf(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string code = state == nullptr ? "" : state;
  const std::string what = OneLine(PQresultErrorMessage(result));
  constexpr std::array kTransient = {"08", "40", "53", "55", "57", "58"};  // classes of SQLSTATE
  if (code == "53100")
    return ResourceExhausted("the database's disk is full (%s); make room, nothing is lost", what);
  if (code == "23505") return AlreadyExists("%s", what);
  if (code == "42P01") return NotFound("%s", what);
  const bool transient = std::any_of(kTransient.begin(), kTransient.end(),
                                     [&](const char* known) { return code.substr(0, 2) == known; });
  // 25006: it became read-only, as a primary does that was replaced.
  if (code.empty() || transient || code == "25006") return Unavailable("%s", what);
  return FailedPrecondition("%s", what);
}

}  // namespace skerry
