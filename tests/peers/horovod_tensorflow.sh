#!/usr/bin/env bash
# A TensorFlow program for Horovod by Horovod itself and, with one import changed, by
# lockstep.horovod.tensorflow: the same losses, and what a step of each takes beside the other.
# Horovod is built from its source package for the newest TensorFlow that it compiles with, into a
# cache outside the clone. That TensorFlow has no wheels for newer Pythons; LOCKSTEP_PYTHON311 names
# another one.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/horovod-tensorflow-0.28.1
python=${LOCKSTEP_PYTHON311:-python3.11}
if ! "$cache/bin/python3" -c 'import horovod.tensorflow' 2>/dev/null; then
  echo "==> building horovod into $cache"
  rm -rf "$cache"
  "$python" -m venv "$cache"
  # Its setup.py uses what later versions of setuptools have dropped.
  "$cache/bin/pip" install --quiet 'setuptools<70' wheel packaging cloudpickle cffi psutil pyyaml \
    tensorflow-cpu==2.12.1
  MAKEFLAGS=-j$(nproc) HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_TENSORFLOW=1 \
  HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
    "$cache/bin/pip" install --quiet --no-build-isolation --no-deps horovod==0.28.1
fi
export LOCKSTEP_HOROVOD_TENSORFLOW_PYTHON=$cache/bin/python3
exec /usr/bin/python3 -B tests/peers/horovod_tensorflow_peer_test.py
