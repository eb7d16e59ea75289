#!/usr/bin/env bash
# What only a GPU can prove, as one table. For a machine with one NVIDIA GPU, its driver, CUDA and
# PyTorch; it needs no network and at most ten minutes. The engine is compiled on it, in a minute,
# where its PyTorch is another release than the carried one's; what cannot be run says why.
#
#   tests/gpu/run.sh [--programs DIR]
#
# The programs are built elsewhere and carried along (they need nothing but glibc and the driver):
#   scripts/install.sh cuda
#   bash -c 'source scripts/lib.sh; build_preset dev lockstep_gpu'
# and lie in build/dev/gpu then, which is where they are looked for.
#
# Exit code 0: every bar is held; 1: one is missed, or could not be tried; 64: the arguments are
# wrong; 66: the programs are not there; 69: no GPU is visible, and each row says so.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly EXIT_USAGE=64 EXIT_NO_PROGRAMS=66 EXIT_NO_GPU=69
# Of one program. What begins last gets what is left of ten minutes.
readonly PROGRAM_SECONDS=90 ALL_SECONDS=590
readonly here=$PWD/tests/gpu

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }

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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=$work/rows
words=$work/words # of a program that ends as it should not
missed=false
refusals=0

row() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$rows"; }

# run_rows WHAT PROGRAM ARGUMENT...: its rows, and one more where it ends as it should not.
run_rows() {
  local what=$1 code=0
  shift
  timeout --kill-after=10 "$limit" "$@" >>"$rows" 2>"$words" || code=$?
  cat "$words" >&2
  case $code in
    0) ;;
    1) missed=true ;;
    69) no_gpu "$(tail -1 "$words")" ;;
    77) refusals=$((refusals + 1)) ;;
    124 | 137)
      missed=true
      row "$what" "not through after $limit s" "" "MISSED"
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

# All rows, none of which can be tried, and the end. The engine's script knows its own.
no_gpu() {
  : >"$rows"
  row "what" "figure" "bar" "verdict"
  for what in "kernels" "NCCL, one rank" "two processes on one GPU"; do
    row "$what" "no GPU: $1" "" "not run"
  done
  python3 -B "$here/engine_rows.py" --why "no GPU" >>"$rows" || true
  print_table
  echo "no GPU is here: nothing was tried"
  exit $EXIT_NO_GPU
}

limit=$PROGRAM_SECONDS
row "what" "figure" "bar" "verdict"
run_rows "kernels" "$programs/lockstep-gpu-kernels"
folder=$(nccl_folder)
nccl_path=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run_rows "NCCL, one rank" env LD_LIBRARY_PATH="${nccl_path#:}" "$programs/lockstep-gpu-nccl" one
# NCCL supports neither, and no release takes both: a bar is missed where it takes none.
for way in multi-rank-gpu host-id; do
  run_rows "two processes on one GPU ($way)" env LD_LIBRARY_PATH="${nccl_path#:}" \
    "$programs/lockstep-gpu-nccl" "$way"
done
[ $refusals -lt 2 ] || missed=true

engine=$work/engine
mkdir "$engine"
if said=$(timeout 180 "$here/build_engine.sh" "$programs" "$engine" 2>&1); then
  arguments=(--programs "$programs" --plugin "$engine/liblockstep-engine-cuda.so")
  row "engine for GPUs" "$(tail -1 <<<"$said")" "" "seen"
else
  arguments=(--why "$(tail -1 <<<"$said")")
fi
limit=$((ALL_SECONDS - SECONDS))
run_rows "engine for GPUs" python3 -B "$here/engine_rows.py" "${arguments[@]}"
print_table
if $missed; then
  echo "not every bar is held"
  exit 1
fi
echo "every bar is held"
