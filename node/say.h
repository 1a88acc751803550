// Where a node's lines for people go: to its output, or to the screen that has taken it over.
#pragma once

#include <functional>
#include <string>

namespace skerry {

// One line, without its end. On the thread that runs the loop, or before and after it.
void Say(const std::string& line);

// From now on lines go there; an empty function: to the output again.
void SetSayer(std::function<void(const std::string&)> sayer);

}  // namespace skerry
