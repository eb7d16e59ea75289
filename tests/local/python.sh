#!/usr/bin/env bash
# The Python package as a wheel: its size, its types, and its tests where it is installed into clean
# environments of the Pythons that are there (LOCKSTEP_PYTHONS names others), and beside a current
# torch and a current JAX, with the examples. What is installed for it goes into a cache outside the
# clone (6 GB with torch).
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly WHEEL_BYTES_MAX=15000000 # the programs are two thirds of it
package=trainer-runtime/python
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Makes environment $2 of Python $1 with packages $3..., unless it is there with these.
environment() {
  local python=$1 target=$2
  shift 2
  if [ "$(cat "$target/complete" 2>/dev/null)" != "$*" ]; then
    echo "==> installing $* into $target"
    rm -rf "$target"
    "$python" -m venv "$target"
    "$target/bin/pip" install --quiet "$@"
    echo "$*" >"$target/complete"
  fi
}

tools=$cache/python-tools
environment /usr/bin/python3 "$tools" build 'mypy==2.*' 'scikit-build-core==1.*'
"$tools/bin/python3" -m build --wheel --no-isolation --outdir "$scratch" "$package" \
  >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }
wheel=$(ls "$scratch"/lockstep_training-*-py3-none-*.whl)
bytes=$(stat --format=%s "$wheel")
echo "==> $(basename "$wheel"): $bytes bytes"
[ "$bytes" -le "$WHEEL_BYTES_MAX" ] || { echo "it may have $WHEEL_BYTES_MAX"; exit 1; }

tried=0
for python in ${LOCKSTEP_PYTHONS:-python3.9 python3.11 python3.13}; do
  if ! "$python" -c '' 2>/dev/null; then
    echo "==> no $python here"
    continue
  fi
  environment "$python" "$scratch/$(basename "$python")" "$wheel" numpy
  echo "==> the tests of NumPy with $python"
  LOCKSTEP_TEST_PYTHON=$scratch/$(basename "$python")/bin/python3 \
    /usr/bin/python3 -B tests/local/python_numpy_test.py
  tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { echo "no Python was there to install the wheel for"; exit 1; }

torch=$cache/python-torch
environment /usr/bin/python3 "$torch" torch numpy 'transformers==5.*' accelerate \
  'lightning==2.*'
"$torch/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
echo "==> types"
"$tools/bin/mypy" --strict --python-executable "$torch/bin/python3" \
  --exclude '(_test|fake_\w+|lockstep/jax)\.py$' --cache-dir "$scratch/mypy" "$package/lockstep"
jax=$cache/python-jax
environment /usr/bin/python3 "$jax" jax numpy
"$jax/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
"$tools/bin/mypy" --strict --python-executable "$jax/bin/python3" --cache-dir "$scratch/mypy" \
  "$package/lockstep/jax.py"
echo "==> the tests of JAX"
LOCKSTEP_TEST_PYTHON=$jax/bin/python3 /usr/bin/python3 -B tests/local/python_jax_test.py
LOCKSTEP_TEST_PYTHON=$jax/bin/python3 /usr/bin/python3 -B tests/local/examples_test.py \
  Example.test_own_program_jax
echo "==> the tests of torch, of Debian and a current one"
export LOCKSTEP_TEST_LONG=1 # tests/lanes.py
for test in python_torch_soak torchrun_soak torchrun_rendezvous_soak; do
  /usr/bin/python3 -B "tests/local/$test.py"
done
for test in python_torch_test python_groups_test python_trainers_test python_hang_test \
  python_unchanged_test \
  python_horovod_test python_torch_soak torchrun_test torchrun_soak torchrun_rendezvous_test \
  torchrun_rendezvous_soak examples_test; do
  LOCKSTEP_TEST_PYTHON=$torch/bin/python3 /usr/bin/python3 -B "tests/local/$test.py"
done
