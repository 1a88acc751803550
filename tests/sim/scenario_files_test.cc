// What a scenario reads from files beside it: matrices, traces over time, traces of churn.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "sim/scenario.h"
#include "sim/scenario_table.h"
#include "tests/coded_error.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

// A directory with a file data.csv, gone afterwards.
class Folder {
 public:
  explicit Folder(const std::string& csv) : path_(NewPath()) {
    fs::create_directories(path_);
    std::ofstream(path_ / "data.csv") << csv;
  }
  ~Folder() { fs::remove_all(path_); }

  absl::StatusOr<Scenario> Parse(const std::string& rest) const {
    return ParseScenario(
        "name = \"test\"\nregions = [\"us\", \"eu\", \"asia\"]\n[run]\nnodes_min = 1\n" + rest,
        (path_ / "s.toml").string());
  }
  // Without the folder's name.
  std::string ErrorOf(const std::string& rest) const {
    const auto scenario = Parse(rest);
    std::string text = scenario.ok() ? "accepted" : WithoutCode(scenario.status().message());
    const std::string folder = path_.string() + "/";
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }

 private:
  static fs::path NewPath() {
    static int made = 0;
    return fs::temp_directory_path() /
           ("skerry_scenario_" + std::to_string(getpid()) + "_" + std::to_string(++made));
  }

  fs::path path_;
};

constexpr char kNodes[] = "[[nodes]]\nregion = \"us\"\ncount = 2\n";
constexpr char kUnlimited[] = "[pair_default]\nunlimited = true\n";

std::string Matrix(const std::string& keys) {
  return std::string(kUnlimited) + "[[matrix]]\nfile = \"data.csv\"\n" + keys + kNodes;
}

TEST_CASE("Matrix: a row holds for both ways unless the way back has its own, and the kind decides",
          "[sim][scenario]") {
  const Folder folder(
      "# measured in July\n"
      "from,to,ms\n"
      "us,eu,80\n"
      "us,asia,150\n"
      "asia,us,170\n"
      "eu,asia,200\n"
      "us,us,2\n"
      "us,mars,999\n");
  const auto scenario = folder.Parse(Matrix("column = \"ms\"\nkind = \"rtt\"\n"));
  REQUIRE(scenario.ok());
  const auto one_way_ms = [&](size_t from, size_t to) {
    return scenario->network.paths[from * 3 + to].one_way.millis();
  };
  CHECK(one_way_ms(0, 1) == 40);
  CHECK(one_way_ms(1, 0) == 40);
  CHECK(one_way_ms(0, 2) == 75);
  CHECK(one_way_ms(2, 0) == 85);
  CHECK(one_way_ms(0, 0) == 1);
  const auto one_way = folder.Parse(Matrix("column = \"ms\"\nkind = \"one_way\"\n"));
  REQUIRE(one_way.ok());
  CHECK(one_way->network.paths[1].one_way.millis() == 80);
}

TEST_CASE("Matrix: a square table names its regions by header and first column",
          "[sim][scenario]") {
  const Folder folder(
      ",us,eu,asia\n"
      "us,1,2,3\n"
      "eu,4,1,5\n"
      "asia,6,7,1\n");
  const std::string delays = "[[matrix]]\nfile = \"data.csv\"\nkind = \"one_way\"\n";
  const auto scenario = folder.Parse(
      delays + "[[matrix]]\nfile = \"data.csv\"\nkind = \"rate_gbps\"\ndiagonal = false\n" +
      kNodes);
  REQUIRE(scenario.ok());
  CHECK(scenario->network.paths[1].one_way == Duration::Millis(2));
  CHECK(scenario->network.paths[3].one_way == Duration::Millis(4));
  CHECK(scenario->network.paths[5].bytes_per_s == 5e9 / 8);
  CHECK(scenario->network.paths[0].one_way == Duration::Millis(1));
  CHECK(scenario->network.paths[0].bytes_per_s == 125e6);  // [same_region]'s
}

TEST_CASE("Matrix: mistakes name the scenario's line and the table's", "[sim][scenario][error]") {
  const Folder folder("from,to,ms\nus,eu,80\nus,asia,15O\neu,asia,200\n");
  CHECK(folder.ErrorOf(Matrix("column = \"ms\"\nkind = \"rtt\"\n")) ==
        "s.toml:8: data.csv:3: column 'ms' has '15O', want a number");
  CHECK(folder.ErrorOf(Matrix("column = \"rtt\"\nkind = \"rtt\"\n")) ==
        "s.toml:8: data.csv has no column 'rtt', it has 'from', 'to', 'ms'");
  CHECK(folder.ErrorOf(Matrix("column = \"ms\"\n")) ==
        "s.toml:7: say the kind: published tables mix round trips (\"rtt\") and one way "
        "(\"one_way\")");
  CHECK(folder.ErrorOf(Matrix("kind = \"rtt\"\n")) == "s.toml:8: data.csv has none of the regions");
  CHECK(folder.ErrorOf("[[matrix]]\nfile = \"none.csv\"\nkind = \"rtt\"\n") ==
        "s.toml:6: there is no file none.csv");
  const Folder partial("from,to,ms\nus,eu,80\nus,asia,150\n");
  CHECK(partial.ErrorOf(Matrix("column = \"ms\"\nkind = \"rtt\"\n")) ==
        "s.toml:2: the way from 'eu' to 'asia' has no delay: give a [[pair]], a [[matrix]] or "
        "[pair_default]");
  const Folder twice("from,to,ms\nus,eu,80\nus,eu,90\n");
  CHECK(twice.ErrorOf(Matrix("column = \"ms\"\nkind = \"rtt\"\n")) ==
        "s.toml:8: data.csv:3: this pair of regions came before");
}

