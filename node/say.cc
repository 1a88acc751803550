#include "node/say.h"

#include <cstdio>
#include <utility>

namespace skerry {
namespace {

std::function<void(const std::string&)>& Sayer() {
  static std::function<void(const std::string&)> sayer;
  return sayer;
}

}  // namespace

void Say(const std::string& line) {
  if (Sayer()) return Sayer()(line);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void SetSayer(std::function<void(const std::string&)> sayer) {
  Sayer() = std::move(sayer);
}

}  // namespace skerry
