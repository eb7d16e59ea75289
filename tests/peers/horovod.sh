#!/usr/bin/env bash
# An unmodified program for Horovod with two, three and two times two ranks: the same losses under
# a TrainingJob as under horovodrun. Horovod is built for Debian's torch, from its source package,
# into a cache outside the clone (4 minutes).
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/horovod-0.28.1
if ! "$cache/bin/python3" -c 'import horovod.torch as hvd; hvd.init' 2>/dev/null; then
  echo "==> building horovod into $cache"
  /usr/bin/python3 -m venv --system-site-packages "$cache"
  # Its setup.py uses what later versions of setuptools have dropped; Debian's torch includes the
  # headers of pybind11 without having them. pip's cache may have it as built for TensorFlow.
  "$cache/bin/pip" install --quiet 'setuptools<70' wheel packaging cloudpickle cffi psutil pyyaml \
    pybind11==2.10.3
  CPLUS_INCLUDE_PATH=$("$cache/bin/python3" -c 'import pybind11; print(pybind11.get_include())') \
  MAKEFLAGS=-j$(nproc) HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_PYTORCH=1 \
  HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
    "$cache/bin/pip" install --quiet --no-cache-dir --no-build-isolation --no-deps \
      horovod==0.28.1
fi
export LOCKSTEP_HOROVOD_PYTHON=$cache/bin/python3
/usr/bin/python3 -B tests/peers/horovod_torch_test.py
LOCKSTEP_TEST_PYTHON=$LOCKSTEP_HOROVOD_PYTHON /usr/bin/python3 -B tests/local/examples_test.py \
  Example.test_horovod_torch
