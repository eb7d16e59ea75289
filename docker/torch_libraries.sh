#!/usr/bin/env bash
# Moves what LibTorch loads on a GPU out of the wheels of PyTorch and CUDA: libraries, at the places
# where their RPATHs look for each other, and licences. Files that only Python reads stay.
#
#   docker/torch_libraries.sh WHEELS TO
#
# WHEELS: the folder from `pip install --target`. Its files (5 GB) are moved, not copied.
set -euo pipefail

die() {
  printf 'torch_libraries: %s\n' "$*" >&2
  exit 1
}

[[ $# -eq 2 ]] || die "usage: docker/torch_libraries.sh WHEELS TO"
wheels=$1 to=$2
[[ -d $wheels ]] || die "$wheels is not a folder"
[[ ! -e $to ]] || die "$to exists already"

# move FILE...: to the same place below TO. Paths are relative to WHEELS.
move() {
  local file
  for file in "$@"; do
    mkdir -p "$to/$(dirname "$file")"
    mv "$wheels/$file" "$to/$file"
  done
}

mapfile -t libraries < <(
  cd "$wheels"
  find torch/lib nvidia -name '*.so*' \( -type f -o -type l \) ! -name 'libtorch_python*' \
    ! -path '*/cuda_nvcc/*' 2>/dev/null | sort
)
mapfile -t licences < <(
  cd "$wheels"
  find . -path '*.dist-info/*' -type f \
    \( -iname 'license*' -o -iname 'notice*' -o -iname 'copying*' -o -path '*/licenses/*' \) |
    sed 's|^\./||' | sort
)
for needed in torch/lib/libtorch_cpu.so torch/lib/libtorch_cuda.so torch/lib/libc10_cuda.so; do
  [[ " ${libraries[*]} " == *" $needed "* ]] ||
    die "there is no $needed in $wheels: this is not a wheel with CUDA"
done
nccl=$(printf '%s\n' "${libraries[@]}" | grep -m1 '/libnccl\.so\.2$') ||
  die "there is no libnccl.so.2 in $wheels: install the wheel of NCCL with that of PyTorch"
move "${libraries[@]}" "${licences[@]}"
# Where the image's /usr/lib/libnccl.so.2 leads to: releases of PyTorch have it in other folders.
ln -s "$nccl" "$to/libnccl.so.2"
