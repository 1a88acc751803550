#include "node/network_cards.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/status.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCardsMax = 256;

std::string LineOf(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// What is in a directory, by name; nothing where there is none.
std::vector<fs::path> Inside(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (found.size() < kCardsMax) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Ports of RDMA cards (Documentation/ABI/stable/sysfs-class-infiniband): link_layer "InfiniBand" or
// "Ethernet", rate "200 Gb/sec (4X HDR)", state "4: ACTIVE".
void AddRdmaPorts(const fs::path& sys, std::vector<NetworkCard>& cards) {
  for (const fs::path& device : Inside(sys / "class/infiniband")) {
    for (const fs::path& port : Inside(device / "ports")) {
      NetworkCard card;
      card.name = device.filename().string() + " port " + port.filename().string();
      card.kind = LineOf(port / "link_layer") == "InfiniBand" ? NetworkKind::kInfiniband
                                                              : NetworkKind::kRoce;
      card.gbit_s = std::max(0.0, std::strtod(LineOf(port / "rate").c_str(), nullptr));
      card.is_up = LineOf(port / "state").find("ACTIVE") != std::string::npos;
      cards.push_back(std::move(card));
    }
  }
}

// Interfaces of RDMA cards: the same hardware under another name.
std::set<std::string> RdmaInterfaces(const fs::path& sys) {
  std::set<std::string> names;
  for (const fs::path& device : Inside(sys / "class/infiniband")) {
    for (const fs::path& name : Inside(device / "device/net")) names.insert(name.filename());
  }
  return names;
}

// `device` is there for hardware, and not for bridges, tunnels and the like; `speed` is in Mbit/s,
// −1 where the driver does not know.
void AddInterfaces(const fs::path& sys, std::vector<NetworkCard>& cards) {
  const std::set<std::string> of_rdma = RdmaInterfaces(sys);
  for (const fs::path& interface : Inside(sys / "class/net")) {
    std::error_code error;
    const std::string name = interface.filename();
    if (of_rdma.count(name) != 0 || !fs::exists(interface / "device", error)) continue;
    NetworkCard card;
    card.name = name;
    card.gbit_s = std::max(0.0, std::strtod(LineOf(interface / "speed").c_str(), nullptr) / 1000);
    card.is_up = LineOf(interface / "operstate") == "up";
    cards.push_back(std::move(card));
  }
}

}  // namespace

std::vector<NetworkCard> NetworkCards(const std::string& sys) {
  std::vector<NetworkCard> cards;
  AddRdmaPorts(sys, cards);
  AddInterfaces(sys, cards);
  std::stable_sort(cards.begin(), cards.end(), [](const NetworkCard& a, const NetworkCard& b) {
    return a.is_up != b.is_up ? a.is_up : a.gbit_s > b.gbit_s;
  });
  return cards;
}

const char* KindName(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::kInfiniband:
      return "InfiniBand";
    case NetworkKind::kRoce:
      return "RoCE";
    case NetworkKind::kEthernet:
      break;
  }
  return "Ethernet";
}

std::string Describe(const NetworkCard& card) {
  std::string text = absl::StrFormat("%s %s", KindName(card.kind), card.name);
  if (card.gbit_s > 0) text += absl::StrFormat(", %.4g Gbit/s", card.gbit_s);
  return card.is_up ? text : text + ", down";
}

std::string NetworkOf(const std::vector<NetworkCard>& cards) {
  const auto up =
      std::find_if(cards.begin(), cards.end(), [](const NetworkCard& card) { return card.is_up; });
  return up == cards.end() ? "" : KindName(up->kind);
}

}  // namespace skerry
