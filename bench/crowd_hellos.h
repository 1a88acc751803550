// Many strangers at once, each with a key of its own.
#pragma once

#include <string>

#include "wire/ticket.h"

namespace skerry::siege {

// `count` fresh keys shake hands, each with a CURVE connection of its own, and say Hello with
// `ticket` `times` times; returns how many were answered with a Refused.
int StormOfHellos(const std::string& endpoint, const Ticket& run, const std::string& ticket,
                  int count, int times);

}  // namespace skerry::siege
