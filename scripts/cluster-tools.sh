#!/usr/bin/env bash
# Builds the programs of the test clusters from one Go module, or takes them from Debian packages.
# It makes only what is missing. The first time takes 6 to 10 min on two cores.
#
#   scripts/cluster-tools.sh            builds
#   scripts/cluster-tools.sh --path     prints the folder of the programs, built or not
#   scripts/cluster-tools.sh --check    exit code 1 if a program is missing
#   scripts/cluster-tools.sh --version  prints the version of Kubernetes
#
# All of these take --kubernetes VERSION: 1.36.3 (the default) or 1.37.2. The second version has its
# own folder, with links to the programs that do not belong to Kubernetes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CACHE_DIR="${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
readonly MODULE=tests/cluster/tools
readonly KUBERNETES_VERSION=1.36.3
readonly OTHER_VERSION=1.37.2
readonly OTHER_MODULE=tests/cluster/kubernetes-1.37
readonly KUBERNETES=k8s.io/kubernetes/cmd

# Name and package.
readonly TOOLS=(
  "etcd go.etcd.io/etcd/server/v3"
  "kube-apiserver $KUBERNETES/kube-apiserver"
  "kubectl $KUBERNETES/kubectl"
  "kube-controller-manager $KUBERNETES/kube-controller-manager"
  "kube-scheduler $KUBERNETES/kube-scheduler"
  "kwok sigs.k8s.io/kwok/cmd/kwok"
  "helm helm.sh/helm/v3/cmd/helm"
  "kubelet $KUBERNETES/kubelet"
  "gpu-plugin ./gpu-plugin"
  "coredns ./coredns"
)

# Name, Debian package. Taken out of the package, as installing it would start a server here.
readonly DEBIAN_TOOLS=("prometheus prometheus" "promtool prometheus")

# Kubernetes and helm take their version, and helm the one it renders for, from the linker; without
# it helm believes in Kubernetes 1.20.
readonly VERSION=k8s.io/component-base/version
readonly HELM=helm.sh/helm/v3
readonly LDFLAGS="-s -w
  -X $VERSION.gitVersion=v1.36.3 -X $VERSION.gitMajor=1 -X $VERSION.gitMinor=36
  -X $HELM/internal/version.version=v3.22.0
  -X $HELM/pkg/chartutil.k8sVersionMajor=1 -X $HELM/pkg/chartutil.k8sVersionMinor=36
  -X $HELM/pkg/lint/rules.k8sVersionMajor=1 -X $HELM/pkg/lint/rules.k8sVersionMinor=36"

# The first Go that the modules accept, and the one fetched where there is none: its hash as the
# public checksum database has it.
readonly GO_MINOR_MIN=26
readonly GO_VERSION=v0.0.1-go1.26.8.linux-amd64
readonly GO_SUM=h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=

# The other version needs these, from its own module; all else it shares with the first.
readonly OTHER_TOOLS=(
  "kube-apiserver $KUBERNETES/kube-apiserver"
  "kubectl $KUBERNETES/kubectl"
  "kube-controller-manager $KUBERNETES/kube-controller-manager"
  "kube-scheduler $KUBERNETES/kube-scheduler"
  "kubelet $KUBERNETES/kubelet"
)
readonly OTHER_LDFLAGS="-s -w
  -X $VERSION.gitVersion=v1.37.2 -X $VERSION.gitMajor=1 -X $VERSION.gitMinor=37"

say() { printf 'cluster-tools: %s\n' "$*"; }

die() {
  printf 'cluster-tools: %s\n' "$*" >&2
  exit 1
}

# The programs' folder: another one when anything they are made from changes.
tools_dir() {
  local key
  key=$({
    find "$MODULE" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    echo "${TOOLS[@]}" "$LDFLAGS" "$(uname -m)"
  } | sha256sum | cut -c1-16)
  printf '%s/cluster-tools-%s/bin' "$CACHE_DIR" "$key"
}

other_tools_dir() {
  local key
  key=$({
    find "$OTHER_MODULE" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    echo "${OTHER_TOOLS[@]}" "$OTHER_LDFLAGS" "$(uname -m)"
    tools_dir # where the links go
  } | sha256sum | cut -c1-16)
  printf '%s/kubernetes-%s-%s/bin' "$CACHE_DIR" "$OTHER_VERSION" "$key"
}

# missing_tools DIRECTORY TOOL...
missing_tools() {
  local directory=$1 tool
  shift
  for tool in "$@"; do
    [[ -x $directory/${tool%% *} ]] || printf '%s\n' "$tool"
  done
}

# The tools that are the same for both versions of Kubernetes.
shared_tools() {
  local tool
  for tool in "${TOOLS[@]}"; do
    [[ $tool == *" $KUBERNETES/"* ]] || printf '%s\n' "$tool"
  done
}

is_new_enough() {
  local minor
  minor=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  [[ -n $minor && $minor -ge $GO_MINOR_MIN ]]
}

# Fetches a Go as the module it is published as, with the old Go $1. That one verifies it against
# the checksum database unless told otherwise; hence the comparison here.
fetch_go() {
  local description directory
  description=$(cd / && "$1" mod download -json "golang.org/toolchain@$GO_VERSION") ||
    die "cannot download Go: $description"
  grep -qF "\"Sum\": \"$GO_SUM\"" <<<"$description" ||
    die "the checksum of the downloaded Go is not the expected one: $description"
  directory=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$description")
  chmod +x "$directory"/bin/* "$directory"/pkg/tool/*/* # modules have no executable files
  printf '%s/bin/go' "$directory"
}

