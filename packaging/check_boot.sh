#!/bin/bash
# systemd as the first process of check.sh's system, in namespaces of its own.
# usage: check_boot.sh SYSTEM, as the first process of a pid namespace
set -euo pipefail
mount --make-rprivate /
mount --bind "$1" "$1"  # for units with a file system of their own, / has to be a mount
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs -o mode=755 none sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mount -t tmpfs -o mode=755 none run
mkdir run/before
pivot_root . run/before
umount -l /run/before
export container=other
exec /lib/systemd/systemd --system --log-target=console
