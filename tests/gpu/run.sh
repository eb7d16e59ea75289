#!/usr/bin/env bash
# What only a GPU can prove, as one table. For a machine with one NVIDIA GPU, its driver, and
# PyTorch for its NCCL; it needs no network, no compiler and at most ten minutes.
#
#   tests/gpu/run.sh [--programs DIR]
#
# The programs are built elsewhere and carried along (both need nothing but glibc and the driver):
#   scripts/install.sh cuda
#   bash -c 'source scripts/lib.sh; build_preset dev lockstep_gpu'
# and lie in build/dev/gpu then, which is where they are looked for.
#
# Exit code 0: every bar is held; 1: one is missed, or could not be tried; 64: the arguments are
# wrong; 66: the programs are not there; 69: no GPU is visible.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly EXIT_USAGE=64 EXIT_NO_PROGRAMS=66 EXIT_NO_GPU=69
# Of one program. Four of them run, so all take less than ten minutes.
readonly PROGRAM_SECONDS=120

usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }

programs=build/dev/gpu
while [ $# -gt 0 ]; do
  case $1 in
    --programs)
      if [ $# -lt 2 ]; then
        echo "--programs: expected a folder after it" >&2
        exit $EXIT_USAGE
      fi
      programs=$2
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "'$1': expected --programs DIR or nothing" >&2
      exit $EXIT_USAGE
      ;;
  esac
done
for program in lockstep-gpu-kernels lockstep-gpu-nccl; do
  if [ ! -x "$programs/$program" ]; then
    echo "no $programs/$program: build the target lockstep_gpu where nvcc is, and carry it" >&2
    exit $EXIT_NO_PROGRAMS
  fi
done

rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
missed=false
refusals=0

row() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$rows"; }

# run_rows WHAT PROGRAM ARGUMENT...: its rows, and one more where it ends as it should not.
run_rows() {
  local what=$1 code=0
  shift
  timeout --kill-after=10 $PROGRAM_SECONDS "$@" >>"$rows" || code=$?
  case $code in
    0) ;;
    1) missed=true ;;
    69) exit $EXIT_NO_GPU ;; # it has said so
    77) refusals=$((refusals + 1)) ;;
    124 | 137)
      missed=true
      row "$what" "not through after $PROGRAM_SECONDS s" "" "MISSED"
      ;;
    *)
      missed=true
      row "$what" "ended with code $code" "" "MISSED"
      ;;
  esac
}

# The folder of PyTorch's own NCCL; nothing where there is none.
nccl_folder() {
  python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2>/dev/null || true
}

# The table so far, in columns.
print_table() {
  awk -F '\t' '
    {
      for (i = 1; i <= 4; i++) {
        cell[NR, i] = $i
        if (length($i) > width[i]) width[i] = length($i)
      }
    }
    END {  # figures last: some are sentences
      for (n = 1; n <= NR; n++)
        printf "%-" width[1] "s  %-" width[4] "s  %-" width[3] "s  %s\n", \
          cell[n, 1], cell[n, 4], cell[n, 3], cell[n, 2]
    }' "$rows"
}

row "what" "figure" "bar" "verdict"
run_rows "kernels" "$programs/lockstep-gpu-kernels"
folder=$(nccl_folder)
if [ -n "$folder" ]; then
  export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
run_rows "NCCL, one rank" "$programs/lockstep-gpu-nccl" one
# NCCL supports neither, and no release takes both: a bar is missed where it takes none.
for way in multi-rank-gpu host-id; do
  run_rows "two processes on one GPU ($way)" "$programs/lockstep-gpu-nccl" "$way"
done
[ $refusals -lt 2 ] || missed=true
for what in "step as a CUDA graph" "tutorial networks, CPU against GPU" "mixed precision" \
  "step time beside PyTorch" "snapshot beside compute"; do
  row "$what" "the engine for GPUs has no program here yet" "" "not built"
done
print_table
if $missed; then
  echo "not every bar is held"
  exit 1
fi
echo "every bar is held"
