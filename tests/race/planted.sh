#!/usr/bin/env bash
# Takes a fence, and then a wait, out of a copy of the shared-memory protocol, and sees each time
# that the thread sanitizer reports the data race: what its silence about the protocol is worth.
set -euo pipefail
cd "$(dirname "$0")/../.."

copy=$(mktemp -d -t lockstep-planted-XXXXXX)
trap 'rm -rf "$copy"' EXIT
tar --exclude=./.git --exclude=./build --exclude=./runs --exclude=./.cache -c . | tar -x -C "$copy"
cd "$copy"
source scripts/lib.sh

# find_planted NAME FILE OLD NEW TEST: plants NEW for OLD, and digs it out again.
find_planted() {
  local name=$1 code=trainer-runtime/collectives/$2 old=$3 new=$4 test=$5 said
  [[ $(grep -cF "$old" "$code") == 1 ]] || die "$code: $name has lost its place: $old"
  cp "$code" "$copy/as-it-was"
  sed -i "s/$old/$new/" "$code"
  build_preset tsan lockstep_runtime_collectives_test
  said=$(TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/tests/tsan.supp" timeout 120 \
    build/tsan/bin/lockstep_runtime_collectives_test --gtest_filter="$test" 2>&1) || true
  [[ $said == *"data race"* ]] || die "$name was NOT FOUND:" "$said"
  cp "$copy/as-it-was" "$code"
  say "$name was found"
}

# Publish no longer orders what was written before the word after which peers read it.
find_planted 'a missing fence' shared_memory_group.cc \
  'word.exchange(value, std::memory_order_seq_cst);' \
  'word.exchange(value, std::memory_order_relaxed);' \
  SharedMemoryRace.SmallMessagesAreReadAfterTheyAreWritten

# Who has its sum makes its next numbers while others still read the last ones.
find_planted 'a missing wait' shared_memory_communicator.cc \
  'EndReading(context, cut.chunk_count, ranks_)' \
  'EndReading(context, cut.chunk_count, {})' \
  SharedMemoryRace.LentMemoryIsItsOwnersAgainAfterTheSum
