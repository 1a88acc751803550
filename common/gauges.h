// Figures as Prometheus reads them: its text format, gauges only.
//
// Not thread-safe. Names and help are ours; values are any numbers.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace skerry {

class Gauges {
 public:
  explicit Gauges(std::string prefix) : prefix_(std::move(prefix)) {}

  // What a metric is; once, before its values.
  void Declare(const std::string& name, const std::string& help) {
    text_ +=
        absl::StrFormat("# HELP %s%s %s\n# TYPE %s%s gauge\n", prefix_, name, help, prefix_, name);
  }
  // `label`: "", or as in class="bulk".
  void Value(const std::string& name, double value, const std::string& label = "") {
    const std::string of = label.empty() ? "" : "{" + label + "}";
    text_ += absl::StrFormat("%s%s%s %.17g\n", prefix_, name, of, value);
  }
  void Gauge(const std::string& name, const std::string& help, double value) {
    Declare(name, help);
    Value(name, value);
  }
  // Of a JSON object; nothing where it has no such number.
  template <typename Json>
  void Figure(const Json& object, const char* key, const std::string& name,
              const std::string& help) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_number())
      Gauge(name, help, found->template get<double>());
  }

  const std::string& text() const { return text_; }

 private:
  std::string prefix_;
  std::string text_;
};

}  // namespace skerry