TEST_CASE("Table: comments and blank lines are passed over, ragged and quoted rows are refused",
          "[sim][scenario][error]") {
  const auto table = ParseDataTable("# a\n\nx, y\n 1 ,2\r\n", "t.csv");
  REQUIRE(table.ok());
  CHECK(table->columns == std::vector<std::string>{"x", "y"});
  CHECK(table->rows.at(0).cells == std::vector<std::string>{"1", "2"});
  CHECK(table->rows.at(0).line == 4);
  CHECK(ParseDataTable("x,y\n1\n", "t.csv").status().message() ==
        "t.csv:2: 1 cells, the header has 2");
  CHECK(ParseDataTable("x\n\"1\"\n", "t.csv").status().message() ==
        "t.csv:2: quoted cells are not supported");
  CHECK(ParseDataTable("x\n", "t.csv").status().message() == "t.csv: want a header line and rows");
}

TEST_CASE("Trace: the rate of a pair follows its file, what the file lacks stays",
          "[sim][scenario]") {
  const Folder folder("t_s,mbps,loss\n10,80,0.01\n20,8,0\n");
  const std::string head = "[pair_default]\nrtt_ms = 80\nrate_mbps = 100\n" + std::string(kNodes) +
                           "[[trace]]\nfile = \"data.csv\"\na = \"us\"\nb = \"eu\"\n";
  const auto scenario = folder.Parse(head + "direction = \"one_way\"\n");
  REQUIRE(scenario.ok());
  const auto at = [](double s) { return Instant() + Duration::Seconds(s); };
  CHECK(scenario->network.path_changes ==
        std::vector<PathChange>{{at(10), 0, 1, {Duration::Millis(40), 10e6, 0, 0.01, Duration()}},
                                {at(20), 0, 1, {Duration::Millis(40), 1e6, 0, 0, Duration()}}});
  CHECK(folder.Parse(head)->network.path_changes.size() == 4);
  // An hour, every 30 s: 120 times two, and none after the horizon.
  CHECK(folder.Parse(head + "repeat_every_s = 30\ndirection = \"one_way\"\n")
            ->network.path_changes.size() == 240);
  CHECK(folder.ErrorOf(head + "repeat_every_s = 20\n") ==
        "s.toml:15: must be after the last t_s of the file");
}

TEST_CASE("Trace: unknown columns, falling times and a rate of zero are refused",
          "[sim][scenario][error]") {
  const std::string head = "[pair_default]\nrtt_ms = 80\nrate_mbps = 100\n" + std::string(kNodes) +
                           "[[trace]]\nfile = \"data.csv\"\na = \"us\"\nb = \"eu\"\n";
  CHECK(Folder("t_s,mbit\n1,1\n").ErrorOf(head) == "s.toml:12: data.csv: unknown column 'mbit'");
  CHECK(Folder("t_s,mbps\n1,1\n1,2\n").ErrorOf(head) == "s.toml:12: data.csv:3: t_s must grow");
  CHECK(Folder("t_s,mbps\n1,0\n").ErrorOf(head) ==
        "s.toml:12: data.csv:2: column 'mbps' has 0, allowed are 0.001 to 1000000");
}

TEST_CASE("Churn trace: what cannot have happened is refused with its line",
          "[sim][churn][error]") {
  const std::string head = "[pair_default]\nrtt_ms = 80\nrate_mbps = 100\n" + std::string(kNodes) +
                           "churn = \"spot\"\n[churn.spot]\ntrace = \"data.csv\"\n";
  const auto of = [&](const std::string& rows) {
    return Folder("t_ms,event,node\n" + rows).ErrorOf(head);
  };
  CHECK(of("0,add,a\n5000,remove,a\n6000,add,a\n") == "accepted");
  CHECK(of("0,add,a\n1,add,a\n") == "s.toml:13: data.csv:3: 'a' is there already");
  CHECK(of("0,remove,a\n") == "s.toml:13: data.csv:2: 'a' is not there");
  CHECK(of("0,join,a\n") == "s.toml:13: data.csv:2: event is 'join', allowed are 'add', 'remove'");
  CHECK(of("5,add,a\n4,add,b\n") == "s.toml:13: data.csv:3: t_ms must not fall");
  CHECK(of("0,add,a\n0,add,b\n0,add,c\n") ==
        "s.toml:13: the trace has up to 3 machines at once, there are 2 nodes with this churn");
}

TEST_CASE("Scenario: what is misspelt is told, not what is missing for want of it",
          "[sim][scenario][error]") {
  const Folder folder("");
  CHECK(folder.ErrorOf(kUnlimited + std::string("[[node]]\nregion = \"us\"\ncount = 2\n")) ==
        "s.toml:7: unknown section 'node'; nearest is 'nodes'");
  CHECK(folder.ErrorOf(kUnlimited + std::string("[[nodes]]\nregion = \"us\"\ncuont = 2\n")) ==
        "s.toml:9: unknown key 'cuont' in [[nodes]]; nearest is 'count'");
}

}  // namespace
}  // namespace skerry
