// The rules of the house, checked by a program instead of by reviewers.
//
// Every rule but one looks at one file and appends findings; none reads the disk. docs/HACKING.md
// tells people what to do about a finding.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/tidy/source.h"

namespace skerry::tidy {

struct Finding {
  std::string file;
  int line = 0;  // 1-based
  std::string rule;
  std::string message;
};
using Findings = std::vector<Finding>;

// Programs may do what logic may not: open sockets, read clocks, start threads, parse arguments. A
// program file is main.cc, one whose stem is or ends in `program`, `command` or `commands`, the
// parts of sim/ that handle real processes (emulat*, soak*, child_process*) and real packets
// (packet/), and coordinator/run_directory. In bench/ and tools/ every file is.
bool IsProgramFile(std::string_view path);

// Includes go down the floors of docs/ARCHITECTURE.md, never up or sideways (one exception: a plan
// is made of routes, so pipeline/plan/ may include routing/); wire/ beyond its messages, actor
// contract and courier only from program files, sim/, tests/ and bench/.
void CheckFloors(const Source& source, Findings& findings);

// A third-party library is included in its folder only (tests mirror the tree and share its
// rights).
void CheckFences(const Source& source, Findings& findings);

// Clocks, threads and unseeded chance only in common/, wire/ beyond messages, kernels/ and program
// files; nobody throws, or says where and when it was built; tests neither sleep nor look at a
// clock, and their names are one to CTest.
void CheckHosts(const Source& source, Findings& findings);

// Files ≤ 400 lines, lines ≤ 100 columns (Unicode code points), functions ≤ 60 lines, headers open
// with a comment and are included once.
void CheckSizes(const Source& source, Findings& findings);

// Notes to self, conflict markers, paths of somebody's own machine. Text files too.
void CheckLeftovers(const Source& source, Findings& findings);

// One class of a name in a namespace of what the programs are made of. Over files: each is checked
// against those before it.
class ClassNames {
 public:
  void Check(const Source& source, Findings& findings);

 private:
  std::map<std::string, std::string> defined_in_;
};

// All of one file: all but names.
Findings CheckSource(const Source& source);

}  // namespace skerry::tidy
