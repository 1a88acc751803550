#include "coordinator/dashboard_picture_program.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

#include "common/status.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kFresh =
    std::chrono::milliseconds(500);  // a view younger than this is not made anew

std::string ReadWhole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

DashboardPicture::DashboardPicture(fs::path directory)
    : process_(absl::StrFormat("%x", std::chrono::duration_cast<std::chrono::milliseconds>(
                                         std::chrono::system_clock::now().time_since_epoch())
                                         .count())),
      directory_(std::move(directory)),
      tail_(directory_ / "events.jsonl") {}

std::shared_ptr<const DashboardPicture::View> DashboardPicture::Now() {
  const std::lock_guard lock(mutex_);
  Refresh();
  return view_;
}

std::string DashboardPicture::Status() {
  const std::lock_guard lock(mutex_);
  Refresh();
  return status_text_;
}

std::string DashboardPicture::Nodes(size_t first, const std::string& find) {
  const std::lock_guard lock(mutex_);
  Refresh();
  const Json status = status_.is_object() ? status_ : Json::object();
  return Section("Nodes", "", NodeTable(status, first, find));
}

bool DashboardPicture::ReadOn() {
  const std::lock_guard lock(mutex_);
  return tail_.Read(kReadAtOnce).ok() && tail_.share_read() < 1;
}

int64_t DashboardPicture::VersionIn(const std::string& seen) const {
  const size_t dash = seen.find('-');
  if (dash == std::string::npos || seen.substr(0, dash) != process_) return 0;
  return std::strtoll(seen.c_str() + dash + 1, nullptr, 10);
}

std::string DashboardPicture::Metrics() {
  const std::lock_guard lock(mutex_);
  Refresh();
  return MetricsText(status_, status_age_s_);
}

std::string DashboardPicture::Report() {
  const std::lock_guard lock(mutex_);
  Refresh();
  return ReportJson(tail_.Report());
}

absl::StatusOr<std::string> DashboardPicture::At(double seconds) {
  const std::lock_guard lock(mutex_);
  // The present is not looked at: a view of it would take longer than one of the past.
  tail_.Read(kReadAtOnce).status().IgnoreError();
  SKERRY_ASSIGN_OR_RETURN(const RunReport report, tail_.ReportUntil(seconds));
  Json pieces = Json::object();
  for (const auto& [id, html] : DashboardView(nullptr, 0, report)) pieces[id] = html;
  return Dump({{"now_s", tail_.now_s()}, {"pieces", std::move(pieces)}});
}

absl::StatusOr<std::string> DashboardPicture::Events(int64_t first, int64_t count) {
  const std::lock_guard lock(mutex_);
  tail_.Read(kReadAtOnce).status().IgnoreError();
  SKERRY_ASSIGN_OR_RETURN(const auto lines, tail_.Lines(first, std::min(count, kEventsMax)));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string DashboardPicture::Admission() const {
  return ReadWhole(directory_ / "admission.json");
}

void DashboardPicture::ReadStatus() {
  struct stat file {};
  const std::string path = (directory_ / "status.json").string();
  if (stat(path.c_str(), &file) != 0) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  status_age_s_ = static_cast<double>(now.tv_sec - file.st_mtim.tv_sec) +
                  1e-9 * static_cast<double>(now.tv_nsec - file.st_mtim.tv_nsec);
  std::string text = ReadWhole(path);
  Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_object()) return;
  status_text_ = std::move(text);
  status_ = std::move(parsed);
}

void DashboardPicture::Refresh() {
  const auto now = Clock::now();
  if (view_ && now - made_ < kFresh) return;
  made_ = now;
  ReadStatus();
  tail_.Read(kReadAtOnce).status().IgnoreError();  // not there yet: the next time
  const RunReport report = tail_.Report();
  const DashboardPieces pieces = DashboardView(status_, status_age_s_, report, tail_.share_read());
  auto view = std::make_shared<View>();
  view->version = view_ ? view_->version + 1 : 1;
  view->seen = absl::StrFormat("%s-%d", process_, view->version);
  view->now_s = tail_.now_s();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool same = view_ && view_->pieces[i].html == pieces[i].second;
    view->pieces.push_back(
        {pieces[i].first, pieces[i].second, same ? view_->pieces[i].changed : view->version});
  }
  view->admission = absl::StrFormat("%x", std::hash<std::string>()(Admission()));
  view->page = DashboardPage(pieces, report, view->seen);
  view_ = std::move(view);
}

}  // namespace skerry
