#include "wire/toml_reader.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

#include "absl/strings/match.h"
#include "common/plain_number.h"
#include "common/status.h"

namespace skerry {

struct TomlTable::State {
  std::string file;
  toml::table root;
  absl::Status status;
  absl::Status misspelt;  // goes first: what else is wrong may only follow from it

  std::string At(const toml::source_region& place) const {
    return absl::StrFormat("%s:%d", file, static_cast<int>(place.begin.line));
  }
  void Fail(const toml::source_region& place, const std::string& what) {
    const char* code = absl::StrContains(what, " [SK-") ? "" : " [SK-config]";
    if (status.ok()) status = InvalidArgument("%s: %s%s", At(place), what, code);
  }
  // `what` is "unknown key 'x'"; `names` are those that there are.
  void FailUnknown(const toml::key& key, const std::string& what,
                   const std::set<std::string>& names) {
    const std::string nearest = NearestName(std::string(key.str()), names);
    if (nearest.empty()) return Fail(key.source(), what);
    if (!misspelt.ok()) return;
    misspelt =
        InvalidArgument("%s: %s; nearest is '%s' [SK-config]", At(key.source()), what, nearest);
  }
};

namespace {

const toml::table& Table(const void* table) {
  static const toml::table kEmpty;
  return table != nullptr ? *static_cast<const toml::table*>(table) : kEmpty;
}

std::string TypeOf(const toml::node& node) {
  if (node.is_string()) return "text";
  if (node.is_integer()) return "a whole number";
  if (node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "true or false";
  if (node.is_table()) return "a section";
  if (node.is_array()) return "a list";
  return "a date or time";
}

// What to write instead: 1e3 is a whole number to people, and none to TOML.
std::string NotWhole(const toml::node& node) {
  const auto value = node.value<double>();
  const bool is_fraction = node.is_floating_point() && value && std::isfinite(*value);
  if (!is_fraction) return ", not " + TypeOf(node);
  return absl::StrFormat(" such as %.0f, not one with a point or an exponent (%g)",
                         std::trunc(*value), *value);
}

}  // namespace

bool TomlTable::Has(const std::string& key) const {
  return Table(table_).contains(key);
}

int TomlTable::Line() const {
  return static_cast<int>(Table(table_).source().begin.line);
}

void TomlTable::Fail(const std::string& key, const std::string& what) {
  const toml::node* node = Table(table_).get(key);
  state_->Fail(node != nullptr ? node->source() : Table(table_).source(), what);
}

std::optional<int64_t> TomlTable::Integer(const std::string& key, int64_t min, int64_t max) {
  asked_.insert(key);
  const toml::node* node = Table(table_).get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_integer()) {
    Fail(key, "'" + key + "' must be a whole number" + NotWhole(*node));
    return std::nullopt;
  }
  const int64_t value = node->as_integer()->get();
  if (value < min || value > max) {
    Fail(key, absl::StrFormat("'%s' is %d, allowed are %d to %d", key, value, min, max));
    return std::nullopt;
  }
  return value;
}

std::optional<double> TomlTable::Number(const std::string& key, double min, double max) {
  asked_.insert(key);
  const toml::node* node = Table(table_).get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_number()) {
    Fail(key, "'" + key + "' must be a number, not " + TypeOf(*node));
    return std::nullopt;
  }
  const double value = *node->value<double>();
  if (!std::isfinite(value) || value < min || value > max) {
    Fail(key, absl::StrFormat("'%s' is %s, allowed are %s to %s", key, PlainNumber(value),
                              PlainNumber(min), PlainNumber(max)));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> TomlTable::Boolean(const std::string& key) {
  asked_.insert(key);
  const toml::node* node = Table(table_).get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_boolean()) {
    Fail(key, "'" + key + "' must be true or false, not " + TypeOf(*node));
    return std::nullopt;
  }
  return node->as_boolean()->get();
}

std::optional<std::string> TomlTable::Text(const std::string& key) {
  asked_.insert(key);
  const toml::node* node = Table(table_).get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) {
    Fail(key, "'" + key + "' must be text in quotes, not " + TypeOf(*node));
    return std::nullopt;
  }
  return node->as_string()->get();
}

std::optional<size_t> TomlTable::Choice(const std::string& key,
                                        const std::vector<std::string>& choices) {
  const auto text = Text(key);
  if (!text) return std::nullopt;
  std::string all;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (*text == choices[i]) return i;
    all += (i == 0 ? "'" : ", '") + choices[i] + "'";
  }
  Fail(key, "'" + key + "' is '" + *text + "', allowed are " + all);
  return std::nullopt;
}

std::optional<std::vector<std::string>> TomlTable::Texts(const std::string& key, size_t max) {
  asked_.insert(key);
  const toml::node* node = Table(table_).get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_array()) {
    Fail(key, "'" + key + "' must be a list of texts, not " + TypeOf(*node));
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_string()) {
      state_->Fail(element.source(),
                   "'" + key + "' must be a list of texts, but has " + TypeOf(element));
      return std::nullopt;
    }
    texts.push_back(element.as_string()->get());
  }
  if (texts.size() > max) {
    Fail(key, absl::StrFormat("'%s' has %d elements, allowed are %d", key, texts.size(), max));
    return std::nullopt;
  }
  return texts;
}

