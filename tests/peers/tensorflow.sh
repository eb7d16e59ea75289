#!/usr/bin/env bash
# An unmodified MultiWorkerMirroredStrategy program with two workers: the same losses under a
# TrainingJob as started by hand; what lockstep.keras.Report shows of programs; that a program with
# BackupAndRestore which loses a worker goes on from its backup; and the examples for TensorFlow.
# TensorFlow is installed into a cache outside the clone.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/tensorflow
if ! "$cache/bin/python3" -c 'import tensorflow, tf_keras' 2>/dev/null; then
  echo "==> installing tensorflow-cpu and tf-keras into $cache (1.5 GB)"
  /usr/bin/python3 -m venv "$cache"
  "$cache/bin/pip" install --quiet tensorflow-cpu==2.21.0
  # With its dependencies tf-keras would pull the GPU package over the CPU one.
  "$cache/bin/pip" install --quiet --no-deps tf-keras==2.21.0
fi
export LOCKSTEP_TENSORFLOW_PYTHON=$cache/bin/python3
/usr/bin/python3 tests/peers/tensorflow_test.py
/usr/bin/python3 -B tests/peers/keras_report_test.py
/usr/bin/python3 -B tests/peers/horovod_tensorflow_test.py
/usr/bin/python3 -B tests/peers/tensorflow_backup_test.py
LOCKSTEP_TEST_PYTHON=$LOCKSTEP_TENSORFLOW_PYTHON /usr/bin/python3 -B tests/local/examples_test.py \
  Example.test_tensorflow_mwms Example.test_horovod_tensorflow_elastic
