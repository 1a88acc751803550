#!/usr/bin/env bash
# Builds the programs and their packages twice, in two places, and compares them byte by byte. The first build takes what ccache holds:
# objects of another day and another checkout (in a folder as deep) must be the same, too. The second compiles everything itself.
# usage: reproduce.sh   (./dev reproduce)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${SKERRY_JOBS:-$(nproc)}
places=$(mktemp -d)
trap 'rm -rf "$places"' EXIT
trees=("$places/one" "$places/another/tree of another name and length")
cache=()

for tree in "${trees[@]}"; do
  mkdir -p "$tree"
  tar -C "$root" --exclude=./build --exclude=./.git --exclude=./demo-out --exclude=./soak-out -c . | tar -C "$tree" -x
  printf '▸ building in %s\n' "$tree" >&2
  cmake -S "$tree" -B "$tree/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSKERRY_CUDA=OFF \
    "${cache[@]}" >/dev/null
  ninja -C "$tree/build/release" -j "$jobs" --quiet skerry-coordinator skerry-node skerry-sim
  "$tree/packaging/package.sh" "$tree/build/release" "$tree/packages"
  cache=(-DSKERRY_CCACHE=)
done

differ=0
for file in bin/skerry-coordinator bin/skerry-node bin/skerry-sim; do
  if cmp "${trees[0]}/build/release/$file" "${trees[1]}/build/release/$file"; then
    sha256sum "${trees[0]}/build/release/$file" | sed "s|  .*|  $(basename "$file")|"
  else
    differ=1
  fi
done
if diff "${trees[0]}/packages/SHA256SUMS" "${trees[1]}/packages/SHA256SUMS"; then
  cat "${trees[0]}/packages/SHA256SUMS"
else
  differ=1
fi
((differ == 0)) || { echo 'reproduce: the two builds differ' >&2; exit 1; }
echo 'two builds, the same bytes'
