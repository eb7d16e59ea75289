#!/usr/bin/env bash
# A TensorFlow program for Horovod by Horovod itself and, with one import changed, by
# lockstep.horovod.tensorflow: the same losses, and what a step of each takes beside the other.
# Horovod is built from its source package into a cache outside the clone, for TensorFlow 2.12, the
# newest of its time; that one has wheels up to Python 3.11, which LOCKSTEP_PYTHON311 names.
#
# Not part of scripts/test.sh: it has not run to its end yet. On two cores with a load of 25
# TensorFlow itself was not installed within a quarter of an hour, and the build never began. Open
# is, besides how long that takes, whether lockstep.horovod.tensorflow, which is for TensorFlow 2.16
# and newer, runs on this one; if not, what is compared is a step of each beside one process alone
# on the same TensorFlow.
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
