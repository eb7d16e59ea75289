#!/usr/bin/env bash
# The engine for GPUs, built against PyTorch's own wheel. Without a GPU: it loads, its layers and
# autograd keep the engines' promises on the CPU of that LibTorch, and it refuses to train on a GPU
# in words that help. With one it trains there, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/lib.sh

scripts/install.sh cuda torch
build_preset dev lockstep_cuda_engine lockstep-runtime
bin=build/dev/bin

"$bin/lockstep_runtime_engine_torch_cuda_test" --gtest_filter='-TorchCuda*'
"$bin/lockstep_runtime_engine_torch_cuda_test" --gtest_filter='TorchCuda*'
"$bin/lockstep_runtime_engine_cuda_plugin_test"
python3 -B tests/local/runtime_binary_test.py Messages.test_train_on_a_gpu_says_what_is_missing
