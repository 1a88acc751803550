// A connection to PostgreSQL that is made anew when it broke, and of which no call lasts for ever.
//
// Bounds: connecting takes at most kConnectSeconds for each address of the URL's hosts (and as long
// as the system's resolver takes for a name), a statement `patience`; then the connection is given
// up. The server may go on with the statement until it notices, or until its own limits, which are
// set here: kPatience for a lock, kLongPatience for a statement.
//
// Errors: Unavailable (no connection, no answer in time, a server that starts or stops, or that is
// read-only: try again), ResourceExhausted (its disk is full), AlreadyExists (a key is there
// already), NotFound (no such table), FailedPrecondition (anything else the server says: rights,
// names).
//
// Used on one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/instant.h"

struct pg_conn;
struct pg_result;

namespace skerry {

class PostgresConnection {
 public:
  static constexpr int kConnectSeconds = 2;  // libpq's smallest
  static constexpr Duration kPatience = Duration::Seconds(2);
  static constexpr Duration kLongPatience = Duration::Seconds(30);  // to read much

  using Row = std::vector<std::string>;  // what is NULL is ""
  struct Answer {
    std::vector<Row> rows;
    int64_t changed = 0;  // rows inserted, updated or deleted
  };

  // `url`: postgresql://… as libpq takes it, with any of its options.
  explicit PostgresConnection(std::string url) : url_(std::move(url)) {}
  ~PostgresConnection() { Drop(); }
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // One statement in a transaction of its own; $1, $2 … are `values` (bytes as Hex()).
  absl::StatusOr<Answer> Ask(const std::string& sql, const std::vector<std::string>& values = {},
                             Duration patience = kPatience);

  // For a value of type bytea; and what was read of one.
  static std::string Hex(const std::string& bytes);
  static std::string FromHex(const std::string& text);
  // "postgresql://host/database": the URL as it may be shown, without user and password.
  // InvalidArgument if libpq does not understand it.
  static absl::StatusOr<std::string> Shown(const std::string& url);

 private:
  absl::Status Connect();
  void Drop();
  absl::StatusOr<Answer> Run(const std::string& sql, const std::vector<std::string>& values,
                             Duration patience);
  absl::Status Await(Duration patience);
  absl::Status ErrorOf(const pg_result* result);

  std::string url_;
  pg_conn* connection_ = nullptr;
};

}  // namespace skerry
