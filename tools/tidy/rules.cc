#include "tools/tidy/rules.h"

namespace skerry::tidy {

Findings CheckSource(const Source& source) {
  Findings findings;
  CheckFloors(source, findings);
  CheckFences(source, findings);
  CheckHosts(source, findings);
  CheckSizes(source, findings);
  CheckLeftovers(source, findings);
  return findings;
}

}  // namespace skerry::tidy
