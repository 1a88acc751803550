#!/bin/bash
# In the clean system of check.sh.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
[[ -e /proc/self ]] || mount -t proc proc /proc
say() { printf '▸ %s\n' "$*"; }
fail() { printf 'check: %s\n' "$*" >&2; exit 1; }
apt_get() { apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/tmp/apt 2>&1 || { tail -n 20 /tmp/apt >&2; fail "apt-get $*"; }; }
gone() { [[ ! -e $1 ]] || fail "$1 is still there"; }

install_packages() {
  say 'a volunteer installs, from a signed repository'
  echo 'deb [signed-by=/packages/skerry.asc] file:/packages ./' >/etc/apt/sources.list.d/skerry.list
  apt_get update
  apt_get install --no-install-recommends skerry-node
  skerry-node --version
  # Its exit code says what a machine lacks; here it only has to come to an end and say so.
  skerry-node doctor >/tmp/doctor 2>&1 || true
  grep -q '[0-9]' /tmp/doctor || fail "doctor said nothing: $(cat /tmp/doctor)"
  say 'an operator installs'
  apt_get install --no-install-recommends /packages/skerry-coordinator_*.deb /packages/skerry-sim_*.deb
  getent passwd skerry-coordinator >/dev/null || fail 'no user skerry-coordinator'
  [[ $(stat -c %a:%U /var/lib/skerry-coordinator) == 700:skerry-coordinator ]] || fail 'no home of runs'
  for name in skerry-node skerry-coordinator skerry-sim; do
    [[ $(dpkg -L $name) == *man1/$name.1.gz* ]] || fail "no manual of $name"
    bash -n /usr/share/bash-completion/completions/$name
  done
  # Debian's containers leave manuals and documents out of what is unpacked, and are no worse for it.
  skerry-sim plan /usr/share/skerry-sim/scenarios/three_regions >/tmp/plan || fail 'no plan for a shipped scenario'
  say 'a list that somebody else changed is refused'
  cp -r /packages /forged
  sed -i 's/^Suite: stable/Suite: forged/' /forged/InRelease
  echo 'deb [signed-by=/packages/skerry.asc] file:/forged ./' >/etc/apt/sources.list.d/skerry.list
  if apt-get update >/tmp/forged 2>&1; then fail "apt took a forged list: $(cat /tmp/forged)"; fi
  rm /etc/apt/sources.list.d/skerry.list
}

as_operator() { setpriv --reuid skerry-coordinator --regid skerry-coordinator --clear-groups env HOME=/var/lib/skerry-coordinator "$@"; }

use_packages() {
  local run=/var/lib/skerry-coordinator/walk began ticket credited=''
  mkdir -p /srv
  for ((i = 0; i < 4000; ++i)); do echo "Sentence $i of a text that nobody reads."; done >/srv/text.txt
  say 'an operator begins a run: init, serve, ticket'
  as_operator skerry-coordinator init $run --data /srv/text.txt >/tmp/init 2>&1 || { cat /tmp/init; fail 'init'; }
  as_operator skerry-coordinator serve $run --bind tcp://127.0.0.1:17700 --dashboard none >/tmp/serve 2>&1 &
  for ((i = 0; i < 100; ++i)); do
    ticket=$(as_operator skerry-coordinator ticket $run --uses 8 2>/dev/null | grep -o 'skerry1-[^ ]*' | head -n 1) && [[ -n $ticket ]] && break
    sleep 0.2
  done
  [[ -n $ticket ]] || { cat /tmp/serve; fail 'no ticket'; }
  local nodes
  nodes=$(sed -n 's/^nodes_min *= *\([0-9]*\).*/\1/p' $run/run.toml)
  say "volunteers join ($nodes)"
  began=$(date +%s)
  for ((i = 1; i < nodes; ++i)); do
    skerry-node join "$ticket" --home /srv/node$i >/tmp/node$i 2>&1 &
  done
  skerry-node join "$ticket" --home /var/lib/skerry-node >/tmp/node 2>&1 &
  local volunteer=$!
  for ((i = 0; i < 300; ++i)); do
    as_operator skerry-coordinator status $run --json >/tmp/status 2>/dev/null || true
    if grep -Eq '"contributed_tokens": *[1-9]' /tmp/status; then credited=yes; break; fi
    sleep 0.2
  done
  [[ -n $credited ]] || { cat /tmp/status /tmp/node /tmp/serve; fail 'nothing was trained in a minute'; }
  say "first credited step $(($(date +%s) - began)) s after join (goal: 60)"
  kill -INT $volunteer
  wait $volunteer || true
  [[ -f /var/lib/skerry-node/node.key ]] || fail 'the node left no identity'
  mkdir -p /etc/skerry
  echo "SKERRY_TICKET=$ticket" >/etc/skerry/node.env
}

