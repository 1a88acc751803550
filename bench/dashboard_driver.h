// A headless Chromium, driven as W3C WebDriver says (Debian's chromium and chromium-driver), as far
// as a benchmark needs it.
#pragma once

#include <httplib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sim/child_process.h"

namespace skerry::bench {

class PageDriver {
 public:
  // Nothing where Chromium or its driver is not installed, or does not start.
  static std::unique_ptr<PageDriver> Start(const std::string& directory);
  ~PageDriver();

  void Open(const std::string& url);
  // The body of a function; what it returns, awaited if it is a promise.
  nlohmann::json Run(const std::string& script);
  // As a PNG file, `width` pixels wide.
  void Picture(const std::string& file, int width, int height);

 private:
  PageDriver(ChildProcess driver, int port) : driver_(std::move(driver)), client_("127.0.0.1", port) {
    client_.set_read_timeout(120);
  }
  std::optional<nlohmann::json> Ask(const std::string& path, const nlohmann::json& body);

  ChildProcess driver_;
  httplib::Client client_;
  std::string page_;  // "/session/…"
};

}  // namespace skerry::bench
