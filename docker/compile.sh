#!/usr/bin/env bash
# Compiles targets in a build stage of an image:  docker/compile.sh PRESET TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
build_preset "$@"
