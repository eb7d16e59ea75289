#!/usr/bin/env bash
# Installs everything this project needs on Debian 12: packages of the distribution, two static
# libraries built from their source packages (docs/decisions/0003-static-prometheus.md), and for
# test clusters the programs that scripts/cluster-tools.sh builds.
# Does nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Source packages, their versions, and the archive that is made of each.
readonly PROMETHEUS="prometheus-cpp 1.0.1-1 lib/libprometheus-cpp-core.a"
readonly SIMDJSON="simdjson 3.0.1-1 lib/libsimdjson.a"
readonly CACHE_DIR="${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"

# What the two programs and their unit tests are compiled with.
readonly BUILD_PACKAGES=(
  ca-certificates ccache cmake g++ git make ninja-build xz-utils
  libboost1.74-dev libcli11-dev libcpprest-dev libfmt-dev libmimalloc-dev libsimdjson-dev
  libspdlog-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev
  libgmock-dev libgtest-dev python3
  libtorch-dev libopenblas0-pthread
)
# What the tests are linked with and run: symbol checks, an unmodified torch program as a job, and
# the Python package.
readonly TEST_PACKAGES=(binutils clang-format-14 mold procps python3-numpy python3-torch)
# What the test clusters run besides: program and the package that has it. A program that is there
# already stays as it is; a containerd of another origin must not be replaced.
readonly CLUSTER_PROGRAMS=(
  "containerd containerd" "ctr containerd" "runc runc" "ip iproute2" "openssl openssl"
  "/usr/lib/cni/bridge containernetworking-plugins" "/bin/busybox busybox-static"
  "buildah buildah" "mmdebstrap mmdebstrap"
)
# What TensorFlow, Horovod and the Python package are installed with.
readonly PEER_PACKAGES=(python3-dev python3-venv)
# What compiles kernels for GPUs, as NVIDIA publishes it for Python, without a GPU or a driver: 129
# MB. 13.0 runs on every driver of CUDA 13.
readonly CUDA_VERSION=13.0.88
readonly CUDA_WHEELS=(
  "nvidia-cuda-nvcc==$CUDA_VERSION" "nvidia-cuda-crt==$CUDA_VERSION"
  "nvidia-nvvm==$CUDA_VERSION" nvidia-cuda-runtime==13.0.96
)
# The current LibTorch with CUDA, as PyTorch publishes it, and what its CPU half loads: 550 MB, 1.2
# GB unpacked. What the other half loads on a GPU (cuDNN, cuBLAS and others, 4 GB) is not here: pip
# installs it with torch where a GPU is.
readonly TORCH_VERSION=2.15.0
readonly TORCH_WHEELS=(
  "torch==$TORCH_VERSION" nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86
)
# NCCL as the CUDA image ships it: 250 MB.
readonly NCCL_VERSION=2.30.7
readonly NCCL_WHEELS=("nvidia-nccl-cu13==$NCCL_VERSION")
# What wheels are installed with.
readonly WHEEL_PACKAGES=(python3-venv)
# What the benchmarks compare with.
readonly BENCH_PACKAGES=(libgloo-dev libopenmpi-dev openmpi-bin python3-torch)

usage() {
  cat <<TEXT
usage: scripts/install.sh [--check] [build] [test] [cluster] [cuda] [nccl] [torch] [peers] [bench]
                          [all]
       scripts/install.sh --path cuda|nccl|torch|prometheus-cpp|simdjson

  build    compiler, libraries, static prometheus-cpp and simdjson in ${CACHE_DIR}  (the default)
  test     build, and the programs that the tests need
  cluster  build, and the programs of the test clusters (Kubernetes is built from source)
  cuda     build, and nvcc ${CUDA_VERSION} in ${CACHE_DIR}
  nccl     build, and NCCL ${NCCL_VERSION} in ${CACHE_DIR}
  torch    build, and LibTorch ${TORCH_VERSION} for CUDA in ${CACHE_DIR}
  peers    build, and the packages that scripts/test.sh --peers and --python need
  bench    build, and the programs that the benchmarks compare with
  all      everything

  --check  only print what is missing; the exit code is 1 if anything is missing
  --path   only print the folder of nvcc's toolkit, NCCL, LibTorch or a static library, even if it
           is not installed
TEXT
}

say() { printf 'install: %s\n' "$*"; }

die() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

# Runs a command as root.
as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo -- "$@"
  fi
}

