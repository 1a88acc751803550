#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

// A part of the tree that may include itself and every zone of a lower floor.
struct Zone {
  std::string_view prefix;
  int floor;
};

// First match wins. `wire/` is split: its messages stand below the logic, its sockets below the
// programs.
constexpr Zone kZones[] = {
    {"common/", 0},       {"kernels/", 1},       {"wire/message/", 1},  {"wire/actor.h", 1},
    {"wire/courier.", 1}, {"wire/", 2},          {"model/", 3},         {"compression/", 3},
    {"routing/", 3},      {"pipeline/plan/", 3}, {"pipeline/exec/", 4}, {"localsgd/", 4},
    {"coordinator/", 5},  {"node/", 5},          {"sim/", 6},           {"tests/", 8},
    {"bench/", 7},        {"tools/", 7},
};

const Zone* ZoneOf(std::string_view path) {
  for (const Zone& zone : kZones) {
    if (path.starts_with(zone.prefix)) return &zone;
  }
  return nullptr;
}

bool IsMessageZone(const Zone& zone) {
  return zone.floor == 1 && zone.prefix.starts_with("wire/");
}

bool IsTransport(const Zone& zone) {
  return zone.prefix == "wire/";
}

bool MayOpenSockets(std::string_view path, const Zone& zone) {
  return IsTransport(zone) || zone.floor >= 6 || IsProgramFile(path);
}

bool MayInclude(std::string_view path, const Zone& from, const Zone& to) {
  if (&from == &to || (IsMessageZone(from) && IsMessageZone(to))) return true;
  if (IsTransport(to)) return MayOpenSockets(path, from);
  if (IsTransport(from)) return to.floor == 0 || IsMessageZone(to);
  if (from.prefix == "pipeline/plan/" && to.prefix == "routing/") return true;
  return to.floor < from.floor;
}

}  // namespace

bool IsProgramFile(std::string_view path) {
  if (path.starts_with("bench/") || path.starts_with("tools/")) return true;
  const std::string_view stem = Stem(path);
  const bool real_processes =
      stem.starts_with("emulat") || stem.starts_with("soak") || stem.starts_with("child_process");
  if (path.starts_with("sim/") && real_processes) return true;
  if (path.starts_with("sim/packet/")) return true;
  if (path.starts_with("coordinator/run_directory.")) return true;
  return stem == "main" || stem == "program" || stem.ends_with("_program") ||
         stem.ends_with("_command") || stem.ends_with("_commands") || stem == "commands";
}

void CheckFloors(const Source& source, Findings& findings) {
  const Zone* from = ZoneOf(source.path);
  if (from == nullptr) return;
  for (const Include& include : source.includes) {
    const Zone* to = ZoneOf(include.target);
    if (to == nullptr || MayInclude(source.path, *from, *to)) continue;
    const std::string why = IsTransport(*to)
                                ? "wire/ beyond messages, actor and courier is for program files"
                            : to->floor == from->floor ? "that is sideways"
                                                       : "that is up";
    findings.push_back(
        {source.path, include.line, "floors",
         std::string(from->prefix) + " may not include " + include.target + ": " + why});
  }
}

}  // namespace skerry::tidy
