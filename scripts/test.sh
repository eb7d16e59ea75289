#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs every test.
#
# Use --quick for daily work. Without options it runs the gate: all tests that a change has to pass.
# Each other option runs the gate, and more:
#
#   scripts/test.sh --quick         formatting and include rules, unit tests, 300 seeds of the
#                                   simulation, and one training that loses a worker
#   scripts/test.sh                 the gate
#   scripts/test.sh --long          also variations of what the gate tests that take many seconds
#                                   each (tests/lanes.py)
#   scripts/test.sh --sanitizers    also all tests under AddressSanitizer with UBSan, and under
#                                   ThreadSanitizer. For the latter, each source is compiled by
#                                   itself to find missing includes, and a planted missing fence
#                                   must be found
#   scripts/test.sh --python        also the Python package as a wheel, with several Pythons and a
#                                   current torch, and the examples for it (installs 6 GB)
#   scripts/test.sh --peers         also programs for TensorFlow and Horovod, and the examples for
#                                   them (installs 3 GB)
#   scripts/test.sh --cluster       also rare failures on real nodes, and over cpprest
#   scripts/test.sh --kubernetes VERSION
#                                   also all tests of test clusters, on this version of Kubernetes,
#                                   such as 1.37.2 (scripts/cluster-tools.sh --help names them)
#   scripts/test.sh --soak          also long runs: 4,000 seeds of the simulation, 200 random runs
#                                   with injected failures, collectives of 1,024 ranks, 100 kills of
#                                   workers that use a test double of NCCL, 40 kills of parameter
#                                   servers and their workers, 100 workers on two cores, and 20
#                                   stops and kills of workers, with the time until they are noticed
#   scripts/test.sh --planted       also planted bugs in the operator; the simulation must find each
#                                   of them
#   scripts/test.sh --release       also a release: makes dist/ twice, compares both, and installs
#                                   everything on an empty system (scripts/release.sh)
#   scripts/test.sh --cuda          also the real NCCL, without a GPU (installs 250 MB)
#   scripts/test.sh --cuda-engine   also the engine for GPUs, on PyTorch's own LibTorch, without a
#                                   GPU (installs 550 MB)
#
# On two cores, --cluster adds 10 minutes, --soak 15, --planted 30, and --release 30. --kubernetes
# adds the time of its tests in the gate. scripts/times.py prints where the last run spent its time.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

only_quick=false
with_long=false
with_sanitizers=false
with_python=false
with_peers=false
with_cluster=false
other_kubernetes=""
with_soak=false
with_planted=false
with_release=false
with_cuda=false
with_cuda_engine=false
arguments=("$@")
while [[ $# -gt 0 ]]; do
  option=$1
  shift
  case "$option" in
    --quick) only_quick=true ;;
    --long) with_long=true ;;
    --sanitizers) with_sanitizers=true ;;
    --python) with_python=true ;;
    --peers) with_peers=true ;;
    --cluster) with_cluster=true ;;
    --kubernetes)
      [[ $# -gt 0 ]] || die "--kubernetes needs a version, such as 1.37.2"
      other_kubernetes=$1
      shift
      scripts/cluster-tools.sh --kubernetes "$other_kubernetes" --version >/dev/null || exit 2
      ;;
    --soak) with_soak=true ;;
    --planted) with_planted=true ;;
    --release) with_release=true ;;
    --cuda) with_cuda=true ;;
    --cuda-engine) with_cuda_engine=true ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      die "unknown option '$option'; known:" \
        "--quick --long --sanitizers --python --peers --cluster --kubernetes --soak --planted" \
        "--release --cuda --cuda-engine"
      ;;
  esac
done

