// [[trace]]: rates (and delay, loss) of a pair or a site over time, from a CSV file.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/status.h"
#include "sim/network_reader.h"
#include "sim/network_reader_units.h"
#include "sim/scenario_table.h"

namespace skerry {
namespace {

constexpr double kTraceSecondsMax = 1e7;
constexpr size_t kChangesMax = 1'000'000;

// One line of a trace; what its file does not have stays as it is.
struct Sample {
  double at_s = 0;
  std::optional<double> up, down;  // bytes per second; of a pair both are its rate
  std::optional<Duration> one_way;
  std::optional<double> loss;
};

class SampleReader {
 public:
  explicit SampleReader(const DataTable& table) : table_(table) {}

  absl::StatusOr<std::vector<Sample>> Read(bool of_site) {
    const std::set<std::string> known =
        of_site ? std::set<std::string>{"t_s", "mbps", "up_mbps", "down_mbps"}
                : std::set<std::string>{"t_s", "mbps", "rtt_ms", "one_way_ms", "loss"};
    for (const std::string& column : table_.columns) {
      if (!known.contains(column))
        return InvalidArgument("%s: unknown column '%s'", table_.file, column);
    }
    if (!table_.Has("t_s")) return table_.Column("t_s").status();
    std::vector<Sample> samples;
    for (const DataTable::Row& row : table_.rows) {
      SKERRY_ASSIGN_OR_RETURN(Sample sample, ReadRow(row));
      if (!samples.empty() && sample.at_s <= samples.back().at_s)
        return InvalidArgument("%s:%d: t_s must grow", table_.file, row.line);
      samples.push_back(sample);
    }
    return samples;
  }

 private:
  // Calls `use` with the cell of `column`, if the file has that column.
  template <typename Use>
  absl::Status Cell(const DataTable::Row& row, const char* column, double min, double max,
                    Use&& use) {
    if (!table_.Has(column)) return absl::OkStatus();
    SKERRY_ASSIGN_OR_RETURN(const size_t index, table_.Column(column));
    SKERRY_ASSIGN_OR_RETURN(const double value, table_.Number(row, index, min, max));
    use(value);
    return absl::OkStatus();
  }

  absl::StatusOr<Sample> ReadRow(const DataTable::Row& row) {
    Sample sample;
    const auto rate = [&](const char* column, bool up, bool down) {
      return Cell(row, column, kRateMbpsMin, kRateMbpsMax, [&](double mbps) {
        if (up) sample.up = BytesPerSecond(mbps);
        if (down) sample.down = BytesPerSecond(mbps);
      });
    };
    SKERRY_RETURN_IF_ERROR(
        Cell(row, "t_s", 0, kTraceSecondsMax, [&](double s) { sample.at_s = s; }));
    SKERRY_RETURN_IF_ERROR(rate("mbps", true, true));
    SKERRY_RETURN_IF_ERROR(rate("up_mbps", true, false));
    SKERRY_RETURN_IF_ERROR(rate("down_mbps", false, true));
    SKERRY_RETURN_IF_ERROR(Cell(row, "rtt_ms", 0, kDelayMsMax,
                                [&](double ms) { sample.one_way = DurationOfMs(ms / 2); }));
    SKERRY_RETURN_IF_ERROR(Cell(row, "one_way_ms", 0, kDelayMsMax,
                                [&](double ms) { sample.one_way = DurationOfMs(ms); }));
    SKERRY_RETURN_IF_ERROR(
        Cell(row, "loss", 0, kLossMax, [&](double share) { sample.loss = share; }));
    return sample;
  }

  const DataTable& table_;
};

// The samples at their times, again every `every_s` (0: once), up to the horizon; nullopt: too
// many.
std::optional<std::vector<Sample>> Unroll(const std::vector<Sample>& samples, double every_s,
                                          double horizon_s) {
  std::vector<Sample> unrolled;
  for (double start = 0; start <= horizon_s; start += every_s) {
    for (Sample sample : samples) {
      sample.at_s += start;
      if (sample.at_s > horizon_s) return unrolled;
      if (unrolled.size() == kChangesMax) return std::nullopt;
      unrolled.push_back(sample);
    }
    if (every_s == 0) break;
  }
  return unrolled;
}

Instant At(double seconds) {
  return Instant() + DurationOfSeconds(seconds);
}

}  // namespace

void NetworkReader::ReadTraces(Duration horizon) {
  for (TomlTable* trace : document_.Elements("trace")) ReadTrace(*trace, horizon);
  std::stable_sort(network_.path_changes.begin(), network_.path_changes.end(),
                   [](const PathChange& a, const PathChange& b) {
                     return std::tie(a.at, a.from, a.to) < std::tie(b.at, b.from, b.to);
                   });
  std::stable_sort(network_.site_changes.begin(), network_.site_changes.end(),
                   [](const SiteChange& a, const SiteChange& b) {
                     return std::tie(a.at, a.site) < std::tie(b.at, b.site);
                   });
}

void NetworkReader::ReadTrace(TomlTable& trace, Duration horizon) {
  const auto file = trace.Text("file");
  if (!file) return trace.Fail("file", "a trace needs a file");
  const auto every_s = trace.Number("repeat_every_s", 1, kTraceSecondsMax);
  const bool of_site = trace.Has("site");
  const auto table = LoadDataTable(directory_ + "/" + *file);
  if (!table.ok()) return trace.Fail("file", ErrorText(table.status()));
  const auto samples = SampleReader(*table).Read(of_site);
  if (!samples.ok()) return trace.Fail("file", ErrorText(samples.status()));
  if (every_s && *every_s <= samples->back().at_s)
    return trace.Fail("repeat_every_s", "must be after the last t_s of the file");
  const auto unrolled = Unroll(*samples, every_s.value_or(0), horizon.seconds());
  if (!unrolled)
    return trace.Fail("file", absl::StrFormat("more than %d changes in all", kChangesMax));

  if (of_site) {
    const auto site = FindSite(trace.Text("site").value_or(""));
    if (!site) return trace.Fail("site", "there is no site of that name");
    if (!traced_sites_.insert(*site).second)
      return trace.Fail("site", "this site has a trace already");
    SiteSpec now = network_.sites[static_cast<size_t>(*site)];
    for (const Sample& sample : *unrolled) {
      now.up_bytes_per_s = sample.up.value_or(now.up_bytes_per_s);
      now.down_bytes_per_s = sample.down.value_or(now.down_bytes_per_s);
      network_.site_changes.push_back(
          {At(sample.at_s), *site, now.up_bytes_per_s, now.down_bytes_per_s});
    }
    return;
  }
  const auto a = Region(trace, "a"), b = Region(trace, "b");
  const size_t direction = trace.Choice("direction", {"both", "one_way"}).value_or(0);
  if (!a || !b) return;
  std::vector<std::pair<int32_t, int32_t>> ways = {{*a, *b}};
  if (direction == 0 && *a != *b) ways.emplace_back(*b, *a);
  for (const auto& [from, to] : ways) {
    if (!traced_paths_.insert({from, to}).second)
      return trace.Fail("a", "this way has a trace already");
    PathSpec now = Path(from, to);
    for (const Sample& sample : *unrolled) {
      now.bytes_per_s = sample.up.value_or(now.bytes_per_s);
      now.one_way = sample.one_way.value_or(now.one_way);
      now.loss = sample.loss.value_or(now.loss);
      network_.path_changes.push_back({At(sample.at_s), from, to, now});
    }
  }
}

}  // namespace skerry
