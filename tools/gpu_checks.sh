#!/usr/bin/env bash
# All that wants a GPU, once, on the machine that has it: the kernels' tests, what each operation and
# whole steps reach beside the device's limits, and compute-sanitizer on small shapes where there is
# one. `./dev gpu` runs it; so does whoever was given the folder of `./dev gpu --bundle DIR`.
#
#   tools/gpu_checks.sh BIN OUT [PYTHON]
#
# BIN: the programs and libskerry_cuda.so. OUT: what each step printed, and bench.json. PYTHON: one
# that has torch; without it nothing is compared with PyTorch. Ends with 1 if a test failed, the
# sanitizer found something, or a goal is missed.
set -uo pipefail
bin=$1 out=$2 python=${3:-}
failed=0
mkdir -p "$out"

# name, exit codes that are fine, command
step() {
  local name=$1 fine=$2
  shift 2
  printf '▸ %s\n' "$name"
  "$@" 2>&1 | tee "$out/$name.txt"
  local code=${PIPESTATUS[0]}
  [[ " $fine " == *" $code "* ]] && return
  printf '▸ %s: exit code %d\n' "$name" "$code"
  failed=1
}

step doctor '0 1' "$bin/skerry-node" doctor
step tests 0 "$bin/test_gpu"
# Again with launches that do not block.
step queued 0 env CUDA_LAUNCH_BLOCKING=0 "$bin/test_gpu" 'CUDA device*'
step operations 0 "$bin/skerry-node" bench --device cuda
step bench 0 "$bin/bench_gpu" --json "$out/bench.json" ${python:+--torch "$python"}
if command -v compute-sanitizer >/dev/null; then
  # 1 is what the program itself ends with: of tiny sizes goals are missed.
  step memcheck '0 1' compute-sanitizer --tool memcheck --error-exitcode 9 "$bin/bench_gpu" --sizes tiny
  step racecheck 0 compute-sanitizer --tool racecheck --error-exitcode 9 "$bin/test_gpu"
  step synccheck 0 compute-sanitizer --tool synccheck --error-exitcode 9 "$bin/test_gpu"
else
  printf '▸ compute-sanitizer is not on PATH: no memcheck, no racecheck\n'
fi
exit $failed
