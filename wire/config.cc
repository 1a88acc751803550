#include "wire/config.h"

#include <sodium.h>

#include <cmath>
#include <limits>
#include <map>
#include <type_traits>

#include "absl/strings/str_join.h"
#include "common/bytes.h"
#include "common/check.h"
#include "common/digest.h"
#include "common/round_clock.h"
#include "common/status.h"
#include "wire/config_fields.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

// Seeds are all of uint64; TOML's integers end at 2^63 − 1.
constexpr int64_t kSeedMax = std::numeric_limits<int64_t>::max();

// Fills in what the document has.
class Reader {
 public:
  explicit Reader(TomlDocument& document) : document_(document) {}

  void Section(const char* name, const char*) { sections_[name] = &document_.Section(name); }
  template <typename T>
  void Number(const char* section, const char* key, T& value, double min, double max, const char*) {
    TomlTable& table = *sections_.at(section);
    if constexpr (std::is_integral_v<T>) {
      const auto read = table.Integer(key, static_cast<int64_t>(min), static_cast<int64_t>(max));
      if (read) value = static_cast<T>(*read);
    } else {
      const auto read = table.Number(key, min, max);
      if (read) value = static_cast<T>(*read);
    }
  }
  void Seed(const char* section, const char* key, uint64_t& value, const char*) {
    const auto read = sections_.at(section)->Integer(key, 0, kSeedMax);
    if (read) value = static_cast<uint64_t>(*read);
  }
  void Flag(const char* section, const char* key, bool& value, const char*) {
    if (const auto read = sections_.at(section)->Boolean(key)) value = *read;
  }
  void Text(const char* section, const char* key, std::string& value, const char*) {
    if (const auto read = sections_.at(section)->Text(key)) value = *read;
  }
  template <typename Enum>
  void Choice(const char* section, const char* key, Enum& value,
              const std::vector<std::string>& choices, const char*) {
    if (const auto read = sections_.at(section)->Choice(key, choices))
      value = static_cast<Enum>(*read);
  }

 private:
  TomlDocument& document_;
  std::map<std::string, TomlTable*> sections_;
};

// The shortest decimal that reads back as the same float or double, always with a point or an
// exponent.
template <typename T>
std::string Decimal(T value) {
  for (int digits = 1; digits <= 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, static_cast<double>(value));
    if (static_cast<T>(std::strtod(text.c_str(), nullptr)) != value) continue;
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  return "0.0";
}

// "1e+01" as people write it, "10.0": the same digits, the point where it belongs.
std::string WithoutExponent(const std::string& decimal) {
  constexpr size_t kZerosMax = 9;  // beyond, an exponent is easier to read
  const size_t e = decimal.find("e+");
  if (e == std::string::npos) return decimal;
  const auto exponent = static_cast<size_t>(std::strtol(decimal.c_str() + e + 2, nullptr, 10));
  std::string digits = decimal.substr(0, e);
  const size_t point = digits.find('.');
  const size_t behind = point == std::string::npos ? 0 : digits.size() - point - 1;
  if (exponent > kZerosMax || behind > exponent) return decimal;
  if (point != std::string::npos) digits.erase(point, 1);
  return digits + std::string(exponent - behind, '0') + ".0";
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Writes "key = value" lines with comments (the template) or "section.key = value" without (the
// digest).
class TomlWriter {
 public:
  explicit TomlWriter(bool commented) : commented_(commented) {}
  const std::string& text() const { return text_; }

  void Section(const char* name, const char* comment) {
    if (!commented_) return;
    if (!text_.empty()) text_ += "\n";
    text_ += absl::StrFormat("# %s\n[%s]\n", comment, name);
  }
  template <typename T>
  void Number(const char* section, const char* key, T& value, double, double, const char* comment) {
    if constexpr (std::is_integral_v<T>) {
      Line(section, key, absl::StrFormat("%d", value), comment);
    } else {
      // What the digest is of never changes.
      const std::string decimal = Decimal(value);
      Line(section, key, commented_ ? WithoutExponent(decimal) : decimal, comment);
    }
  }
  void Seed(const char* section, const char* key, uint64_t& value, const char* comment) {
    Line(section, key, absl::StrFormat("%d", value), comment);
  }
  void Flag(const char* section, const char* key, bool& value, const char* comment) {
    Line(section, key, value ? "true" : "false", comment);
  }
  void Text(const char* section, const char* key, std::string& value, const char* comment) {
    Line(section, key, Quoted(value), comment);
  }
  template <typename Enum>
  void Choice(const char* section, const char* key, Enum& value,
              const std::vector<std::string>& choices, const char* comment) {
    std::string all(comment);
    if (!all.empty()) all += ": ";
    all += absl::StrJoin(choices, " | ");
    Line(section, key, Quoted(choices.at(static_cast<size_t>(value))), all);
  }

 private:
  void Line(const char* section, const char* key, const std::string& value,
            const std::string& comment) {
    if (!commented_) {
      text_ += absl::StrFormat("%s.%s = %s\n", section, key, value);
      return;
    }
    std::string line = absl::StrFormat("%s = %s", key, value);
    if (!comment.empty()) line = absl::StrFormat("%-34s# %s", line, comment);
    text_ += line + "\n";
  }

  bool commented_;
  std::string text_;
};

std::string Written(const RunConfig& config, bool commented) {
  TomlWriter writer(commented);
  RunConfig copy = config;
  VisitRunConfig(writer, copy);
  return writer.text();
}

}  // namespace

absl::StatusOr<RunConfig> ParseRunConfig(const std::string& text, const std::string& file) {
  SKERRY_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, file));
  RunConfig config = ReadRunConfig(document);
  SKERRY_RETURN_IF_ERROR(document.Finish());
  SKERRY_RETURN_IF_ERROR(CheckRunConfig(document, file, config));
  return config;
}

RunConfig ReadRunConfig(TomlDocument& document) {
  RunConfig config;
  Reader reader(document);
  VisitRunConfig(reader, config);
  config.outer = EffectiveOuter(config.outer);
  return config;
}

absl::Status CheckRunConfig(const TomlDocument& document, const std::string& file,
                            const RunConfig& config) {
  const absl::Status valid = ValidateRunConfig(config);
  if (valid.ok()) return valid;
  // "[section] key: …" tells the place.
  const std::string why = std::string(valid.message());
  const absl::Status coded = InvalidArgument("%s [SK-config]", why);
  const size_t bracket = why.find(']');
  const size_t colon = why.find(':');
  if (bracket == std::string::npos || colon == std::string::npos) return Annotate(coded, file);
  return Annotate(coded, document.Where(why.substr(1, bracket - 1),
                                        why.substr(bracket + 2, colon - bracket - 2)));
}

absl::StatusOr<RunConfig> LoadRunConfig(const std::string& path) {
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseRunConfig(text, path);
}

std::string FormatRunConfig(const RunConfig& config) {
  return Written(config, true);
}

Digest ConfigDigest(const RunConfig& config) {
  const std::string text = Written(config, false);
  return DigestOf(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

RunId MakeRunId(const RunConfig& config, const std::array<uint8_t, 32>& nonce) {
  const Digest digest = ConfigDigest(config);
  Bytes bytes(digest.bytes.begin(), digest.bytes.end());
  bytes.insert(bytes.end(), nonce.begin(), nonce.end());
  RunId run;
  run.bytes = DigestOf(std::span<const uint8_t>(bytes)).bytes;
  return run;
}

std::array<uint8_t, 32> RandomNonce() {
  SKERRY_CHECK(sodium_init() >= 0, "libsodium must find randomness");
  std::array<uint8_t, 32> nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

}  // namespace skerry
