#!/usr/bin/env bash
# The sbatch script on a Slurm of its own on this machine: three nodes train a small run from the tiny
# template to its end, three more join a coordinator outside and leave when they are told to, and a
# job without a run says what is missing. As root, with Debian's slurm-wlm (apt-get install slurm-wlm).
# usage: check.sh BIN      (build/release/bin); nothing outside of a temporary directory is written.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "${1:?want the directory of the programs, build/release/bin}" && pwd)

say() { printf '▸ %s\n' "$*"; }
fail() {
  printf 'check: %s\n' "$*" >&2
  tail -n 20 "$at"/*.log "$at"/*.out 2>/dev/null >&2 || true
  exit 1
}
at=$(mktemp -d)
[[ $(id -u) == 0 ]] || fail 'wants root: slurmd starts jobs for others'
for program in munged slurmctld slurmd sbatch; do
  command -v $program >/dev/null || fail "no $program here; apt-get install slurm-wlm munge"
done
pids=()
end() {
  local pid
  scancel --full --signal=KILL --user=root 2>/dev/null || true
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$at"
}
trap end EXIT

start() {  # LOG COMMAND…
  "${@:2}" >"$at/$1.log" 2>&1 &
  pids+=($!)
}
wait_for() {  # SECONDS WHAT COMMAND…
  local ends=$((SECONDS + $1))
  until "${@:3}" >/dev/null 2>&1; do
    ((SECONDS < ends)) || fail "$2: not in $1 s"
    sleep 0.3
  done
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_slurm() {
  local host
  host=$(hostname -s)
  mkdir -m 755 "$at/munge" "$at/state" "$at/spool"
  head -c 1024 /dev/urandom >"$at/munge/key"
  chmod 600 "$at/munge/key"
  chmod 755 "$at"
  start munged munged --foreground --force --num-threads=2 --socket="$at/munge/socket" --key-file="$at/munge/key" \
    --pid-file="$at/munge/pid" --seed-file="$at/munge/seed" --log-file="$at/munge/munged.log"
  cat >"$at/slurm.conf" <<CONF
ClusterName=check
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$at/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=20
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=check Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF=$at/slurm.conf
  wait_for 20 'munged' test -S "$at/munge/socket"
  start slurmctld slurmctld -D -f "$SLURM_CONF"
  start slurmd slurmd -D -f "$SLURM_CONF"
  wait_for 60 'a node that is idle' bash -c 'sinfo -h -o %t | grep -qx idle'
}

# What init makes of the tiny template, cut to what two cores do in a minute.
make_run() {  # DIR STEPS
  "$bin/skerry-coordinator" init "$1" --template tiny --data "$at/text.txt" >"$at/init.log" 2>&1 || fail 'init'
  sed -i "s/^steps *=.*/steps = $2/; s/^nodes_min *=.*/nodes_min = 3/; s/^sequences_per_step *=.*/sequences_per_step = 6/
    s/^warmup_steps *=.*/warmup_steps = 4/; s/^context *=.*/context = 64/; s/^inner_steps *=.*/inner_steps = 8/" "$1/run.toml"
  "$bin/skerry-coordinator" config check "$1/run.toml" >>"$at/init.log" 2>&1 || fail "$1/run.toml"
}
submit() {  # NAME VARIABLES…
  env "${@:2}" SKERRY_BIN="$bin" SKERRY_HOME="$at/homes-$1" JOIN_OPTIONS='--listen tcp://127.0.0.1:* --threads 1' \
    sbatch --parsable --nodes=1 --ntasks-per-node=3 --cpus-per-task=1 --output="$at/$1.out" "$here/skerry.sbatch"
}
state_of() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
has_ended() { [[ $(state_of "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
exit_of() { scontrol show job "$1" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p'; }

for ((i = 0; i < 4000; ++i)); do echo "Sentence $i of a text that nobody reads."; done >"$at/text.txt"
say "Slurm $(slurmctld -V | cut -d ' ' -f 2), one machine"
start_slurm

say 'a job without a run'
job=$(submit nothing)
wait_for 60 'the end of a job without a run' has_ended "$job"
[[ $(exit_of "$job") == 2 ]] || fail "its exit code is $(exit_of "$job"), not 2"
grep -q 'want SKERRY_TICKET' "$at/nothing.out" || fail 'it did not say what it wants'

say 'a coordinator and three nodes in one job, to the end of a run'
make_run "$at/run" 16
port=$(free_port)
began=$SECONDS
job=$(submit whole SKERRY_RUN="$at/run" SKERRY_PORT="$port" SKERRY_ADVERTISE="127.0.0.1:$port")
wait_for 900 'the end of a run of 16 steps' has_ended "$job"
[[ $(state_of "$job") == COMPLETED ]] || fail "job $job is $(state_of "$job")"
[[ -s $at/run/model/model.safetensors ]] || fail 'the run left no model'
nodes=$(find "$at/homes-whole" -name node.key | wc -l)
[[ $nodes == 3 ]] || fail "$nodes nodes had homes, not 3"
"$bin/skerry-coordinator" audit "$at/run" >"$at/audit.log" 2>&1 || fail 'audit'
say "trained in $((SECONDS - began)) s"

say 'three nodes that join a coordinator outside leave when they are told to'
make_run "$at/long" 80000
port=$(free_port)
start serve "$bin/skerry-coordinator" serve "$at/long" --bind "tcp://127.0.0.1:$port" --dashboard none
ticket_of() { "$bin/skerry-coordinator" ticket "$at/long" --uses 3 2>/dev/null | grep -o 'skerry1-[^ ]*' | head -n 1; }
wait_for 60 'a ticket' ticket_of
job=$(submit joins SKERRY_TICKET="$(ticket_of)")
trains() { "$bin/skerry-coordinator" status "$at/long" --json | grep -Eq '"contributed_tokens": *[1-9]'; }
wait_for 300 'training' trains
began=$SECONDS
scancel --signal=TERM "$job"
wait_for 60 'the end of a job that was told to leave' has_ended "$job"
say "left in $((SECONDS - began)) s"
[[ $(grep -c 'ended: interrupted' "$at/joins.out") == 3 ]] || fail 'not all nodes said that they leave'
say 'all of it went as it should'
