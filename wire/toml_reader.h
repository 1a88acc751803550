// Reading TOML strictly: every key must be known, of the right type and in range, and every
// complaint names file and line. The first error is kept; after it reading goes on and changes
// nothing.
//
// wire/ and sim/ include this; toml++ stays behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

// One table of the document: "[run]", or one element of "[[pair]]".
class TomlTable {
 public:
  bool Has(const std::string& key) const;

  // The value if the key is there and right; nullopt (and an error, if it is there and wrong)
  // otherwise. Bounds are included in the range.
  std::optional<int64_t> Integer(const std::string& key, int64_t min, int64_t max);
  std::optional<double> Number(const std::string& key, double min, double max);
  std::optional<bool> Boolean(const std::string& key);
  std::optional<std::string> Text(const std::string& key);
  // The index of the text among `choices`.
  std::optional<size_t> Choice(const std::string& key, const std::vector<std::string>& choices);
  // A list of texts, of at most `max` elements.
  std::optional<std::vector<std::string>> Texts(const std::string& key, size_t max);

  // The line where the table begins.
  int Line() const;

  // Records an error at the line of `key`, or of the table if there is no such key.
  void Fail(const std::string& key, const std::string& what);

 private:
  friend class TomlDocument;
  struct State;
  TomlTable(std::shared_ptr<State> state, const void* table, std::string name)
      : state_(std::move(state)), table_(table), name_(std::move(name)) {}
  void CheckKnown();

  std::shared_ptr<State> state_;
  const void* table_;  // toml::table inside *state_; null for a section that is not there
  std::string name_;   // "[run]"
  std::set<std::string> asked_;
};

class TomlDocument {
 public:
  // InvalidArgument "file:line: …" if it is not TOML.
  static absl::StatusOr<TomlDocument> Parse(const std::string& text, const std::string& file);

  // The section, empty if it is not there. Asked for once per name.
  TomlTable& Section(const std::string& name);
  // The elements of [[name]], in file order.
  std::vector<TomlTable*> Elements(const std::string& name);
  // The tables of [name.X], as (X, table), ordered by X.
  std::vector<std::pair<std::string, TomlTable*>> Subsections(const std::string& name);
  // The keys above the first section.
  TomlTable& Root();
  bool HasSection(const std::string& name) const;

  // The first error: of the reading, else a section or key that nobody asked for.
  absl::Status Finish();

  // "file:line" of a key, for errors found later.
  std::string Where(const std::string& section, const std::string& key) const;

 private:
  explicit TomlDocument(std::shared_ptr<TomlTable::State> state) : state_(std::move(state)) {}

  std::shared_ptr<TomlTable::State> state_;
  std::vector<std::unique_ptr<TomlTable>> tables_;
  std::unique_ptr<TomlTable> root_;
  std::set<std::string> asked_;
};

// The name of `names` with the fewest typing mistakes between it and `word`, if at most a third of
// its letters are; "" otherwise.
std::string NearestName(const std::string& word, const std::set<std::string>& names);

// The whole text file. NotFound, or Unavailable with the reason.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace skerry
