#!/usr/bin/env bash
# Installs what is missing, builds, and trains the bundled digits with three workers on this
# machine. One worker is killed on the way: watch the other two wait for its replacement and go on.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

case "${1:-}" in
  "") ;;
  -h | --help)
    sed -n '2,3s/^# //p' "$0"
    echo "Usage: scripts/demo.sh    (no options; needs Debian 12, and root or sudo the first time)"
    exit 0
    ;;
  *) die "unknown option '$1'; scripts/demo.sh has no options" ;;
esac

begin_stages
say "installing what is missing"
scripts/install.sh build
build_preset release lockstep lockstep-runtime lockstep_engine

say "training examples/mnist.yaml; worker 1 will be killed at step 200"
build/release/bin/lockstep run examples/mnist.yaml --chaos kill=worker-1@step=200 \
  --summary build/release/demo-summary.json
say "done; the summary is in build/release/demo-summary.json"
say "next: build/release/bin/lockstep run --help, or read README.md"
