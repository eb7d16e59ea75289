#!/usr/bin/env bash
# TensorFlow programs for Horovod with two and three ranks: the same losses under horovodrun, beside
# Horovod as a TrainingJob, and with their imports changed without it. Horovod is built from its
# source package, for TensorFlow 2.12, the newest of its time, which has wheels up to Python 3.11,
# into a cache outside the clone (1.6 GB; four minutes). Where it cannot be, the script says so and
# ends well: nothing of ours has failed then.
#
# LOCKSTEP_HOROVOD_EXAMPLES names the folder `examples` of Horovod's source (v0.28.1), which no
# package has: Horovod's own examples are tried as well then.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/horovod-tensorflow-0.28.1
python=${LOCKSTEP_PYTHON311:-/usr/bin/python3}

install_horovod() {
  rm -rf "$cache"
  "$python" -m venv "$cache"
  # Its setup.py uses what later versions of setuptools have dropped. TensorFlow 2.12 wants an old
  # NumPy and any JAX: these go together, which pip finds out only by trying one after the other.
  # pip's cache may have Horovod as built for PyTorch.
  "$cache/bin/pip" install --quiet 'setuptools<70' wheel packaging cloudpickle cffi psutil pyyaml \
    jax==0.4.38 jaxlib==0.4.38 ml_dtypes==0.5.4 scipy==1.15.3 tensorflow-cpu==2.12.1 &&
    MAKEFLAGS=-j$(nproc) HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_TENSORFLOW=1 \
    HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
      "$cache/bin/pip" install --quiet --no-cache-dir --no-build-isolation --no-deps \
        horovod==0.28.1
}

if ! "$cache/bin/python3" -c 'import horovod.tensorflow as hvd; hvd.init' 2>/dev/null; then
  if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 12))'; then
    echo "==> SKIPPED, Horovod for TensorFlow: $python is not of Python 3.10 or 3.11, for which" \
      "all of it has wheels; LOCKSTEP_PYTHON311 names one"
    exit 0
  fi
  echo "==> building horovod into $cache"
  if ! install_horovod; then
    echo "==> SKIPPED, Horovod for TensorFlow: it cannot be installed here, see above"
    exit 0
  fi
fi
export LOCKSTEP_HOROVOD_TENSORFLOW_PYTHON=$cache/bin/python3
exec /usr/bin/python3 -B tests/peers/horovod_tensorflow_peer_test.py