# Its output is read outside; whatever comes of it the machine goes off then.
prepare_services() {
  apt_get install --no-install-recommends systemd systemd-sysv
  cat >/etc/systemd/system/check.service <<'UNIT'
[Unit]
Description=Tries the services of the packages
[Service]
Type=oneshot
ExecStart=/bin/bash /check_inside.sh services
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=append:/services.log
StandardError=append:/services.log
UNIT
  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -s ../check.service /etc/systemd/system/multi-user.target.wants/
}

service_ended_well() {
  systemctl stop "$1"
  [[ $(systemctl show -p Result --value "$1") == success ]] || { journalctl -n 20 --no-pager -u "$1"; fail "$1 ended badly: $(systemctl show -p Result,ExecMainStatus "$1" | tr '\n' ' ')"; }
}

use_services() {
  local run=/var/lib/skerry-coordinator/service ticket began credited=''
  say 'the services, as systemd starts them'
  as_operator skerry-coordinator init $run --data /srv/text.txt >/tmp/init 2>&1 || { cat /tmp/init; fail 'init'; }
  sed -i 's/^nodes_min .*/nodes_min = 1/' $run/run.toml
  echo 'SERVE_OPTIONS=--bind tcp://127.0.0.1:17701 --dashboard none' >/etc/skerry/coordinator-service.env
  systemctl start skerry-coordinator@service
  for ((i = 0; i < 100; ++i)); do
    ticket=$(as_operator skerry-coordinator ticket $run 2>/dev/null | grep -o 'skerry1-[^ ]*') && break
    sleep 0.2
  done
  [[ -n $ticket ]] || { journalctl -n 20 --no-pager -u skerry-coordinator@service; fail 'no ticket'; }
  echo "SKERRY_TICKET=$ticket" >/etc/skerry/node.env
  began=$(date +%s)
  systemctl start skerry-node
  for ((i = 0; i < 300; ++i)); do
    as_operator skerry-coordinator status $run --json >/tmp/status 2>/dev/null || true
    if grep -Eq '"contributed_tokens": *[1-9]' /tmp/status; then credited=yes; break; fi
    sleep 0.2
  done
  [[ -n $credited ]] || { cat /tmp/status; journalctl -n 40 --no-pager; fail 'the services trained nothing in a minute'; }
  say "first credited step $(($(date +%s) - began)) s after systemctl start skerry-node (goal: 60)"
  service_ended_well skerry-node
  service_ended_well skerry-coordinator@service
  say 'the services work'
}

remove_packages() {
  say 'upgrade'
  apt_get install --no-install-recommends /newer/*.deb
  [[ $(dpkg-query -W -f '${Version}' skerry-node) == *+1 ]] || fail 'not the newer version'
  grep -q SKERRY_TICKET /etc/skerry/node.env || fail 'the upgrade lost the ticket'
  [[ -f /var/lib/skerry-node/node.key ]] || fail 'the upgrade lost the identity'
  skerry-coordinator audit /var/lib/skerry-coordinator/walk >/tmp/audit || { cat /tmp/audit; fail 'the upgrade lost the run'; }
  say 'remove, then purge'
  dpkg -L skerry-node skerry-coordinator skerry-sim | grep -E '/(skerry|_skerry)[^/]*$' >/tmp/files
  apt_get remove skerry-node skerry-coordinator skerry-sim
  grep -q SKERRY_TICKET /etc/skerry/node.env || fail 'removal is no purge, but the ticket is gone'
  dpkg --purge skerry-node skerry-coordinator skerry-sim >/tmp/purge 2>&1
  gone /usr/bin/skerry-node
  gone /usr/bin/skerry-coordinator
  gone /usr/share/skerry-sim
  gone /etc/skerry
  gone /var/lib/skerry-node
  while read -r file; do gone "$file"; done </tmp/files
  [[ -f /var/lib/skerry-coordinator/walk/run.toml ]] || fail "purge took the operator's run"
}

case $1 in
  install) install_packages ;;
  use) use_packages ;;
  prepare_services) prepare_services ;;
  services) use_services ;;
  remove) remove_packages ;;
esac
