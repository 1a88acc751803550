// What every value written must keep to, as the reader of it would ask (read_checks.h). The first
// broken rule is kept; from then on texts and lists come out empty.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/status.h"
#include "wire/codec/limits.h"

namespace skerry {

class WriteChecks {
 public:
  const absl::Status& status() const { return status_; }

  void Require(bool condition, const char* what) {
    if (!condition && status_.ok()) status_ = InvalidArgument("%s beyond the limit", what);
  }
  const char* Text(const std::string& text, const char* what) {
    Require(text.size() <= limits::kTextBytesMax, what);
    return status_.ok() ? text.c_str() : "";
  }
  template <typename T>
  T Finite(T value, const char* what) {
    if (!std::isfinite(value) && status_.ok()) status_ = InvalidArgument("%s is not finite", what);
    return value;
  }
  template <typename T>
  unsigned Count(const std::vector<T>& list, size_t max, const char* what) {
    Require(list.size() <= max, what);
    return status_.ok() ? static_cast<unsigned>(list.size()) : 0;
  }

 private:
  absl::Status status_;
};

}  // namespace skerry
