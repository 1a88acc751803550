#include "coordinator/line_testing.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace skerry {

void LineTesting::Begin(LinkMatrix links, std::map<NodeId, std::string> addresses, Instant now,
                        bool fans_out) {
  if (!IsOver()) return;
  fans_out_ = fans_out;
  nodes_ = links.nodes();
  addresses_ = std::move(addresses);
  links_ = std::move(links);
  Set(LineTestsOf(*links_, addresses_, fans_out_), now);
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
}

LineFinding LineTesting::Finding() const {
  const LineTest& test = tests_.front();
  if (!test.FansOut()) return {test.members, alone_rates_, together_rates_};
  const double sum = std::accumulate(together_rates_.begin(), together_rates_.end(), 0.0);
  return {test.members, {std::ranges::max(test.rates)}, {sum}};
}

std::vector<LineTesting::Transfer> LineTesting::Ask(size_t first, size_t last, Instant now) {
  std::vector<Transfer> transfers;
  const LineTest& test = tests_.front();
  for (size_t i = first; i < last; ++i) {
    awaited_.insert(i);
    transfers.push_back({test.SenderTo(i), test.targets[i], LineBytes(test.rates[i])});
  }
  asked_ = now;
  return transfers;
}

bool LineTesting::IsSlow() const {
  const std::vector<double>& rates = tests_.front().rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (together_rates_[i] < LineFinding::kAlone * rates[i]) return true;
  }
  return false;
}

std::vector<LineTesting::Transfer> LineTesting::Next(Instant now) {
  if (!awaited_.empty() && now - asked_ > kPatience) {
    // A program of before has one transfer at a time, and so will others here.
    const bool fanned_out = tests_.front().FansOut();
    EndTest();
    while (fanned_out && !tests_.empty()) {
      begun_.insert(tests_.front().members);
      tests_.pop_front();
    }
  }
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
  const size_t targets = test.targets.size();
  if (part_ == Part::kAlone && alone_ < targets && !test.FansOut())
    return Ask(alone_, alone_ + 1, now);
  if (part_ == Part::kAlone) part_ = Part::kAgain;
  if (part_ == Part::kFirst) {
    begun_.insert(test.members);
    alone_rates_ = test.rates;
    together_rates_.assign(targets, 0);
  }
  return Ask(0, targets, now);
}

bool LineTesting::Answered(const NodeId& from, const NodeId& target, double bytes_per_s) {
  if (tests_.empty()) return false;
  const LineTest& test = tests_.front();
  const auto found = std::ranges::find(test.targets, target);
  const auto i = static_cast<size_t>(found - test.targets.begin());
  if (found == test.targets.end() || test.SenderTo(i) != from || awaited_.erase(i) == 0)
    return false;
  (part_ == Part::kAlone ? alone_rates_ : together_rates_)[i] = bytes_per_s;
  if (!awaited_.empty()) return true;
  if (part_ == Part::kAlone) {
    ++alone_;
  } else if (part_ == Part::kFirst && IsSlow()) {
    part_ = Part::kAlone;
    alone_ = 0;
  } else {
    found_ = Finding();
    EndTest();
    if (links_ && !found_->Sharing().empty()) {
      SetLines({*found_}, &*links_);
      Set(LineTestsOf(*links_, addresses_, fans_out_), *began_);
    }
  }
  return true;
}

std::optional<LineFinding> LineTesting::TakeFinding() {
  return std::exchange(found_, std::nullopt);
}

}  // namespace skerry