find_go() {
  local candidate old=""
  for candidate in go /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    command -v "$candidate" >/dev/null || continue
    if is_new_enough "$candidate"; then
      command -v "$candidate"
      return
    fi
    old=$candidate
  done
  [[ -n $old ]] || die "no Go is installed; run: apt-get install golang-go"
  fetch_go "$old"
}

# What `go build` calls the program of a package: the last part of its path that is no version.
program_of() {
  local path=${1%/v[0-9]}
  printf '%s' "${path##*/}"
}

# build DIRECTORY MODULE LDFLAGS TOOL...: builds all named tools at once, so that one links while
# others compile. Nothing is written for debuggers: the linker would drop it. Collecting less
# garbage took a sixth off the largest two.
build() {
  local directory=$1 module=$2 flags=$3 work tool name package packages=()
  shift 3
  for tool in "$@"; do
    packages+=("${tool#* }")
  done
  work=$(mktemp -d "$CACHE_DIR/go-build.XXXXXX")
  (cd "$module" && GOGC=400 "$go" build -trimpath -gcflags all=-dwarf=false -ldflags "$flags" \
    -o "$work/" "${packages[@]}") || {
    rm -rf "$work"
    die "building the programs of $module failed"
  }
  for tool in "$@"; do
    read -r name package <<<"$tool"
    mv "$work/$(program_of "$package")" "$directory/$name" # complete or not there
  done
  rm -rf "$work"
}

# Debian's `apt-get download` verifies what it fetched.
unpack() {
  local directory=$1 name=$2 package=$3 work
  work=$(mktemp -d "$CACHE_DIR/unpack.XXXXXX")
  (cd "$work" && apt-get -q -o APT::Sandbox::User="$(id -un)" download "$package" &&
    dpkg-deb --extract ./*.deb tree && mv "tree/usr/bin/$name" "$directory/$name") || {
    rm -rf "$work"
    die "cannot extract $name from package $package; apt-get update may help"
  }
  rm -rf "$work"
  say "extracted $name from package $package"
}

# build_missing DIRECTORY MODULE LDFLAGS TOOL...
build_missing() {
  local directory=$1 module=$2 flags=$3 missing
  shift 3
  mapfile -t missing < <(missing_tools "$directory" "$@")
  if [[ ${#missing[@]} -eq 0 ]]; then
    return
  fi
  local go
  go=$(find_go)
  unset GOROOT # of another Go, perhaps
  # Nothing of the caller's taste may change what is built. CGO stays off for all of them: to
  # switch it is to compile the standard library again.
  export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -mod=readonly" GOWORK=off
  say "building ${#missing[@]} programs in $directory, which takes minutes the first time"
  build "$directory" "$module" "$flags" "${missing[@]}"
  say "built ${#missing[@]} programs in $SECONDS s"
}

usage() {
  sed -n '2,11s/^# \{0,1\}//p' "$0"
}

main() {
  local action="" version=$KUBERNETES_VERSION
  while [[ $# -gt 0 ]]; do
    case $1 in
      --path | --check | --version) action=$1 ;;
      --kubernetes)
        [[ -n ${2:-} ]] || die "--kubernetes needs a version: $KUBERNETES_VERSION or $OTHER_VERSION"
        version=$2
        shift
        ;;
      -h | --help)
        usage
        return
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
    shift
  done
  local directory own=("${TOOLS[@]}") shared=()
  case $version in
    "$KUBERNETES_VERSION") directory=$(tools_dir) ;;
    "$OTHER_VERSION")
      directory=$(other_tools_dir)
      own=("${OTHER_TOOLS[@]}")
      mapfile -t shared < <(shared_tools)
      ;;
    *) die "--kubernetes $version: expected $KUBERNETES_VERSION or $OTHER_VERSION" ;;
  esac
  case $action in
    --path) printf '%s' "$directory" && return ;;
    --version) printf '%s' "$version" && return ;;
    --check)
      [[ -z $(missing_tools "$directory" "${own[@]}" "${shared[@]}" "${DEBIAN_TOOLS[@]}") ]]
      return
      ;;
  esac
  mkdir -p "$(tools_dir)" "$directory"
  exec 9>"$CACHE_DIR/cluster-tools.lock"
  flock 9 # two runs at once build them once
  local missing tool
  mapfile -t missing < <(missing_tools "$(tools_dir)" "${DEBIAN_TOOLS[@]}")
  for tool in "${missing[@]}"; do
    # shellcheck disable=SC2086 # two words
    unpack "$(tools_dir)" $tool
  done
  if [[ $version == "$KUBERNETES_VERSION" ]]; then
    build_missing "$directory" "$MODULE" "$LDFLAGS" "${own[@]}"
    return
  fi
  build_missing "$(tools_dir)" "$MODULE" "$LDFLAGS" "${shared[@]}"
  for tool in "${shared[@]}" "${DEBIAN_TOOLS[@]}"; do
    ln -sfn "$(tools_dir)/${tool%% *}" "$directory/${tool%% *}"
  done
  build_missing "$directory" "$OTHER_MODULE" "$OTHER_LDFLAGS" "${own[@]}"
}

main "$@"