# Those of the named packages that are not installed, one a line.
missing_packages() {
  local installed package
  installed=$(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null ||
    true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done | sort --unique
}

# The packages that the programs of the test clusters are missing, one a line.
cluster_packages() {
  local entry
  for entry in "${CLUSTER_PROGRAMS[@]}"; do
    command -v "${entry% *}" >/dev/null || printf '%s\n' "${entry#* }"
  done | sort --unique
  # Any Go can fetch the one that is needed.
  if ! command -v go /usr/local/go/bin/go >/dev/null; then
    echo golang-go
  fi
}

install_packages() {
  say "installing ${#} packages: $*"
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    die "not root and no sudo: run as root: apt-get install --no-install-recommends $*"
  fi
  # A broken list of somebody else's must not stop us: the install below tells whether it matters.
  as_root apt-get -q -o DPkg::Lock::Timeout=300 update ||
    say "some package lists could not be updated; using the lists that are there"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$@"
}

# The folder of a static library: its name has version and architecture.
static_dir() {
  local name version archive
  read -r name version archive <<<"$1"
  printf '%s/%s-%s-%s' "$CACHE_DIR" "$name" "$version" "$(uname -m)"
}

# Whole: with its licence, which goes where the library goes.
has_static() { [[ -f $(static_dir "$1")/${1##* } && -f $(static_dir "$1")/copyright ]]; }

# Writes into folder $1 the system's own package sources, as sources of source packages. Only
# Debian's kind (component "main"): others seldom carry sources.
derive_source_lists() {
  local target=$1 file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f $file ]] || continue
    # One stanza a paragraph; comments inside are dropped.
    grep -v '^#' "$file" |
      awk 'BEGIN { RS = ""; ORS = "\n\n" }
           /(^|\n)Types:[^\n]*deb/ && /(^|\n)Components:[^\n]*main/ {
             sub(/Types:[^\n]*/, "Types: deb-src"); print
           }' >"$target/$(basename "$file")"
  done
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n -E 's/^[[:space:]]*deb[[:space:]]+(.*[[:space:]]main([[:space:]].*)?)$/deb-src \1/p' \
      >"$target/derived.list" || true
}

# download_source WORK NAME VERSION: downloads the source package into folder WORK, verified by apt
# as any package is. Touches nothing of the system's apt state, so it needs no root.
download_source() {
  local work=$1 name=$2 version=$3
  mkdir -p "$work/sources" "$work/lists/partial" "$work/archives/partial" "$work/download"
  derive_source_lists "$work/sources"
  local options=(
    -q -o APT::Sandbox::User="$(id -un)"
    -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources"
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work"
  )
  apt-get "${options[@]}" update || say "some source lists could not be read"
  (cd "$work/download" && apt-get "${options[@]}" source --download-only "$name=$version") ||
    die "cannot download the source of $name $version"
}

# Each builds what is in WORK/tree and installs it in WORK/install.
compile_prometheus_cpp() {
  cmake -S "$1/tree" -B "$1/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
    -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_TESTING=OFF -DENABLE_COMPRESSION=OFF \
    -DGENERATE_PKGCONFIG=OFF -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_INSTALL_PREFIX="$1/install" &&
    cmake --build "$1/build" --target install
}
compile_simdjson() {
  mkdir -p "$1/install/lib" &&
    g++ -std=c++17 -O3 -DNDEBUG -fPIC -ffile-prefix-map="$1/tree/=" -c \
      "$1/tree/singleheader/simdjson.cpp" -o "$1/simdjson.o" &&
    ar rcsD "$1/install/lib/libsimdjson.a" "$1/simdjson.o"
}

# In a shell of its own, for its trap and its lock.
build_static() (
  local name version archive work log target
  read -r name version archive <<<"$1"
  target=$(static_dir "$1")
  mkdir -p "$CACHE_DIR"
  exec 9>"$CACHE_DIR/install.lock"
  flock 9 # two runs at once build it once
  if has_static "$1"; then
    return
  fi
  say "building a static $name $version in $target"
  work=$(mktemp -d "$CACHE_DIR/build.XXXXXX")
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf '$work'" EXIT
  log=$CACHE_DIR/$name-build.log
  download_source "$work" "$name" "$version" >"$log" 2>&1 || die "download failed, see $log"
  mkdir "$work/tree"
  tar --extract --strip-components=1 --directory="$work/tree" \
    --file="$(ls "$work"/download/*.orig.tar.*)"
  "compile_${name//-/_}" "$work" >>"$log" 2>&1 || die "build failed, see $log"
  cp "$work/tree/LICENSE" "$work/install/copyright"
  rm -rf "$target"
  mv "$work/install" "$target" # complete or not there
)

# The folder of what --path names. Its name has the version: clones of several ages share a cache.
cache_path() {
  case $1 in
    cuda) printf '%s/cuda-%s' "$CACHE_DIR" "$CUDA_VERSION" ;;
    nccl) printf '%s/nccl-%s' "$CACHE_DIR" "$NCCL_VERSION" ;;
    torch) printf '%s/torch-%s' "$CACHE_DIR" "$TORCH_VERSION" ;;
    prometheus-cpp) static_dir "$PROMETHEUS" ;;
    simdjson) static_dir "$SIMDJSON" ;;
    *) die "--path of '$1': expected cuda, nccl, torch, prometheus-cpp or simdjson" ;;
  esac
}

