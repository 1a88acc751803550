// The rules every value from the wire is held to while it is read. The first broken rule is kept;
// from then on texts and lists come out empty, so reading goes on cheaply to its end and the result
// is thrown away.
#pragma once

#include <capnp/blob.h>

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "common/status.h"
#include "wire/codec/limits.h"

namespace skerry {

class ReadChecks {
 public:
  const absl::Status& status() const { return status_; }

  void Break(const char* what, const char* why) { Fail(InvalidArgument("%s %s", what, why)); }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  std::string Text(capnp::Text::Reader text, const char* what) {
    if (text.size() > limits::kTextBytesMax) Break(what, "is too long");
    if (!status_.ok()) return "";
    std::string out(text.begin(), text.end());
    for (char& c : out) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return out;
  }

  template <typename T>
  T Finite(T value, const char* what) {
    if (!std::isfinite(value)) Break(what, "is not finite");
    return value;
  }

  // How many elements to read: the list's own length, or none once a rule is broken.
  template <typename List>
  unsigned Count(const List& list, size_t max, const char* what) {
    if (list.size() > max) Break(what, "are too many");
    return status_.ok() ? list.size() : 0;
  }

  // Counts, versions, offsets.
  template <typename T>
  T NotNegative(T value, const char* what) {
    if (value < 0) Break(what, "is negative");
    return value;
  }

  template <typename Enum>
  Enum Enumerator(uint8_t value, Enum last, const char* what) {
    if (value > static_cast<uint8_t>(last)) {
      Break(what, "is unknown");
      return last;
    }
    return static_cast<Enum>(value);
  }

 private:
  absl::Status status_;
};

}  // namespace skerry
