#!/usr/bin/env bash
# Makes a directory of packages one that apt can install from, signed: Packages, Release, InRelease and the key that checks them.
# usage: repository.sh PACKAGES KEY   (./dev package --sign KEY; KEY as gpg --local-user takes it)
set -euo pipefail
cd "$1"
key=$2
gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 ||
  { printf 'repository: gpg has no secret key "%s"; gpg --quick-generate-key NAME makes one\n' "$key" >&2; exit 1; }
rm -f Packages* Release InRelease skerry.asc
dpkg-scanpackages --multiversion . >Packages 2>/dev/null
gzip -9nk Packages
{
  printf 'Origin: Skerry\nLabel: Skerry\nSuite: stable\nDate: %s\nSHA256:\n' "$(date -Ru)"
  for file in Packages Packages.gz; do
    printf ' %s %d %s\n' "$(sha256sum "$file" | cut -d ' ' -f 1)" "$(stat -c %s "$file")" "$file"
  done
} >Release
gpg --batch --yes --local-user "$key" --clearsign --output InRelease Release
gpg --batch --yes --armor --output skerry.asc --export "$key"
