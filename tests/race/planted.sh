#!/usr/bin/env bash
# Takes one fence out of a copy of the shared-memory protocol, and sees that the thread sanitizer
# reports the data race: what its silence about the protocol is worth.
set -euo pipefail
cd "$(dirname "$0")/../.."

copy=$(mktemp -d -t lockstep-planted-XXXXXX)
trap 'rm -rf "$copy"' EXIT
tar --exclude=./.git --exclude=./build --exclude=./runs --exclude=./.cache -c . | tar -x -C "$copy"
cd "$copy"
source scripts/lib.sh

# Publish no longer orders what was written before the word after which peers read it.
code=trainer-runtime/collectives/shared_memory_group.cc
fence='word.exchange(value, std::memory_order_seq_cst);'
[[ $(grep -cF "$fence" "$code") == 1 ]] || die "$code: the fence is not there any more: $fence"
sed -i "s/$fence/word.exchange(value, std::memory_order_relaxed);/" "$code"

build_preset tsan lockstep_runtime_collectives_test
said=$(TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/tests/tsan.supp" timeout 120 \
  build/tsan/bin/lockstep_runtime_collectives_test \
  --gtest_filter=SharedMemoryRace.SmallMessagesAreReadAfterTheyAreWritten 2>&1) || true
[[ $said == *"data race"* ]] || die "a missing fence was NOT FOUND:" "$said"
say "a missing fence was found"
