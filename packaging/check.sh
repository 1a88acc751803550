#!/usr/bin/env bash
# The packages on a clean Debian 12, as root: lintian, sizes, install, a run with a volunteer who types two commands, upgrade, purge.
# usage: check.sh PACKAGES NEWER_PACKAGES   (./dev package --check)
# The system is made by debootstrap in a temporary directory and thrown away; nothing outside of it is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=$(cd "$1" && pwd)
newer=$(cd "$2" && pwd)
limit=$((20 * 1000 * 1000))

say() { printf '▸ %s\n' "$*"; }
fail() { printf 'check: %s\n' "$*" >&2; exit 1; }
[[ $(id -u) == 0 ]] || fail 'wants root, for a system of its own (debootstrap, chroot)'

say 'lintian'
lintian --allow-root --fail-on error,warning "$packages"/*.deb

for package in "$packages"/*.deb; do
  size=$(stat -c %s "$package")
  say "$(basename "$package"): $((size / 1000)) kB (goal: 20,000)"
  ((size < limit)) || fail "$package is larger than 20 MB"
done

system=$(mktemp -d)
chmod 755 "$system"
trap 'rm -rf --one-file-system "$system"' EXIT
say 'a clean Debian 12'
debootstrap --variant=minbase bookworm "$system" http://deb.debian.org/debian >"$system.log" 2>&1 ||
  fail "debootstrap: $(tail -n 1 "$system.log")"
rm -f "$system.log"
mkdir "$system/packages" "$system/newer"
cp "$packages"/*.deb "$system/packages/"
say 'a repository of them, signed by a key of its own'
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf --one-file-system "$system" "$GNUPGHOME"' EXIT
gpg --batch --quiet --passphrase '' --quick-generate-key skerry-check default default never
"$here/repository.sh" "$system/packages" skerry-check
cp "$newer"/*.deb "$system/newer/"
cp "$here/check_inside.sh" "$system/"
inside() { unshare --mount --pid --fork --kill-child chroot "$system" bash /check_inside.sh "$1"; }

# systemd itself starts the units there; it ends with the last line of `services`, or when it takes too long.
services() {
  cp "$here/check_boot.sh" "$system/"
  timeout -k 1 180 unshare --mount --pid --fork --kill-child --ipc --uts --cgroup \
    bash "$system/check_boot.sh" "$system" >"$system/boot.log" 2>&1 </dev/null || true
  if [[ ! -s $system/services.log ]]; then
    say "the services are not tried: systemd does not start here ($(tail -n 1 "$system/boot.log"))"
    return
  fi
  cat "$system/services.log"
  grep -q '^▸ the services work' "$system/services.log" || fail 'the services do not work'
}

inside install
inside use
inside prepare_services
services
inside remove
say 'the packages install, run, upgrade and purge'
