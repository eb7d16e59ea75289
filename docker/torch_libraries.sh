#!/usr/bin/env bash
# Lays out what LibTorch loads on a GPU, of PyTorch's wheel and those of CUDA that it depends on:
# libraries where their RPATHs look for each other, and licences. What only Python reads stays.
#
#   docker/torch_libraries.sh WHEELS TO
#
# WHEELS is what `pip install --target` has made. Its files are moved: there are 5 GB of them.
set -euo pipefail

die() {
  printf 'torch_libraries: %s\n' "$*" >&2
  exit 1
}

[[ $# -eq 2 ]] || die "usage: docker/torch_libraries.sh WHEELS TO"
wheels=$1 to=$2
[[ -d $wheels ]] || die "no $wheels"
[[ ! -e $to ]] || die "$to exists"

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
  [[ " ${libraries[*]} " == *" $needed "* ]] || die "no $needed in $wheels: not a wheel with CUDA"
done
nccl=$(printf '%s\n' "${libraries[@]}" | grep -m1 '/libnccl\.so\.2$') ||
  die "no libnccl.so.2 in $wheels: PyTorch's wheel depends on NCCL's"
move "${libraries[@]}" "${licences[@]}"
# Where the image's /usr/lib/libnccl.so.2 leads to: releases of PyTorch have it in other folders.
ln -s "$nccl" "$to/libnccl.so.2"