void TomlTable::CheckKnown() {
  for (const auto& [key, node] : Table(table_)) {
    const std::string name(key.str());
    if (asked_.contains(name)) continue;
    state_->FailUnknown(key, "unknown key '" + name + "' in " + name_, asked_);
  }
}

absl::StatusOr<TomlDocument> TomlDocument::Parse(const std::string& text, const std::string& file) {
  auto state = std::make_shared<TomlTable::State>();
  state->file = file;
  try {
    state->root = toml::parse(std::string_view(text), file);
  } catch (const toml::parse_error& e) {
    return InvalidArgument("%s: %s [SK-config]", state->At(e.source()),
                           std::string(e.description()));
  }
  return TomlDocument(std::move(state));
}

TomlTable& TomlDocument::Section(const std::string& name) {
  asked_.insert(name);
  const toml::node* node = state_->root.get(name);
  if (node != nullptr && !node->is_table())
    state_->Fail(node->source(), "'" + name + "' must be a section [" + name + "]");
  const void* table = node != nullptr ? node->as_table() : nullptr;
  tables_.push_back(std::unique_ptr<TomlTable>(new TomlTable(state_, table, "[" + name + "]")));
  return *tables_.back();
}

std::vector<TomlTable*> TomlDocument::Elements(const std::string& name) {
  asked_.insert(name);
  std::vector<TomlTable*> elements;
  const toml::node* node = state_->root.get(name);
  if (node == nullptr) return elements;
  if (!node->is_array_of_tables()) {
    state_->Fail(node->source(), "'" + name + "' must be sections [[" + name + "]]");
    return elements;
  }
  for (const toml::node& element : *node->as_array()) {
    tables_.push_back(
        std::unique_ptr<TomlTable>(new TomlTable(state_, element.as_table(), "[[" + name + "]]")));
    elements.push_back(tables_.back().get());
  }
  return elements;
}

std::vector<std::pair<std::string, TomlTable*>> TomlDocument::Subsections(const std::string& name) {
  asked_.insert(name);
  std::vector<std::pair<std::string, TomlTable*>> sections;
  const toml::node* node = state_->root.get(name);
  if (node == nullptr) return sections;
  const toml::table* parent = node->as_table();
  if (parent == nullptr) {
    state_->Fail(node->source(), "'" + name + "' must be sections [" + name + ".NAME]");
    return sections;
  }
  for (const auto& [key, child] : *parent) {
    const std::string child_name(key.str());
    if (!child.is_table()) {
      state_->Fail(key.source(),
                   "'" + child_name + "' must be a section [" + name + "." + child_name + "]");
      continue;
    }
    tables_.push_back(std::unique_ptr<TomlTable>(
        new TomlTable(state_, child.as_table(), "[" + name + "." + child_name + "]")));
    sections.emplace_back(child_name, tables_.back().get());
  }
  return sections;
}

TomlTable& TomlDocument::Root() {
  if (!root_) root_.reset(new TomlTable(state_, &state_->root, "the file"));
  return *root_;
}

bool TomlDocument::HasSection(const std::string& name) const {
  const toml::node* node = state_->root.get(name);
  return node != nullptr && node->is_table();
}

absl::Status TomlDocument::Finish() {
  if (root_) asked_.insert(root_->asked_.begin(), root_->asked_.end());
  for (const auto& [key, node] : state_->root) {
    const std::string name(key.str());
    if (asked_.contains(name)) continue;
    const char* kind = node.is_value() ? "unknown key '" : "unknown section '";
    state_->FailUnknown(key, kind + name + "'", asked_);
  }
  for (const auto& table : tables_) table->CheckKnown();
  return state_->misspelt.ok() ? state_->status : state_->misspelt;
}

std::string TomlDocument::Where(const std::string& section, const std::string& key) const {
  const toml::node* place = state_->root.get(section);
  if (place == nullptr) return state_->file;
  const toml::node* node = place->is_table() ? place->as_table()->get(key) : nullptr;
  return state_->At(node != nullptr ? node->source() : place->source());
}

std::string NearestName(const std::string& word, const std::set<std::string>& names) {
  std::string nearest;
  size_t fewest = SIZE_MAX;
  for (const std::string& name : names) {
    // Levenshtein's distance, one row at a time; two letters that changed places are one slip.
    std::vector<size_t> row(name.size() + 1), above, twice_above;
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 0; i < word.size(); ++i) {
      twice_above = std::exchange(above, row);
      row[0] = i + 1;
      for (size_t j = 0; j < name.size(); ++j) {
        const size_t replaced = above[j] + (word[i] == name[j] ? 0 : 1);
        row[j + 1] = std::min({replaced, row[j] + 1, above[j + 1] + 1});
        const bool is_swapped = i > 0 && j > 0 && word[i] == name[j - 1] && word[i - 1] == name[j];
        if (is_swapped) row[j + 1] = std::min(row[j + 1], twice_above[j - 1] + 1);
      }
    }
    if (row.back() < fewest && row.back() * 3 <= name.size()) {
      fewest = row.back();
      nearest = name;
    }
  }
  return nearest;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  // A stream opens a directory, too, and reads nothing: that would pass for an empty file.
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    return InvalidArgument("%s is a directory, not a file [SK-config-file]", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return NotFound("there is no file %s [SK-config-file]", path);
    return Unavailable("cannot read %s: %s [SK-config-file]", path,
                       std::string(std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace skerry
