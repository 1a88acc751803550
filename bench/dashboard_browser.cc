#include "bench/dashboard_browser.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/check.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kChromium[] = "/usr/bin/chromium";
constexpr char kDriver[] = "/usr/bin/chromedriver";
constexpr char kElement[] = "element-6066-11e4-a52e-4f735466cecf";  // the standard's name of one

// As a function's body; returns the faults.
constexpr char kCheck[] = R"(
const faults = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== 'hidden';
const where = (e) => [e.tagName.toLowerCase(), e.id, e.getAttribute('class') || '',
  e.textContent.trim().slice(0, 30)].join(' ');
const fault = (rule, e) => faults.push(`${rule}: ${e ? where(e) : ''}`);
const said = (e, name) => (e.getAttribute(name) || '').trim();
const label = (e) => said(e, 'aria-label') || said(e, 'aria-labelledby');
const named = (e) => label(e) || (e.labels && e.labels.length > 0)
  || (e.tagName === 'BUTTON' && e.textContent.trim());
if (!document.documentElement.lang) fault('html-has-lang');
if (!document.title.trim()) fault('document-title');
if (all('main').length !== 1) fault('landmark-one-main');
if (all('h1').filter(shown).length !== 1) fault('page-has-heading-one');
let level = 0;
for (const h of all('h1,h2,h3,h4,h5,h6').filter(shown)) {
  const own = Number(h.tagName[1]);
  if (own > level + 1) fault('heading-order', h);
  level = own;
}
for (const e of all('button,input,select,textarea').filter(shown)) {
  if (!named(e)) fault('control-name', e);
}
for (const e of all('svg').filter(shown)) {
  if (e.getAttribute('role') !== 'img' || !named(e)) fault('svg-img-alt', e);
}
for (const t of all('table').filter(shown)) {
  if (t.querySelectorAll('th[scope]').length === 0) fault('table-headers', t);
  if (t.querySelector('th:not([scope])')) fault('th-scope', t);
}
for (const e of all('*').filter(shown)) {
  const style = getComputedStyle(e);
  const scrolls = /auto|scroll/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1;
  const reached = e.tabIndex >= 0 || e.querySelector('a[href],button,input');
  if (scrolls && !reached) fault('scrollable-region-focusable', e);
  if (Number(e.getAttribute('tabindex')) > 0) fault('tabindex', e);
}
const ids = all('[id]').map((e) => e.id);
for (const id of new Set(ids)) {
  if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`duplicate-id: ${id}`);
}
const rgba = (text) => [...text.match(/[\d.]+/g).map(Number), 1].slice(0, 4);
const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
function ground(e) {
  const layers = [];
  for (let at = e; at; at = at.parentElement) {
    const color = rgba(getComputedStyle(at).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
}
const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255)
  + 0.0722 * linear(c[2] / 255);
for (const e of all('body *').filter(shown)) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || ['TITLE', 'SCRIPT', 'STYLE', 'OPTION'].includes(e.tagName)) continue;
  const style = getComputedStyle(e), svg = e.namespaceURI.endsWith('svg');
  const back = ground(e), text = over(rgba(svg ? style.fill : style.color), back);
  const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < (large ? 3 : 4.5)) fault(`color-contrast ${ratio.toFixed(2)}`, e);
}
return [...new Set(faults)];
)";

// Says what there was when `holds` does not, and ends the program.
void Want(bool holds, const char* what, const std::string& had) {
  if (!holds) std::fprintf(stderr, "wanted: %s\n%s\n", what, had.c_str());
  SKERRY_CHECK(holds, "the browser does not do as it is told");
}

int PortOf(const std::string& log, ChildProcess& driver) {
  const std::string before = "successfully on port ";
  while (true) {
    std::stringstream said;
    said << std::ifstream(log).rdbuf();
    const std::string text = said.str();
    const size_t at = text.find(before);
    if (at != std::string::npos && text.find('.', at) != std::string::npos) {
      return std::stoi(text.substr(at + before.size()));
    }
    Want(driver.Ended().empty(), "chromedriver goes on", text);
  }
}

}  // namespace

std::unique_ptr<Browser> Browser::Start() {
  if (access(kChromium, X_OK) != 0 || access(kDriver, X_OK) != 0) return nullptr;
  std::string home = (fs::temp_directory_path() / "skerry-browser-XXXXXX").string();
  Want(mkdtemp(home.data()) != nullptr, "a directory", home);
  const std::string log = home + "/log";
  auto driver = ChildProcess::Start(
      {"/usr/bin/env", "HOME=" + home, "TMPDIR=" + home, kDriver, "--port=0"}, log);
  Want(driver.ok(), "chromedriver starts", kDriver);
  const int port = PortOf(log, *driver);
  return std::unique_ptr<Browser>(new Browser(*std::move(driver), port, home));
}

