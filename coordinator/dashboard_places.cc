#include "coordinator/dashboard_places.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

namespace skerry {
namespace {

struct Named {
  Place at;
  const char* names;  // as Plain() makes them, separated by spaces
};

// Names of clouds stand where their operators say the region is; a country's at its middle, or
// where most of its people are.
constexpr Named kPlaces[] = {
    {{52.4, 4.9}, "amsterdam nl netherlands westeurope europewest4"},
    {{38.0, 23.7}, "athens greece"},
    {{33.7, -84.4}, "atlanta"},
    {{30.3, -97.7}, "austin"},
    {{25.9, 50.5}, "bahrain mesouth1"},
    {{12.97, 77.6}, "bangalore bengaluru"},
    {{13.8, 100.5}, "bangkok thailand apsoutheast7 asiasoutheast3"},
    {{41.4, 2.2}, "barcelona"},
    {{39.9, 116.4}, "beijing china cnnorth1"},
    {{50.8, 4.4}, "brussels belgium europewest1"},
    {{52.5, 13.4}, "berlin germanynorth europewest10"},
    {{4.7, -74.1}, "bogota colombia"},
    {{42.4, -71.1}, "boston"},
    {{-27.5, 153.0}, "brisbane"},
    {{44.4, 26.1}, "bucharest romania"},
    {{47.5, 19.0}, "budapest hungary"},
    {{-34.6, -58.4}, "buenosaires argentina"},
    {{51.0, -114.1}, "calgary cawest1"},
    {{52.2, 0.1}, "cambridge"},
    {{-33.9, 18.4}, "capetown southafricawest afsouth1"},
    {{51.5, -3.2}, "cardiff ukwest"},
    {{13.1, 80.3}, "chennai southindia"},
    {{41.9, -87.6}, "chicago northcentralus illinois"},
    {{55.7, 12.6}, "copenhagen denmark denmarkeast"},
    {{41.3, -95.9}, "iowa centralus uscentral1"},
    {{32.8, -96.8}, "dallas texas southcentralus ussouth1"},
    {{39.7, -105.0}, "denver"},
    {{28.6, 77.2}, "delhi asiasouth2"},
    {{25.3, 51.5}, "doha qatar qatarcentral mecentral1gcp"},
    {{25.2, 55.3}, "dubai unitedarabemirates uaenorth mecentral1"},
    {{24.5, 54.4}, "abudhabi uaecentral"},
    {{53.3, -6.3}, "dublin ireland northeurope euwest1"},
    {{55.9, -3.2}, "edinburgh scotland"},
    {{50.1, 8.7}, "frankfurt germany germanywestcentral eucentral1 europewest3"},
    {{46.2, 6.1}, "geneva switzerlandwest"},
    {{60.6, 27.2}, "hamina finland europenorth1"},
    {{21.0, 105.8}, "hanoi vietnam"},
    {{60.2, 24.9}, "helsinki"},
    {{22.3, 114.2}, "hongkong eastasia apeast1 asiaeast2"},
    {{21.3, -157.9}, "honolulu hawaii"},
    {{17.4, 78.5}, "hyderabad apsouth2 southindia2"},
    {{41.0, 28.9}, "istanbul turkey"},
    {{-6.2, 106.8}, "jakarta indonesia indonesiacentral apsoutheast3 asiasoutheast2"},
    {{-26.2, 28.0}, "johannesburg southafrica southafricanorth africasouth1"},
    {{50.5, 30.5}, "kyiv kiev ukraine"},
    {{3.1, 101.7}, "kualalumpur malaysia malaysiawest apsoutheast5"},
    {{6.5, 3.4}, "lagos nigeria"},
    {{-12.0, -77.0}, "lima peru"},
    {{38.7, -9.1}, "lisbon portugal"},
    {{51.5, -0.1}, "london unitedkingdom uk uksouth euwest2 europewest2"},
    {{34.1, -118.2}, "losangeles la uswest2gcp california"},
    {{40.4, -3.7}, "madrid spain spaincentral europesouthwest1"},
    {{41.6, -0.9}, "zaragoza eusouth2"},
    {{14.6, 121.0}, "manila philippines"},
    {{43.3, 5.4}, "marseille francesouth"},
    {{-37.8, 145.0}, "melbourne australiasoutheast apsoutheast4 australiasoutheast2"},
    {{19.4, -99.1}, "mexicocity mexico"},
    {{20.6, -100.4}, "queretaro mexicocentral mxcentral1 northamericasouth1"},
    {{25.8, -80.2}, "miami florida"},
    {{45.5, 9.2}, "milan italy italynorth eusouth1 europewest8"},
    {{43.7, 7.4}, "monaco nice"},
    {{45.5, -73.6}, "montreal canada cacentral1 northamericanortheast1"},
    {{46.8, -71.2}, "quebec canadaeast"},
    {{55.8, 37.6}, "moscow russia"},
    {{19.1, 72.9}, "mumbai westindia india apsouth1 asiasouth1"},
    {{18.5, 73.9}, "pune centralindia"},
    {{48.1, 11.6}, "munich"},
    {{-1.3, 36.8}, "nairobi kenya"},
    {{40.7, -74.0}, "newyork"},
    {{40.0, -83.0}, "columbus ohio useast2 useast5"},
    {{45.6, -121.2}, "oregon uswest2 uswest1gcp westus2oregon"},
    {{34.7, 135.5}, "osaka japanwest apnortheast3 asianortheast2"},
    {{59.9, 10.8}, "oslo norway norwayeast"},
    {{59.0, 5.7}, "stavanger norwaywest"},
    {{48.9, 2.4}, "paris france francecentral euwest3 europewest9"},
    {{-32.0, 115.9}, "perth"},
    {{40.4, -80.0}, "pittsburgh"},
    {{33.4, -112.1}, "phoenix arizona westus3"},
    {{45.5, -122.7}, "portland"},
    {{50.1, 14.4}, "prague czechia"},
    {{64.1, -21.9}, "reykjavik iceland"},
    {{56.9, 24.1}, "riga latvia"},
    {{24.7, 46.7}, "riyadh saudiarabia mecentral2"},
    {{41.9, 12.5}, "rome"},
    {{37.8, -122.4}, "sanfrancisco westus uswest1"},
    {{-33.4, -70.7}, "santiago chile chilecentral southamericawest1"},
    {{-23.5, -46.6}, "saopaulo brazil brazilsouth saeast1 southamericaeast1"},
    {{-22.9, -43.2}, "riodejaneiro brazilsoutheast"},
    {{47.6, -122.3}, "seattle washington westus2"},
    {{37.6, 127.0}, "seoul southkorea korea koreacentral apnortheast2 asianortheast3"},
    {{35.2, 129.1}, "busan koreasouth"},
    {{31.2, 121.5}, "shanghai"},
    {{22.5, 114.1}, "shenzhen"},
    {{1.35, 103.8}, "singapore southeastasia apsoutheast1 asiasoutheast1"},
    {{42.7, 23.3}, "sofia bulgaria"},
    {{33.8, -81.2}, "southcarolina useast1gcp"},
    {{59.3, 18.1}, "stockholm sweden eunorth1 europenorth2"},
    {{60.7, 17.1}, "gavle swedencentral"},
    {{-33.9, 151.2}, "sydney australia australiaeast apsoutheast2 australiasoutheast1"},
    {{25.0, 121.5}, "taipei taiwan apeast2 asiaeast1 taiwannorth"},
    {{59.4, 24.7}, "tallinn estonia"},
    {{32.1, 34.8}, "telaviv israel israelcentral ilcentral1 mewest1"},
    {{35.7, 139.7}, "tokyo japan japaneast apnortheast1 asianortheast1"},
    {{43.7, -79.4}, "toronto canadacentral northamericanortheast2"},
    {{49.3, -123.1}, "vancouver"},
    {{48.2, 16.4}, "vienna austria austriaeast"},
    {{54.7, 25.3}, "vilnius lithuania"},
    {{38.9, -77.5}, "virginia northernvirginia washingtondc eastus useast1 useast4"},
    {{36.7, -78.4}, "boydton eastus2"},
    {{52.2, 21.0}, "warsaw poland polandcentral europecentral2"},
    {{-41.3, 174.8}, "wellington"},
    {{-36.8, 174.8}, "auckland newzealand newzealandnorth apsoutheast6"},
    {{41.1, -104.8}, "wyoming westcentralus"},
    {{39.1, -94.6}, "kansascity unitedstates usa"},
    {{36.2, -115.1}, "lasvegas nevada uswest4"},
    {{40.8, -111.9}, "saltlakecity utah uswest3"},
    {{47.4, 8.5}, "zurich zuerich zürich switzerland switzerlandnorth eucentral2 europewest6"},
};

std::string Plain(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (c == ' ' || c == '-' || c == '_' || c == '.') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::map<std::string, Place> Book() {
  std::map<std::string, Place> book;
  for (const Named& place : kPlaces) {
    std::string name;
    for (const char* c = place.names;; ++c) {
      if (*c != ' ' && *c != 0) {
        name += *c;
        continue;
      }
      book.emplace(name, place.at);
      name.clear();
      if (*c == 0) break;
    }
  }
  return book;
}

// "47.4,8.5", also after an @.
std::optional<Place> Coordinates(const std::string& text) {
  const size_t at = text.find('@');
  const std::string numbers = text.substr(at == std::string::npos ? 0 : at + 1);
  char* end = nullptr;
  const double latitude = std::strtod(numbers.c_str(), &end);
  if (end == numbers.c_str() || *end != ',') return std::nullopt;
  const char* second = end + 1;
  const double longitude = std::strtod(second, &end);
  while (*end == ' ') ++end;
  const bool is_place = end != second && *end == 0 && latitude >= -90 && latitude <= 90 &&
                        longitude >= -180 && longitude <= 180;
  return is_place ? std::optional(Place{latitude, longitude}) : std::nullopt;
}

}  // namespace

std::optional<Place> PlaceOf(const std::string& region) {
  static const std::map<std::string, Place> book = Book();
  if (const auto place = Coordinates(region)) return place;
  const auto found = book.find(Plain(region.substr(0, region.find('@'))));
  return found == book.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace skerry
