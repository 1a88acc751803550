#!/usr/bin/env bash
# Debian packages of what is built: skerry-node, skerry-coordinator, skerry-sim, and skerry-cuda where there is a plug-in.
# usage: package.sh BUILD_DIR OUT_DIR [PLUGIN.so]   (./dev package)
# Two runs over the same programs give the same bytes: times are those of the changelog. $SKERRY_PACKAGE_VERSION: another version.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
plugin=${3:-}

stage=$out/stage/skerry
rm -rf "$out/stage" "$out"/*.deb
mkdir -p "$stage"/{bin,lib,man,completions,docs,examples,grafana}
cp -r "$root/packaging/debian" "$stage/debian"
cp "$root"/packaging/systemd/*.service "$stage/debian/"
mv "$stage/debian/node.env" "$stage/examples/"
cp "$root/packaging/grafana/skerry.json" "$stage/grafana/"
cp "$root"/docs/*.md "$root/SECURITY.md" "$stage/docs/"
cp -r "$root/sim/scenarios" "$stage/scenarios"
for name in skerry-node skerry-coordinator skerry-sim; do
  program=$build/bin/$name
  cp "$program" "$stage/bin/"
  "$program" manual >"$stage/man/$name.1"
  "$program" completions bash >"$stage/completions/$name"
  "$program" completions zsh >"$stage/completions/_$name"
  "$program" completions fish >"$stage/completions/$name.fish"
done
if [[ -n $plugin ]]; then
  cp "$plugin" "$stage/lib/libskerry_cuda.so"
  cat "$stage/debian/control.cuda" >>"$stage/debian/control"
else
  rm "$stage/debian/skerry-cuda.install"
fi
rm "$stage/debian/control.cuda"
if [[ -n ${SKERRY_PACKAGE_VERSION:-} ]]; then
  sed -i "1s/(.*)/($SKERRY_PACKAGE_VERSION)/" "$stage/debian/changelog"
fi

cd "$stage"
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -STimestamp)
export SOURCE_DATE_EPOCH
find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
debian/rules binary >"$out/log" 2>&1 || { tail -n 20 "$out/log" >&2; exit 1; }
cd "$out"
mv stage/*.deb .
rm -rf stage
sha256sum -- *.deb >SHA256SUMS
