// Operating errors. Our code does not throw: what can go wrong outside the program returns
// absl::Status.
//
// Debian's absl::string_view is not std::string_view, so messages pass through StrFormat here and
// nowhere else.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace skerry {

// Builders: InvalidArgument("want %d values, got %d", 3, 4). The text says what was wanted, what
// came, what to do.
#define SKERRY_STATUS_BUILDER(Name)                                                 \
  template <typename... Args>                                                       \
  absl::Status Name(const absl::FormatSpec<Args...>& format, const Args&... args) { \
    return absl::Name##Error(absl::StrFormat(format, args...));                     \
  }
SKERRY_STATUS_BUILDER(InvalidArgument)
SKERRY_STATUS_BUILDER(NotFound)
SKERRY_STATUS_BUILDER(FailedPrecondition)
SKERRY_STATUS_BUILDER(Unavailable)
SKERRY_STATUS_BUILDER(DataLoss)
SKERRY_STATUS_BUILDER(Internal)
SKERRY_STATUS_BUILDER(OutOfRange)
SKERRY_STATUS_BUILDER(PermissionDenied)
SKERRY_STATUS_BUILDER(ResourceExhausted)
SKERRY_STATUS_BUILDER(AlreadyExists)
SKERRY_STATUS_BUILDER(Aborted)
#undef SKERRY_STATUS_BUILDER

inline std::string ErrorText(const absl::Status& status) {
  return std::string(status.message());
}

// The same error with "context: " in front.
inline absl::Status Annotate(const absl::Status& status, const std::string& context) {
  return absl::Status(status.code(), context + ": " + std::string(status.message()));
}

}  // namespace skerry

#define SKERRY_CONCAT_INNER(a, b) a##b
#define SKERRY_CONCAT(a, b) SKERRY_CONCAT_INNER(a, b)

#define SKERRY_RETURN_IF_ERROR(expression)           \
  do {                                               \
    const absl::Status skerry_status = (expression); \
    if (!skerry_status.ok()) return skerry_status;   \
  } while (false)

#define SKERRY_ASSIGN_OR_RETURN(declaration, expression) \
  SKERRY_ASSIGN_OR_RETURN_INNER(SKERRY_CONCAT(skerry_result_, __LINE__), declaration, expression)
#define SKERRY_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()
