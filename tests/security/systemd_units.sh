#!/bin/sh
# systemd finds nothing wrong with the units, and their exposure is at most 2.0 of 10.
# usage: systemd_units.sh PACKAGING_DIR; 77: there is no systemd-analyze that can say so.
set -eu
command -v systemd-analyze >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for unit in "$1"/systemd/*.service; do
  # The programs are not installed where this runs.
  sed 's#/usr/bin/skerry-[a-z]*#/bin/true#' "$unit" >"$work/$(basename "$unit")"
done
cd "$work"
# What the programs cannot do without, as a start under systemd showed: ZeroMQ asks for the network
# cards when it binds (or ends the program), and has its threads scheduled as usual (likewise).
for unit in ./*.service; do
  grep -q '^RestrictAddressFamilies=.*AF_NETLINK' "$unit" || { echo "$unit: no AF_NETLINK"; exit 1; }
  ! grep -q '^SystemCallFilter=~.*@resources' "$unit" || grep -q '^SystemCallFilter=[^~]*sched_setscheduler' "$unit" ||
    { echo "$unit: no sched_setscheduler"; exit 1; }
done
systemd-analyze security --offline=true ./*.service >/dev/null 2>&1 || exit 77
found=$(systemd-analyze verify ./*.service 2>&1)
[ -z "$found" ] || { echo "$found"; exit 1; }
systemd-analyze security --offline=true ./*.service | sed -n 's/.*Overall exposure level for \([^:]*\): \([0-9.]*\).*/\1 \2/p' >scores
cat scores
[ "$(wc -l <scores)" -eq "$(ls ./*.service | wc -l)" ]
awk '$2 > 2.0 { wide = 1 } END { exit wide }' scores
