// `skerry-node doctor`: whether this machine can take part in a run, and what is in the way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace skerry {

struct DoctorOptions {
  int threads = 0;
  std::string devices;  // as of join; what they are together is found where there are several
  std::string spill;    // likewise; "": none is looked at
  std::string home;
  std::string ticket;  // "": what needs one is not checked
  bool json = false;
};

enum class Health : uint8_t { kGood, kUnknown, kPoor, kBad };  // kBad: it could not join

struct Finding {
  std::string check;  // "clock"
  Health health = Health::kGood;
  std::string found;
  std::string cause;   // why that matters, or how it comes; "" where all is well
  std::string remedy;  // what to do; likewise
};

// doctor_machine_program.cc, doctor_network_program.cc: in the order in which they are told.
std::vector<Finding> CheckMachine(const DoctorOptions& options);
std::vector<Finding> CheckNetwork(const DoctorOptions& options);

// Prints what was found. Exit code 1 when something is in the way of joining, else 0: a machine
// without a GPU is in good health.
int Doctor(const DoctorOptions& options);

}  // namespace skerry