Browser::Browser(ChildProcess driver, int port, std::string home)
    : home_(std::move(home)), driver_(std::move(driver)), client_("127.0.0.1", port) {
  client_.set_read_timeout(60);
  const json options = {{"binary", kChromium},
                        {"args",
                         {"--headless=new", "--no-sandbox", "--disable-gpu",
                          "--disable-dev-shm-usage", "--user-data-dir=" + home_ + "/profile"}}};
  const json wanted = {{"browserName", "chrome"},
                       {"unhandledPromptBehavior", "accept"},
                       {"timeouts", {{"script", 30000}}},
                       {"goog:chromeOptions", options},
                       {"goog:loggingPrefs", {{"browser", "ALL"}}}};
  session_ = Ask("/session", {{"capabilities", {{"alwaysMatch", wanted}}}})["sessionId"];
}

Browser::~Browser() {
  client_.Delete(("/session/" + session_).c_str());
  driver_.Terminate();
  driver_.Wait();
  std::error_code error;
  fs::remove_all(home_, error);
}

json Browser::Ask(const std::string& path, const json& body) {
  const std::string where = session_.empty() ? path : "/session/" + session_ + path;
  const auto answer = client_.Post(where.c_str(), body.dump(), "application/json");
  const bool well = answer && answer->status == 200;
  Want(well, "the browser does it",
       where + " " + body.dump() + ": " + (answer ? answer->body : "no answer"));
  return json::parse(answer->body)["value"];
}

void Browser::Open(const std::string& url) {
  Ask("/url", {{"url", url}});
}

void Browser::Look(int width, int height, bool dark) {
  Tell("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
  Tell("Emulation.setEmulatedMedia",
       {{"features", {{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}}}});
}

json Browser::Tell(const std::string& command, const json& parameters) {
  return Ask("/goog/cdp/execute", {{"cmd", command}, {"params", parameters}});
}

json Browser::Run(const std::string& script) {
  return Ask("/execute/sync", {{"script", script}, {"args", json::array()}});
}

void Browser::Await(const std::string& expression) {
  const std::string script =
      "const done = arguments[0];"
      "const look = () => { try { if (" +
      expression + ") return done(true); } catch (error) {} setTimeout(look, 50); }; look();";
  Ask("/execute/async", {{"script", script}, {"args", json::array()}});
}

std::string Browser::Find(const std::string& selector) {
  return Ask("/element", {{"using", "css selector"}, {"value", selector}})[kElement];
}

// The page may replace the element between the two; then it is another.
void Browser::Click(const std::string& selector) {
  while (true) {
    const std::string path = "/session/" + session_ + "/element/" + Find(selector) + "/click";
    const auto answer = client_.Post(path.c_str(), "{}", "application/json");
    if (answer && answer->status == 200) return;
    const std::string said = answer ? answer->body : "no answer";
    Want(said.find("stale element") != std::string::npos, "a click", selector + ": " + said);
  }
}

void Browser::Type(const std::string& selector, const std::string& text) {
  const std::string element = Find(selector);
  Ask("/element/" + element + "/clear", json::object());
  Ask("/element/" + element + "/value", {{"text", text}});
}

void Browser::Press(const std::string& key) {
  const int code = key == "Tab" ? 9 : 13;
  for (const char* type : {"rawKeyDown", "keyUp"}) {
    Tell("Input.dispatchKeyEvent", {{"type", type},
                                    {"key", key},
                                    {"code", key},
                                    {"windowsVirtualKeyCode", code},
                                    {"nativeVirtualKeyCode", code}});
  }
}

std::string Browser::Text(const std::string& selector) {
  const json text = Run("const found = document.querySelector(" + json(selector).dump() +
                        "); return found ? found.innerText : '';");
  return text.get<std::string>();
}

std::vector<std::string> Browser::Complaints() {
  std::vector<std::string> found;
  for (const json& entry : Ask("/se/log", {{"type", "browser"}})) {
    const std::string level = entry.value("level", "");
    if (level == "SEVERE" || level == "WARNING") found.push_back(entry.value("message", ""));
  }
  return found;
}

std::vector<std::string> AxeFaults(Browser& browser) {
  const char* file = std::getenv("SKERRY_AXE");
  if (file == nullptr || *file == 0) return {};
  std::stringstream source;
  source << std::ifstream(file).rdbuf();
  Want(!source.str().empty(), "axe in the file that SKERRY_AXE names", file);
  browser.Run(source.str());
  browser.Run(
      "window.axeFaults = null; axe.run(document, { resultTypes: ['violations'] }).then((found) =>"
      "{ window.axeFaults = found.violations.flatMap((rule) => rule.nodes.map((node) =>"
      "`axe ${rule.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`)); });");
  browser.Await("window.axeFaults !== null");
  return browser.Run("return window.axeFaults;").get<std::vector<std::string>>();
}

std::vector<std::string> AccessibilityFaults(Browser& browser) {
  return browser.Run(kCheck).get<std::vector<std::string>>();
}

}  // namespace skerry::bench
