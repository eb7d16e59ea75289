#!/usr/bin/env bash
# The engine for GPUs, compiled on a machine with a GPU against the PyTorch that is there: LibTorch
# is no library that a program of another release of it can be linked with.
#
#   tests/gpu/build_engine.sh PROGRAMS OUT
#
# OUT becomes a folder with the plug-in and, beside it, links to PyTorch and CUDA as the plug-in
# looks for them. It needs g++ with C++20 and headers of CUDA (nvcc's, or those of PyTorch's
# wheels); what has nothing to do with LibTorch comes compiled, in PROGRAMS. Where the plug-in that
# lies in PROGRAMS is of the same release of PyTorch it is taken as it is.
#
# Exit code 69: it cannot be had here, and the last line says why.
set -euo pipefail
readonly programs=$1 out=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
readonly root
readonly EXIT_NOT_HERE=69
readonly ENGINE=liblockstep-engine-cuda.so
readonly HOME_FOLDER=$root/trainer-runtime/engine/torch_cuda

not_here() {
  echo "$*"
  exit $EXIT_NOT_HERE
}

# Of PyTorch: version and folder of its package.
{ read -r version && read -r torch; } < <(
  python3 -c 'import torch; print(torch.__version__); print(torch.__path__[0])' 2>/dev/null
) || not_here "no PyTorch: python3 cannot import torch"
site=$(dirname "$torch")
[ -e "$torch/lib/libtorch_cuda.so" ] || not_here "PyTorch $version here is without CUDA"
runtime=$(find "$site/nvidia" -name 'libcudart.so.*' 2>/dev/null | head -1)
[ -n "$runtime" ] || not_here "no libcudart.so beside PyTorch $version"

mkdir -p "$out/lockstep-engine-cuda"
ln -sfn "$torch" "$out/lockstep-engine-cuda/torch"
ln -sfn "$site/nvidia" "$out/lockstep-engine-cuda/nvidia"

carried=$(cat "$programs/lockstep-engine-cuda.version" 2>/dev/null || true)
if [ -n "$carried" ] && [ "$carried" = "${version%%+*}" ]; then
  cp "$programs/$ENGINE" "$out/$ENGINE"
  echo "the engine that was carried, for PyTorch $version"
  exit
fi

# What the plug-in is made of, as its own build has it.
mapfile -t sources < <(
  sed -n '/^set(sources /,/)$/p' "$HOME_FOLDER/CMakeLists.txt" | grep -o '[./a-z_]*\.cc'
  echo torch_cuda_plugin.cc
)
[ ${#sources[@]} -gt 1 ] || not_here "no list of sources in $HOME_FOLDER/CMakeLists.txt"
[ -e "$programs/liblockstep-gpu-parts.a" ] || not_here "no $programs/liblockstep-gpu-parts.a"
command -v g++ >/dev/null || not_here "no g++ to compile the engine for PyTorch $version with"
headers=()
for folder in "$(dirname "$runtime")/../include" "${CUDA_HOME:-/usr/local/cuda}/include"; do
  [ ! -e "$folder/cuda_runtime_api.h" ] || headers+=(-isystem "$folder")
done
[ ${#headers[@]} -gt 0 ] || not_here "no headers of CUDA to compile the engine with"

log=$out/build.log
: >"$log"
jobs=()
objects=()
for source in "${sources[@]}"; do
  object=$out/$(basename "$source" .cc).o
  objects+=("$object")
  g++ -std=c++20 -O2 -fPIC -fvisibility=hidden -DNDEBUG -I "$root" -isystem "$programs/include" \
    -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" "${headers[@]}" \
    -c "$HOME_FOLDER/$source" -o "$object" >>"$log" 2>&1 &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || not_here "does not compile with PyTorch $version: $(grep -m1 error "$log")"
done
g++ -shared -o "$out/$ENGINE" "${objects[@]}" "$programs/liblockstep-gpu-parts.a" \
  "$torch/lib/libtorch_cpu.so" "$torch/lib/libc10.so" "$torch/lib/libc10_cuda.so" "$runtime" \
  -Wl,--exclude-libs,ALL -Wl,-z,now -Wl,-z,defs -Wl,--disable-new-dtags \
  "-Wl,-rpath,\$ORIGIN/lockstep-engine-cuda/torch/lib:$(dirname "$runtime")" >>"$log" 2>&1 ||
  not_here "does not link with PyTorch $version: $(tail -1 "$log")"
echo "compiled here, for PyTorch $version, in $SECONDS s"
