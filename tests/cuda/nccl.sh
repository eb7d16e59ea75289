#!/usr/bin/env bash
# The real libnccl.so.2 on a machine without a GPU: read, asked for an identity, and refusing to
# join in words that help. It is the one that docker/runtime-cuda.Dockerfile ships, installed into a
# cache outside the clone.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -n 's/.*nvidia-nccl-cu13==\([0-9.]*\).*/\1/p' docker/runtime-cuda.Dockerfile)
cache=${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}/nccl-$version
library=$cache/nvidia/nccl/lib/libnccl.so.2
if [ ! -e "$library" ]; then
  echo "==> installing NCCL $version into $cache (250 MB)"
  rm -rf "$cache.part" "$cache.venv"
  /usr/bin/python3 -m venv "$cache.venv"
  "$cache.venv/bin/pip" install --quiet --no-deps --target "$cache.part" \
    "nvidia-nccl-cu13==$version"
  rm -rf "$cache.venv"
  mv "$cache.part" "$cache"
fi

bin=${LOCKSTEP_BIN:-build/dev/bin}
LOCKSTEP_TEST_NCCL_LIBRARY=$library "$bin/lockstep_runtime_nccl_test" --gtest_filter='RealNccl.*'
echo "==> lockstep-runtime doctor"
LD_LIBRARY_PATH=$(dirname "$library") "$bin/lockstep-runtime" doctor | tee /dev/stderr |
  grep -q "^nccl  *NCCL $version (.*revoke"