# install_wheels GROUP WHEEL...: complete or not there. In a shell of its own, for its trap.
install_wheels() (
  local target work toolkit
  target=$(cache_path "$1")
  say "installing ${*:2} in $target"
  mkdir -p "$CACHE_DIR"
  work=$(mktemp -d "$target.XXXXXX")
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf '$work'" EXIT
  /usr/bin/python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --no-cache-dir --no-deps --target "$work/wheels" "${@:2}" ||
    die "cannot install the wheels of $1"
  toolkit=$work/wheels/nvidia/cu13
  if [[ -d $toolkit ]]; then
    # nvcc of 13.0 and CMake look for these, and the wheels lack them.
    ln -s libcudart.so.13 "$toolkit/lib/libcudart.so"
    ln -s lib "$toolkit/lib64"
  fi
  # Another run may have been faster; one is as good as the other.
  [[ -d $target ]] || mv -T "$work/wheels" "$target" || [[ -d $target ]]
)

main() {
  if [[ ${1:-} == --path ]]; then
    cache_path "${2:-}"
    echo
    return
  fi
  local check_only=false with_cluster=false wanted=("${BUILD_PACKAGES[@]}") wheels=() group
  for group in "$@"; do
    case $group in
      --check) check_only=true ;;
      build) ;;
      test) wanted+=("${TEST_PACKAGES[@]}") ;;
      peers) wanted+=("${PEER_PACKAGES[@]}") ;;
      bench) wanted+=("${BENCH_PACKAGES[@]}") ;;
      cluster) with_cluster=true ;;
      cuda | nccl | torch)
        wanted+=("${WHEEL_PACKAGES[@]}")
        wheels+=("$group")
        ;;
      all)
        wanted+=("${TEST_PACKAGES[@]}" "${PEER_PACKAGES[@]}" "${BENCH_PACKAGES[@]}")
        wanted+=("${WHEEL_PACKAGES[@]}")
        wheels=(cuda nccl torch)
        with_cluster=true
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
  done
  command -v apt-get >/dev/null || die "this needs Debian 12 (no apt-get here)"
  if ! grep -qs '^VERSION_ID="12"' /etc/os-release; then
    say "this is not Debian 12: continuing, but this system was never tested"
  fi

  local missing
  mapfile -t missing < <(
    missing_packages "${wanted[@]}"
    if $with_cluster; then
      cluster_packages
    fi
  )
  if $check_only; then
    if [[ ${#missing[@]} -gt 0 ]]; then
      say "missing packages: ${missing[*]}"
    fi
    local static
    for static in "$PROMETHEUS" "$SIMDJSON"; do
      has_static "$static" || say "missing: static ${static%% *} in $(static_dir "$static")"
    done
    if $with_cluster && ! scripts/cluster-tools.sh --check; then
      say "missing: programs in $(scripts/cluster-tools.sh --path)"
      missing+=(programs)
    fi
    for group in "${wheels[@]}"; do
      if [[ ! -d $(cache_path "$group") ]]; then
        say "missing: wheels of $group in $(cache_path "$group")"
        missing+=("$group")
      fi
    done
    [[ ${#missing[@]} -eq 0 ]] && has_static "$PROMETHEUS" && has_static "$SIMDJSON"
    return
  fi
  if [[ ${#missing[@]} -gt 0 ]]; then
    install_packages "${missing[@]}"
  fi
  has_static "$PROMETHEUS" || build_static "$PROMETHEUS"
  has_static "$SIMDJSON" || build_static "$SIMDJSON"
  for group in "${wheels[@]}"; do
    if [[ ! -d $(cache_path "$group") ]]; then
      case $group in
        cuda) install_wheels cuda "${CUDA_WHEELS[@]}" ;;
        nccl) install_wheels nccl "${NCCL_WHEELS[@]}" ;;
        torch) install_wheels torch "${TORCH_WHEELS[@]}" ;;
      esac
    fi
  done
  if $with_cluster; then
    scripts/cluster-tools.sh
  fi
  say "everything is installed"
}

main "$@"
