#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs every test.
#
#   scripts/test.sh                 what the gate runs
#   scripts/test.sh --sanitizers    also the asan-ubsan and tsan builds of all tests, and a missing
#                                   fence that the latter must find
#   scripts/test.sh --python        also the Python package as a wheel, for several Pythons and a
#                                   current torch (installs 6 GB)
#   scripts/test.sh --peers         also programs for TensorFlow and Horovod (installs 3 GB)
#   scripts/test.sh --cluster       also rarer harms on real nodes, and over cpprest (10 minutes)
#   scripts/test.sh --soak          also 200 random runs under chaos (a quarter of an hour), and 100
#                                   workers killed that sum by NCCL's double
#   scripts/test.sh --planted       also bugs planted in the operator, each of which the simulation
#                                   must find (half an hour)
#   scripts/test.sh --cuda          also the real NCCL, without a GPU (installs 250 MB)
#   scripts/test.sh --cuda-engine   also the engine for GPUs, on PyTorch's own LibTorch, without a
#                                   GPU (installs 550 MB)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

with_sanitizers=false
with_python=false
with_peers=false
with_cluster=false
with_soak=false
with_planted=false
with_cuda=false
with_cuda_engine=false
for option in "$@"; do
  case "$option" in
    --sanitizers) with_sanitizers=true ;;
    --python) with_python=true ;;
    --peers) with_peers=true ;;
    --cluster) with_cluster=true ;;
    --soak) with_soak=true ;;
    --planted) with_planted=true ;;
    --cuda) with_cuda=true ;;
    --cuda-engine) with_cuda_engine=true ;;
    -h | --help)
      sed -n '2,17s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      die "unknown option '$option'; known:" \
        "--sanitizers --python --peers --cluster --soak --planted --cuda --cuda-engine"
      ;;
  esac
done

say "installing what is missing"
groups=(build test cluster cuda)
if $with_peers || $with_python; then
  groups+=(peers)
fi
if $with_cuda; then
  groups+=(nccl)
fi
if $with_cuda_engine; then
  groups+=(torch)
fi
scripts/install.sh "${groups[@]}"
build_preset dev

# Tests may write here only, and must leave it empty.
scratch=$PWD/build/test-scratch
rm -rf "$scratch"
mkdir -p "$scratch"
export TMPDIR=$scratch

shared_memory_before=$(ls -A /dev/shm)

# How many tests that fail beside others are tried once more, alone. More than so many are no matter
# of a busy machine.
again_max=3

# Tests that compute count for two, those that mostly wait for one: of the former one more runs at a
# time than there are cores; beside the latter (real nodes, two control planes, images, jobs of this
# machine) there is hardly room for one.
run_tests() {
  say "testing preset $1"
  if ctest --preset "$1" --parallel $((2 * ($(nproc) + 1))) --no-tests=error; then
    return
  fi
  local failed
  failed=$(sed 's/^[0-9]*://' "build/$1/Testing/Temporary/LastTestsFailed.log")
  cp "build/$1/Testing/Temporary/LastTest.log" "build/$1/first-try.log"
  [ "$(wc -w <<<"$failed")" -le "$again_max" ] || die "too many tests failed to try them again"
  clear_leftovers
  say "UNSURE, tried once more alone (how they failed: build/$1/first-try.log):" $failed
  ctest --preset "$1" --rerun-failed
  say "UNSURE, but passed alone:" $failed
}

# A process that a test left behind still has the scratch folder in its environment.
leftover_processes() {
  local environ pid
  for environ in /proc/[0-9]*/environ; do
    pid=${environ#/proc/}
    pid=${pid%/environ}
    [ "$pid" = "$$" ] && continue
    if grep -qsz "^TMPDIR=$scratch" "$environ" &&
      [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = 1 ]; then
      ps -o pid=,args= -p "$pid"
    fi
  done
}

# What test clusters have besides processes and files: bridges, cgroups, mounts. Namespaces last
# as long as the processes and mounts that use them.
leftover_cluster_parts() {
  local link group
  for link in /sys/class/net/ls{br,ve}*; do
    [ ! -e "$link" ] || echo "network link $(basename "$link")"
  done
  for group in /sys/fs/cgroup/*/lockstep-*; do
    [ ! -e "$group" ] || echo "cgroup $group"
  done
  grep -F " $scratch/" /proc/mounts || true
}

# After a test that was killed, which cleans up nothing itself.
clear_leftovers() {
  local pid
  for pid in $(leftover_processes | awk '{print $1}'); do
    echo "ending what a failed test has left: $(ps -o pid=,args= -p "$pid")"
    kill -KILL "$pid" || true
  done
  find "$scratch" -mindepth 1 -delete || true
  shared_memory_before=$(ls -A /dev/shm)
}

check_leftovers() {
  say "looking for leftovers"
  local processes files shared_memory cluster_parts
  cluster_parts=$(leftover_cluster_parts)
  processes=$(leftover_processes)
  files=$(find "$scratch" -mindepth 1 | head -20)
  shared_memory=$(comm -13 <(echo "$shared_memory_before") <(ls -A /dev/shm))
  [ -z "$processes" ] || die "processes left behind:"$'\n'"$processes"
  [ -z "$files" ] || die "files left behind:"$'\n'"$files"
  [ -z "$cluster_parts" ] || die "left behind by test clusters:"$'\n'"$cluster_parts"
  [ -z "$shared_memory" ] || die "shared memory left behind: $shared_memory"
}

run_tests dev
check_leftovers

if $with_sanitizers; then
  for preset in asan-ubsan tsan; do
    build_preset "$preset"
    run_tests "$preset"
    check_leftovers
  done
  say "planting a missing fence that the thread sanitizer must find"
  tests/race/planted.sh
fi

if $with_python; then
  say "testing the Python package as a wheel"
  tests/local/python.sh
  check_leftovers
fi

if $with_peers; then
  say "testing programs written for TensorFlow"
  tests/peers/tensorflow.sh
  check_leftovers
  say "testing programs written for Horovod"
  tests/peers/horovod.sh
  check_leftovers
  say "testing programs written for Horovod's TensorFlow"
  tests/peers/horovod_tensorflow.sh
  check_leftovers
  say "testing jobs in Kueue's queues"
  python3 -B tests/kubernetes/kueue_peer_test.py
  check_leftovers
  say "testing jobs that Karpenter makes nodes for"
  python3 -B tests/kubernetes/karpenter_peer_test.py
  check_leftovers
fi

if $with_cluster; then
  for transport in beast cpprest; do
    say "testing rarer harms on real nodes over $transport"
    LOCKSTEP_TEST_TRANSPORT=$transport python3 -B tests/cluster/harm_test.py
    check_leftovers
  done
  say "testing the product over cpprest"
  LOCKSTEP_TEST_TRANSPORT=cpprest python3 -B tests/cluster/product_test.py
  check_leftovers
fi

if $with_soak; then
  say "200 random runs under chaos"
  python3 -B tests/local/chaos_soak.py 200
  check_leftovers
  say "100 workers killed at random moments, over NCCL's double"
  LOCKSTEP_NCCL_KILLS=100 python3 -B tests/local/nccl_test.py NcclKills
  check_leftovers
fi

if $with_planted; then
  say "planting bugs that the simulation must find"
  python3 -B tests/sim/plant.py
  check_leftovers
fi

if $with_cuda; then
  say "testing against the real NCCL"
  tests/cuda/nccl.sh
  check_leftovers
fi

if $with_cuda_engine; then
  say "testing the engine for GPUs against PyTorch's own LibTorch"
  tests/cuda/engine.sh
  check_leftovers
fi

say "all tests passed"
