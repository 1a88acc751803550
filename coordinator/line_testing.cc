#include "coordinator/line_testing.h"

#include <algorithm>
#include <utility>

namespace skerry {

void LineTesting::Begin(LinkMatrix links, std::map<NodeId, std::string> addresses, Instant now) {
  if (!IsOver()) return;
  nodes_ = links.nodes();
  addresses_ = std::move(addresses);
  links_ = std::move(links);
  Set(LineTestsOf(*links_, addresses_), now);
}

void LineTesting::Set(const std::vector<LineTest>& tests, Instant now) {
  if (!IsBetweenTests()) return;
  if (!began_ || (tests_.empty() && now - *began_ > kLongest + kSoon)) began_ = now;
  tests_.clear();
  for (const LineTest& test : tests) {
    if (!begun_.contains(test.members)) tests_.push_back(test);
  }
}

void LineTesting::EndTest() {
  tests_.pop_front();
  part_ = Part::kFirst;
  awaited_.clear();
  finding_ = {};
}

std::vector<LineTesting::Transfer> LineTesting::Ask(size_t first, size_t last, Instant now) {
  std::vector<Transfer> transfers;
  const LineTest& test = tests_.front();
  for (size_t i = first; i < last; ++i) {
    awaited_.insert(i);
    transfers.push_back({test.members[i], test.targets[i], LineBytes(test.rates[i])});
  }
  asked_ = now;
  return transfers;
}

bool LineTesting::IsSlow() const {
  const std::vector<double>& rates = tests_.front().rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (finding_.together[i] < LineFinding::kAlone * rates[i]) return true;
  }
  return false;
}

std::vector<LineTesting::Transfer> LineTesting::Next(Instant now) {
  if (!awaited_.empty() && now - asked_ > kPatience) EndTest();
  if (!awaited_.empty()) return {};
  if (!tests_.empty() && now - *began_ > kLongest) {
    for (const LineTest& test : tests_) begun_.insert(test.members);
    tests_.clear();
    part_ = Part::kFirst;
  }
  if (tests_.empty()) {
    links_.reset();
    return {};
  }
  const LineTest& test = tests_.front();
  const size_t members = test.members.size();
  if (part_ == Part::kAlone && alone_ < members) return Ask(alone_, alone_ + 1, now);
  if (part_ == Part::kAlone) part_ = Part::kAgain;
  if (part_ == Part::kFirst) {
    begun_.insert(test.members);
    finding_.members = test.members;
    finding_.alone.resize(members);
    finding_.together.resize(members);
  }
  return Ask(0, members, now);
}

bool LineTesting::Answered(const NodeId& from, const NodeId& target, double bytes_per_s) {
  if (tests_.empty()) return false;
  const LineTest& test = tests_.front();
  const auto member = std::ranges::find(test.members, from);
  const auto i = static_cast<size_t>(member - test.members.begin());
  if (member == test.members.end() || test.targets[i] != target || awaited_.erase(i) == 0)
    return false;
  (part_ == Part::kAlone ? finding_.alone : finding_.together)[i] = bytes_per_s;
  if (!awaited_.empty()) return true;
  if (part_ == Part::kAlone) {
    ++alone_;
  } else if (part_ == Part::kFirst && IsSlow()) {
    part_ = Part::kAlone;
    alone_ = 0;
  } else {
    if (part_ == Part::kFirst) finding_.alone = test.rates;
    found_ = std::move(finding_);
    EndTest();
    if (links_ && !found_->Sharing().empty()) {
      SetLines({*found_}, &*links_);
      Set(LineTestsOf(*links_, addresses_), *began_);
    }
  }
  return true;
}

std::optional<LineFinding> LineTesting::TakeFinding() {
  return std::exchange(found_, std::nullopt);
}

}  // namespace skerry
