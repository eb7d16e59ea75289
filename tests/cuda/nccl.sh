#!/usr/bin/env bash
# The real libnccl.so.2 on a machine without a GPU: read, asked for an identity, and refusing to
# join in words that help. It is the one that docker/runtime-cuda.Dockerfile ships, installed into a
# cache outside the clone.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/install.sh nccl
folder=$(scripts/install.sh --path nccl)
version=${folder##*nccl-}
library=$folder/nvidia/nccl/lib/libnccl.so.2

bin=${LOCKSTEP_BIN:-build/dev/bin}
LOCKSTEP_TEST_NCCL_LIBRARY=$library "$bin/lockstep_runtime_nccl_test" --gtest_filter='RealNccl.*'
echo "==> lockstep-runtime doctor"
LD_LIBRARY_PATH=$(dirname "$library") "$bin/lockstep-runtime" doctor | tee /dev/stderr |
  grep -q "^nccl  *NCCL $version (.*revoke"
