#include "common/digest_lanes.h"

namespace skerry {
namespace {

struct Tables {
  Tables();
  DigestLanesTable tables[3] = {};
};

Tables::Tables() {
  int count = 0;
  if (__builtin_cpu_supports("avx512f")) tables[count++] = {8, DigestEightLanes};
  if (__builtin_cpu_supports("avx2")) tables[count++] = {4, DigestFourLanes};
}

}  // namespace

const DigestLanesTable* RunnableDigestLanes() {
  static const Tables tables;
  return tables.tables;
}

}  // namespace skerry
