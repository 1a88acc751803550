// A headless Chromium, driven as W3C WebDriver says (Debian's chromium and chromium-driver).
#pragma once

#include <httplib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/child_process.h"

namespace skerry::bench {

// What the browser cannot do ends the program (CHECK): tests and benchmarks use it.
class Browser {
 public:
  // Nothing where Chromium or its driver is not installed: the caller says so and skips.
  static std::unique_ptr<Browser> Start();
  ~Browser();

  void Open(const std::string& url);
  // As a phone or a monitor shows it; `dark`: the reader's system prefers it.
  void Look(int width, int height, bool dark);

  // A command of Chromium's DevTools protocol.
  nlohmann::json Tell(const std::string& command, const nlohmann::json& parameters);

  // The body of a function; what it returns.
  nlohmann::json Run(const std::string& script);
  // Until the expression is true in the page, which looks at it again and again; fails after 30 s.
  void Await(const std::string& expression);
  void Click(const std::string& selector);
  void Type(const std::string& selector, const std::string& text);
  // As if that key were pressed and let go: "Tab", "Enter".
  void Press(const std::string& key);
  // innerText of the first; "" if there is none.
  std::string Text(const std::string& selector);

  // What the page complained of on its console since the last time, errors and warnings.
  std::vector<std::string> Complaints();

 private:
  Browser(ChildProcess driver, int port, std::string home);
  nlohmann::json Ask(const std::string& path, const nlohmann::json& body);
  std::string Find(const std::string& selector);

  std::string home_;
  ChildProcess driver_;
  httplib::Client client_;
  std::string session_;
};

// What axe-core says is wrong with the page, WCAG 2.2 A and AA and its best practices, where the
// environment's SKERRY_AXE names its file (tools/axe.sh brings it); else nothing.
std::vector<std::string> AxeFaults(Browser& browser);

// What is wrong with the page for people who cannot see it, see little, or have no pointer; as
// axe's rules of these names would say, those that matter here: lang, title, landmarks, order of
// headings, names of controls and of pictures, headers of tables, scrolled regions that a keyboard
// reaches, unique ids, contrast (WCAG 2.2 AA).
std::vector<std::string> AccessibilityFaults(Browser& browser);

}  // namespace skerry::bench
