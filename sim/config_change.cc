#include "sim/config_change.h"

#include <cstdlib>
#include <limits>
#include <set>
#include <type_traits>

#include "common/plain_number.h"
#include "common/round_clock.h"
#include "common/status.h"
#include "wire/config.h"
#include "wire/config_fields.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\"");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
}

// Sets the field whose "section.key" is wanted; a visitor of VisitRunConfig.
class Setter {
 public:
  Setter(std::string wanted, std::string value)
      : wanted_(std::move(wanted)), value_(std::move(value)) {}

  void Section(const char*, const char*) {}
  template <typename T>
  void Number(const char* section, const char* key, T& value, double min, double max, const char*) {
    if (!IsWanted(section, key)) return;
    char* end = nullptr;
    const double read = std::strtod(value_.c_str(), &end);
    const bool whole = !std::is_integral_v<T> || read == static_cast<double>(std::int64_t(read));
    if (value_.empty() || *end != '\0' || !(read >= min && read <= max) || !whole) {
      status_ = InvalidArgument("%s: '%s' is not a %snumber from %s to %s", wanted_, value_,
                                std::is_integral_v<T> ? "whole " : "", PlainNumber(min),
                                PlainNumber(max));
      return;
    }
    value = static_cast<T>(read);
  }
  void Seed(const char* section, const char* key, uint64_t& value, const char* comment) {
    int64_t read = 0;
    if (!IsWanted(section, key)) return;
    Number(section, key, read, 0, 9007199254740992.0, comment);  // what a double counts exactly
    if (status_.ok()) value = static_cast<uint64_t>(read);
  }
  void Flag(const char* section, const char* key, bool& value, const char*) {
    if (!IsWanted(section, key)) return;
    if (value_ != "true" && value_ != "false") {
      status_ = InvalidArgument("%s: '%s' is neither true nor false", wanted_, value_);
      return;
    }
    value = value_ == "true";
  }
  void Text(const char* section, const char* key, std::string& value, const char*) {
    if (IsWanted(section, key)) value = value_;
  }
  template <typename Enum>
  void Choice(const char* section, const char* key, Enum& value,
              const std::vector<std::string>& choices, const char*) {
    if (!IsWanted(section, key)) return;
    std::string all;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (choices[i] == value_) {
        value = static_cast<Enum>(i);
        return;
      }
      all += (i == 0 ? "" : ", ") + choices[i];
    }
    status_ = InvalidArgument("%s: there is no '%s', there are %s", wanted_, value_, all);
  }

  absl::Status Finish() const {
    if (found_) return status_;
    const std::string nearest = NearestName(wanted_, names_);
    return InvalidArgument("there is no '%s' in a run's configuration%s", wanted_,
                           nearest.empty() ? "" : "; nearest is '" + nearest + "'");
  }

 private:
  bool IsWanted(const char* section, const char* key) {
    const std::string name = std::string(section) + "." + key;
    names_.insert(name);
    found_ |= name == wanted_;
    return name == wanted_;
  }

  std::string wanted_, value_;
  std::set<std::string> names_;
  bool found_ = false;
  absl::Status status_;
};

}  // namespace

absl::Status ApplyConfigChange(const std::string& change, RunConfig& config) {
  const size_t equals = change.find('=');
  if (equals == std::string::npos) {
    return InvalidArgument("'%s': want SECTION.KEY=VALUE, as in outer.codec=int4", change);
  }
  Setter setter(Trimmed(change.substr(0, equals)), Trimmed(change.substr(equals + 1)));
  RunConfig changed = config;
  VisitRunConfig(setter, changed);
  SKERRY_RETURN_IF_ERROR(setter.Finish());
  config = changed;
  return absl::OkStatus();
}

absl::Status ApplyConfigChanges(const std::vector<std::string>& changes, RunConfig& config) {
  RunConfig changed = config;
  for (const std::string& change : changes) {
    SKERRY_RETURN_IF_ERROR(ApplyConfigChange(change, changed));
  }
  changed.outer = EffectiveOuter(changed.outer);
  SKERRY_RETURN_IF_ERROR(ValidateRunConfig(changed));
  config = changed;
  return absl::OkStatus();
}

}  // namespace skerry
