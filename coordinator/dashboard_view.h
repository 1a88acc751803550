// What the dashboard shows, as pieces of a page: of the status that a coordinator writes every
// heartbeat (status.json) and of the report of its events. Pure; every text from outside is
// escaped. Colours are the page's (coordinator/page.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/report.h"

namespace skerry {

// (id of the element, its markup), in the order of the page. Empty markup: nothing to show yet.
using DashboardPieces = std::vector<std::pair<std::string, std::string>>;

// `status`: null when there is none, or when the moment shown is past. `status_age_s`: since it was
// written. `history_read`: the share of the events that `report` is of.
DashboardPieces DashboardView(const nlohmann::json& status, double status_age_s,
                              const RunReport& report, double history_read = 1);

// The nodes of a status, one row each; of many only kNodesShown from number `first` on, of those
// whose row has `find` in it.
inline constexpr size_t kNodesShown = 50;
std::string NodeTable(const nlohmann::json& status, size_t first = 0, const std::string& find = "");

// Where nodes are, as far as their regions are known places; "" where none is.
std::string WorldMapSvg(const nlohmann::json& status, const RunReport& report);

// Every node, or of many every region, on a ring, and the measured links between them; "" for fewer
// than two, or where even the regions are too many.
std::string NetworkSvg(const nlohmann::json& status, const RunReport& report);

// The stages side by side, in each its replicas; arrows from who waits to whom it waits for. ""
// without a plan.
std::string PipelineSvg(const nlohmann::json& status, const RunReport& report);

// The page around the pieces, filled with them: of use without scripts, too.
// `seen`: what the script tells the server that it shows.
std::string DashboardPage(const DashboardPieces& pieces, const RunReport& report,
                          const std::string& seen = "");
// Keeps the page up to date; a file of its own, so that the page may forbid every other script.
std::string DashboardScript();

// The figures of a status in Prometheus' text format.
std::string MetricsText(const nlohmann::json& status, double status_age_s);

}  // namespace skerry
