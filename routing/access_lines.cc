#include "routing/access_lines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "routing/link_estimator.h"

namespace skerry {
namespace {

constexpr double kAboutAsFast = 0.95;
constexpr double kOfSharedLine = 0.25;
constexpr size_t kFanOutGroupsMin = 3;  // of two, speakers have one other

bool IsNear(const LinkMatrix& links, int32_t a, int32_t b, double rtt_s) {
  const LinkEstimate &there = links.At(a, b), &back = links.At(b, a);
  return there.usable() && back.usable() && std::max(there.rtt_s, back.rtt_s) < rtt_s;
}

// By node, the first one of its group.
std::vector<int32_t> GroupsOf(const LinkMatrix& links,
                              const std::map<NodeId, std::string>& addresses) {
  std::vector<int32_t> group(static_cast<size_t>(links.size()));
  std::iota(group.begin(), group.end(), 0);
  const auto address = [&](int32_t node) -> std::string {
    const auto found = addresses.find(links.nodes()[static_cast<size_t>(node)]);
    return found == addresses.end() ? "" : found->second;
  };
  const auto have_one_address = [&](int32_t a, int32_t b) {
    return !address(a).empty() && address(a) == address(b);
  };
  const auto have_any = [](int32_t, int32_t) { return true; };
  // Of the nodes that have none yet.
  const auto find_groups = [&](double rtt_s, const auto& may_be_one) {
    std::set<int32_t> alone;
    for (int32_t node = 0; node < links.size(); ++node) {
      if (std::ranges::count(group, group[static_cast<size_t>(node)]) == 1) alone.insert(node);
    }
    for (const int32_t b : alone) {
      for (const int32_t a : alone) {
        if (a >= b || !may_be_one(a, b) || !IsNear(links, a, b, rtt_s)) continue;
        const auto [kept, gone] =
            std::minmax({group[static_cast<size_t>(a)], group[static_cast<size_t>(b)]});
        std::ranges::replace(group, gone, kept);
      }
    }
  };
  find_groups(kOneRouterRttS, have_one_address);
  find_groups(kOneNetworkRttS, have_any);
  find_groups(LinkEstimator::kRttFloor, have_any);
  return group;
}

// Of `member` the fastest way out of its group that no other member takes, of those about as fast
// one into a group, and by all means to a line, that nobody takes; −1: none.
int32_t TargetOf(const LinkMatrix& links, const std::vector<int32_t>& group, int32_t member,
                 const std::set<int32_t>& taken) {
  std::set<int32_t> taken_groups, taken_lines;
  for (const int32_t node : taken) {
    taken_groups.insert(group[static_cast<size_t>(node)]);
    if (links.LineOf(node) >= 0) taken_lines.insert(links.LineOf(node));
  }
  int32_t best = -1;
  double best_worth = 0;
  for (int32_t node = 0; node < links.size(); ++node) {
    const int32_t of = group[static_cast<size_t>(node)];
    if (of == group[static_cast<size_t>(member)] || taken.contains(node)) continue;
    const LinkEstimate& link = links.At(member, node);
    if (!link.usable()) continue;
    const double worth = link.bytes_per_s * (taken_groups.contains(of) ? kAboutAsFast : 1) *
                         (taken_lines.contains(links.LineOf(node)) ? kOfSharedLine : 1);
    if (worth <= best_worth) continue;
    best = node;
    best_worth = worth;
  }
  return best;
}

// From the first member of a group whose line is not known to one of each other group.
LineTest FanOutOf(const LinkMatrix& links, const std::vector<int32_t>& group, int32_t of) {
  LineTest test;
  const auto rate_of = [&](int32_t node) {
    return links.LineOf(node) < 0 ? 0 : links.LineRate(links.LineOf(node));
  };
  int32_t from = 0;
  while (from < links.size() && (group[static_cast<size_t>(from)] != of || rate_of(from) > 0))
    ++from;
  if (from == links.size()) return test;
  std::map<int32_t, int32_t> fastest;  // by group
  for (int32_t to = 0; to < links.size(); ++to) {
    const int32_t of_target = group[static_cast<size_t>(to)];
    if (of_target == of || !links.At(from, to).usable()) continue;
    const auto [best, is_first] = fastest.emplace(of_target, to);
    const double rate = links.At(from, to).bytes_per_s;
    if (!is_first && rate > links.At(from, best->second).bytes_per_s) best->second = to;
  }
  std::vector<int32_t> targets;
  for (const auto& [number, target] : fastest) targets.push_back(target);
  std::ranges::stable_sort(targets, std::greater<>(),
                           [&](int32_t to) { return links.At(from, to).bytes_per_s; });
  if (targets.size() < 2) return test;
  test.members.push_back(links.nodes()[static_cast<size_t>(from)]);
  for (const int32_t to : targets) {
    if (test.targets.size() == kLineMembersMax) break;
    test.targets.push_back(links.nodes()[static_cast<size_t>(to)]);
    test.rates.push_back(links.At(from, to).bytes_per_s);
  }
  return test;
}

// Its own line, and that of those beside it that have lines of their own.
void SetOwnLine(const LineFinding& finding, LinkMatrix* links) {
  const int32_t node = links->IndexOf(finding.members.front());
  if (node < 0) return;
  const auto is_known = [&](int32_t of) {
    return links->LineOf(of) >= 0 && links->LineRate(links->LineOf(of)) > 0;
  };
  if (!is_known(node)) links->SetLine(node, links->AddLine(finding.bytes_per_s()));
  for (int32_t other = 0; other < links->size(); ++other) {
    if (other == node || links->LineOf(other) < 0 || is_known(other)) continue;
    if (IsNear(*links, node, other, LinkEstimator::kRttFloor))
      links->SetLine(other, links->AddLine(finding.bytes_per_s()));
  }
}

}  // namespace

int64_t LineBytes(double bytes_per_s) {
  const auto most = static_cast<double>(kLineBytesMax);
  return std::max(kLineBytesMin,
                  static_cast<int64_t>(std::min(most, kLineTransferS * bytes_per_s)));
}

bool LineFinding::IsWhole() const {
  const auto is_rate = [](double rate) { return std::isfinite(rate) && rate > 0; };
  return !members.empty() && alone.size() == members.size() && together.size() == members.size() &&
         std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end() &&
         std::ranges::all_of(alone, is_rate) && std::ranges::all_of(together, is_rate);
}

std::vector<size_t> LineFinding::Sharing() const {
  std::vector<size_t> sharing;
  for (size_t i = 0; i < members.size(); ++i) {
    if (together[i] < kAlone * alone[i]) sharing.push_back(i);
  }
  // Nobody shares with itself: something else held it up.
  if (sharing.size() < 2) sharing.clear();
  return sharing;
}

double LineFinding::bytes_per_s() const {
  if (FansOut()) return std::max(alone.front(), together.front());
  double sum = 0;
  std::vector<double> of_one;
  for (const size_t i : Sharing()) {
    sum += together[i];
    of_one.push_back(alone[i]);
  }
  if (of_one.empty()) return 0;
  // All of them read the same line; the fastest reading is the luckiest.
  const auto middle = of_one.begin() + std::ssize(of_one) / 2;
  std::ranges::nth_element(of_one, middle, std::greater<>());
  return std::max(sum, *middle);
}

std::vector<LineTest> LineTestsOf(const LinkMatrix& links,
                                  const std::map<NodeId, std::string>& addresses, bool fans_out) {
  const std::vector<int32_t> group = GroupsOf(links, addresses);
  std::vector<LineTest> tests;
  for (int32_t first = 0; first < links.size(); ++first) {
    LineTest test;
    std::set<int32_t> taken;
    for (int32_t node = first; node < links.size(); ++node) {
      if (group[static_cast<size_t>(node)] != first) continue;
      if (test.members.size() == kLineMembersMax) break;
      const int32_t target = TargetOf(links, group, node, taken);
      if (target < 0) continue;
      taken.insert(target);
      test.members.push_back(links.nodes()[static_cast<size_t>(node)]);
      test.targets.push_back(links.nodes()[static_cast<size_t>(target)]);
      test.rates.push_back(links.At(node, target).bytes_per_s);
    }
    if (test.members.size() >= 2) tests.push_back(std::move(test));
  }
  std::ranges::stable_sort(tests, std::greater<>(),
                           [](const LineTest& test) { return test.members.size(); });
  std::vector<int32_t> groups(group);
  std::ranges::sort(groups);
  const auto repeated = std::ranges::unique(groups);
  groups.erase(repeated.begin(), repeated.end());
  std::ranges::stable_sort(groups, std::greater<>(),
                           [&](int32_t of) { return std::ranges::count(group, of); });
  for (const int32_t of : groups) {
    if (!fans_out || groups.size() < kFanOutGroupsMin) break;
    LineTest test = FanOutOf(links, group, of);
    if (!test.members.empty()) tests.push_back(std::move(test));
  }
  return tests;
}

void SetLines(const std::vector<LineFinding>& findings, LinkMatrix* links) {
  for (const LineFinding& finding : findings) {
    if (finding.FansOut()) continue;
    const std::vector<size_t> sharing = finding.Sharing();
    const int32_t shared = links->AddLine(finding.bytes_per_s());
    for (size_t i = 0; i < finding.members.size(); ++i) {
      const int32_t node = links->IndexOf(finding.members[i]);
      if (node < 0) continue;
      const bool shares = std::ranges::find(sharing, i) != sharing.end();
      links->SetLine(node, shares ? shared : links->AddLine(0));
    }
  }
  for (const LineFinding& finding : findings) {
    if (finding.FansOut()) SetOwnLine(finding, links);
  }
}

}  // namespace skerry
