#!/usr/bin/env bash
# The same seeds give the same traces whatever compiled them: builds skerry-sim with several compilers and levels of
# optimisation and compares the trace hashes of the swarm, two runs of each seed.
#
# tools/determinism.sh [SEEDS]       100 unless told otherwise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seeds=${1:-100}
jobs=${SKERRY_JOBS:-$(nproc 2>/dev/null || echo 2)}
builds=('g++ -O3' 'clang++ -O3' 'g++ -O0')

command -v clang++ >/dev/null || { echo 'determinism: clang++ is missing (apt-get install clang)' >&2; exit 1; }

hashes() { echo "build/determinism/${1// /}.hashes"; }

build_and_run() {
  local compiler=${1% *} level=${1#* } dir="build/determinism/${1// /}"
  local cc=gcc
  [[ $compiler == clang++ ]] && cc=clang
  echo "▸ $compiler $level" >&2
  cmake -G Ninja -S . -B "$dir" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$level -DNDEBUG" >/dev/null
  ninja -C "$dir" -j "$jobs" --quiet skerry-sim
  "$dir/bin/skerry-sim" swarm --seeds "$seeds" --twice --keep-going --jobs "$jobs" --hashes "$(hashes "$1")" >&2
}

for build in "${builds[@]}"; do build_and_run "$build"; done
failed=0
for build in "${builds[@]:1}"; do
  if cmp -s "$(hashes "${builds[0]}")" "$(hashes "$build")"; then
    echo "$seeds seeds: ${builds[0]} and $build give the same traces"
  else
    echo "$build differs from ${builds[0]}, first at:" >&2
    diff "$(hashes "${builds[0]}")" "$(hashes "$build")" | head -4 >&2 || true
    failed=1
  fi
done
exit $failed
