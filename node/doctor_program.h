// `skerry-node doctor`: what this machine computes with, and why.
#pragma once

#include <string>

namespace skerry {

// Exit code 0, whatever was found: a machine without a GPU is in good health.
int Doctor(int threads, const std::string& home);

}  // namespace skerry