if $only_quick && [[ ${#arguments[@]} -gt 1 ]]; then
  die "--quick cannot be used with other options; found: ${arguments[*]}"
fi

begin_stages
say "installing what is missing"
if $only_quick; then
  scripts/install.sh test
  build_preset dev lockstep_quick
else
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
  if [[ -n $other_kubernetes ]]; then
    scripts/cluster-tools.sh --kubernetes "$other_kubernetes"
  fi
  build_preset dev
fi

# Tests may write here only, and must leave it empty. In memory where there is plenty: checkpoints
# wait for their disk, which is most of what their tests would take.
scratch_gib=12
if [[ $(df --output=avail --block-size=1G /dev/shm | tail -1) -ge $scratch_gib ]] &&
  [[ $(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo) -ge $scratch_gib ]]; then
  scratch=$(mktemp -d /dev/shm/lockstep-tests.XXXXXX)
  trap 'rm -rf "$scratch"' EXIT
else
  scratch=$PWD/build/test-scratch
  rm -rf "$scratch"
  mkdir -p "$scratch"
fi
export TMPDIR=$scratch

shared_memory_before=$(ls -A /dev/shm)

# How many tests that fail beside others are tried once more, alone. More than so many are no matter
# of a busy machine.
again_max=3

# run_tests PRESET [OPTION OF CTEST...]: what runs at a time is counted in half cores. A test that
# computes takes two, one that mostly waits takes one; two more than there are keep the cores busy.
run_tests() {
  say "testing preset $*"
  if ctest --preset "$1" --parallel $((2 * ($(nproc) + 1))) --no-tests=error "${@:2}"; then
    return
  fi
  local failed
  failed=$(sed 's/^[0-9]*://' "build/$1/Testing/Temporary/LastTestsFailed.log")
  cp "build/$1/Testing/Temporary/LastTest.log" "build/$1/first-try.log"
  [ "$(wc -w <<<"$failed")" -le "$again_max" ] || die "too many tests failed to retry them"
  clear_leftovers
  say "UNSURE, retried once alone (how they failed: build/$1/first-try.log):" $failed
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
    echo "ending a process that a failed test left behind: $(ps -o pid=,args= -p "$pid")"
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

if $only_quick; then
  run_tests dev --label-regex '^(tidy|unit)$'
  say "simulating 300 seeds"
  build/dev/bin/lockstep-sim --seeds 300
  say "training with a worker that is killed"
  python3 -B tests/local/recovery_test.py Recovery.test_worker_1_killed_between_checkpoints
  check_leftovers
  say "all quick tests passed"
  exit 0
fi

if $with_long; then
  export LOCKSTEP_TEST_LONG=1
fi
run_tests dev
check_leftovers

# Rooms that compute with values, or read bytes from outside: quick to check.
build_preset asan-ubsan-pure lockstep_pure
run_tests asan-ubsan-pure --label-regex '^pure$'
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
  say "testing jobs for which Karpenter makes nodes"
  python3 -B tests/kubernetes/karpenter_peer_test.py
  check_leftovers
fi

if $with_cluster; then
  for transport in beast cpprest; do
    say "testing rare failures on real nodes over $transport"
    LOCKSTEP_TEST_TRANSPORT=$transport python3 -B tests/cluster/harm_test.py
    check_leftovers
  done
  say "testing the product over cpprest"
  LOCKSTEP_TEST_TRANSPORT=cpprest python3 -B tests/cluster/product_test.py
  check_leftovers
fi

if [[ -n $other_kubernetes ]]; then
  say "testing on Kubernetes $other_kubernetes"
  LOCKSTEP_TEST_KUBERNETES=$other_kubernetes \
    run_tests dev --label-regex '^(kubernetes|cluster|helm)$'
  check_leftovers
fi

if $with_soak; then
  say "simulating 4,000 seeds"
  build/dev/bin/lockstep-sim --seeds 4000
  say "running 200 random jobs with injected failures"
  python3 -B tests/local/chaos_soak.py 200
  check_leftovers
  say "killing 100 workers at random moments, with a test double of NCCL"
  LOCKSTEP_NCCL_KILLS=100 python3 -B tests/local/nccl_test.py NcclKills
  check_leftovers
  say "killing 20 parameter servers and 20 of their workers, each in its own job"
  LOCKSTEP_PS_KILLS=20 python3 -B tests/local/parameter_server_test.py -k many_times
  check_leftovers
  say "calling all collectives with 1,024 ranks"
  LOCKSTEP_LARGEST_WORLDS=1 build/dev/bin/lockstep_runtime_collectives_test \
    --gtest_filter='WorldSize.*'
  check_leftovers
  say "running 100 workers on two cores, with 40 losses of a worker"
  LOCKSTEP_CROWD=3x100 LOCKSTEP_LOSSES=20 python3 -B tests/local/silence_test.py
  check_leftovers
fi

if $with_planted; then
  say "planting bugs that the simulation must find"
  python3 -B tests/sim/plant.py
  check_leftovers
fi

if $with_release; then
  say "making a release and installing it"
  python3 -B tests/release/dist_test.py
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
