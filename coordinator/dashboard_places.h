// Where on Earth a region is, by what its node calls it: a city, a country, a region of a public
// cloud, or coordinates ("my cellar @ 47.4,8.5"). Nothing is looked up anywhere: who wants to be on
// the map says a name that stands here, or where it is, as exactly as it likes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace skerry {

struct Place {
  double latitude = 0, longitude = 0;  // degrees, north and east
};

// Upper and lower case, spaces and hyphens do not matter. Nothing for a name that is not known.
std::optional<Place> PlaceOf(const std::string& region);

// Coasts, coarse: closed lines of places. Drawn by hand for this page: right to some 200 km.
const std::vector<std::vector<Place>>& Coasts();

}  // namespace skerry
