#!/usr/bin/env bash
# Makes a release of the commit that is checked out, in dist/. Package registries are the only
# network. Needs Debian 12, root, and `scripts/install.sh build cluster`. CONTRIBUTING.md explains.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

readonly CACHE_DIR="${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
readonly PYTHON_TOOLS=(build==1.6.1 scikit-build-core==1.1.2 auditwheel==6.8.2 wheel==0.48.0
  spdx-tools==0.8.5)
readonly BIN=build/release/bin
readonly NAMESPACE=lockstep-system
readonly PLATFORM=manylinux_2_34_x86_64
# What our programs hold of others' code, as Debian's packages.
readonly INSIDE=(libssl-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev
  libboost1.74-dev libyaml-cpp-dev libstdc++-12-dev)
readonly STATIC=(prometheus-cpp simdjson) # which scripts/install.sh builds

usage() {
  cat <<TEXT
usage: scripts/release.sh VERSION (--key FILE | --unsigned) [OPTION]...

  VERSION            the version of the sources, such as 0.1.0
  --key FILE         private key that signs SHA256SUMS; make one by
                     openssl genpkey -algorithm ed25519 -out FILE
  --unsigned         makes a release without a signature
  --registry NAME    where the images will be, such as registry.example/team [localhost]
  --url URL          where the folder of each version will be, such as https://example.com/lockstep;
                     the krew manifest names URL/VERSION
  --images LIST      the images to make [operator,runtime,runtime-cuda]; none makes no image.
                     runtime-cuda downloads 4 GB and takes 25 GB of disk while it is made
  --manifests-only   makes install.yaml, the chart and the pages, and nothing else; seconds
TEXT
}

version="" key="" unsigned=false registry=localhost url="" manifests_only=false
images=operator,runtime,runtime-cuda
while [[ $# -gt 0 ]]; do
  case $1 in
    --key | --registry | --url | --images) [[ $# -ge 2 ]] || die "$1 needs a value" ;;&
    --key) key=$2 && shift ;;
    --registry) registry=${2%/} && shift ;;
    --url) url=${2%/} && shift ;;
    --images) images=$2 && shift ;;
    --unsigned) unsigned=true ;;
    --manifests-only) manifests_only=true ;;
    -h | --help) usage && exit 0 ;;
    -*) die "unknown option $1; scripts/release.sh --help lists them" ;;
    *) [[ -z $version ]] && version=$1 || die "two versions found, expected one: $version, $1" ;;
  esac
  shift
done

# Refuses, before anything is built, what would make a release that nobody should get.
check_request() {
  local semver='^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$' file written
  [[ -n $version ]] || die "VERSION is missing; see scripts/release.sh --help"
  [[ $version =~ $semver ]] || die "VERSION $version: expected MAJOR.MINOR.PATCH, such as 0.1.0"
  for file in CMakeLists.txt helm/lockstep/Chart.yaml trainer-runtime/python/pyproject.toml; do
    written=$(sed -nE 's/^(project\(lockstep VERSION|version:|version =) "?([0-9.]+).*/\2/p' \
      "$file")
    [[ $written == "$version" ]] || die "$file has version $written, but the release is $version"
  done
  [[ -f LICENSE ]] ||
    die "there is no LICENSE, so nobody may use the release. The licence is your choice;" \
      "this writes Apache 2.0: cp /usr/share/common-licenses/Apache-2.0 LICENSE &&" \
      "git add LICENSE && git commit -m 'The licence is Apache 2.0'"
  local changed
  changed=$(git status --porcelain)
  [[ -z $changed ]] ||
    die "these files are not committed, so the release could not be reproduced:"$'\n'"$changed"
  if [[ -z $key ]]; then
    $unsigned || $manifests_only ||
      die "no key to sign with: set --key FILE or --unsigned. To make a key:" \
        "openssl genpkey -algorithm ed25519 -out FILE"
  else
    openssl pkey -in "$key" -noout 2>/dev/null ||
      die "--key $key: not a private key that openssl can read"
  fi
  local name='(operator|runtime|runtime-cuda)'
  [[ $images == none || $images =~ ^$name(,$name)*$ ]] ||
    die "--images $images: expected names of operator, runtime and runtime-cuda, or none"
  [[ $images == none || $(id -u) -eq 0 ]] || $manifests_only ||
    die "only root can build images; to make the rest, use --images none"
}

# The folder of the Python programs that make and check wheels and the SBOM.
python_tools() {
  local target
  target="$CACHE_DIR/release-$(sha256sum <<<"${PYTHON_TOOLS[*]}" | head --bytes=12)"
  if [[ ! -d $target ]]; then
    say "installing ${PYTHON_TOOLS[*]}" >&2
    rm -rf "$target.part"
    /usr/bin/python3 -m venv "$target.part"
    "$target.part/bin/python3" -m pip install --quiet --no-cache-dir "${PYTHON_TOOLS[@]}" >&2 ||
      die "cannot install ${PYTHON_TOOLS[*]}"
    mv -T "$target.part" "$target"
  fi
  printf '%s' "$target/bin/python3"
}

pack() { /usr/bin/python3 -B scripts/release/archive.py "$@"; }

# The chart as it is, with the names of the release's images and the licence.
make_chart() {
  say "packing the chart"
  cp -r helm/lockstep "$work/chart"
  cp LICENSE "$work/chart/LICENSE"
  sed -i "s|^  repository: localhost/|  repository: $registry/|" "$work/chart/values.yaml"
  "$helm" lint --quiet "$work/chart"
  pack "$work/chart" "$out/lockstep-$version.tgz" lockstep
}

render() { "$helm" template lockstep "$work/chart" --namespace "$NAMESPACE" "$@"; }

# Definitions first: what comes after may be of their kinds.
make_install_yaml() {
  say "rendering install.yaml"
  {
    cat <<TEXT
# Lockstep $version
#
# Install or upgrade:
#   kubectl apply -f install.yaml
#
# Never run kubectl delete -f install.yaml: with the CRDs it deletes every job and queue, and with
# the namespace the operator's key. This uninstalls the operator and keeps all of them:
#   kubectl delete --namespace $NAMESPACE --selector app.kubernetes.io/instance=lockstep \\
#     deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings
TEXT
    render --show-only templates/crd.yaml
    printf -- '---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n' "$NAMESPACE"
    render --set crds.install=false
  } >"$out/install.yaml"
  cp examples/mnist.yaml "$out/mnist.yaml"
}

# The runbook of the alerts, and what it links to.
make_docs() { pack docs "$out/lockstep-$version-docs.tar.gz" docs; }

# stripped FROM TO: equal in every clone, as the compiler leaves no path in it.
stripped() { strip --strip-unneeded -o "$2" "$1"; }

# The licences of what our programs hold, a file each.
lay_out_licences() {
  local package
  mkdir -p "$1"
  for package in "${INSIDE[@]}"; do
    cp --dereference "/usr/share/doc/$package/copyright" "$1/$package"
  done
  for package in "${STATIC[@]}"; do
    cp "$(scripts/install.sh --path "$package")/copyright" "$1/$package"
  done
}

# Lays out DIR/{bin,share} as the tar and the deb have them.
lay_out_programs() {
  local share=$1/share program shell
  mkdir -p "$1/bin"
  for program in lockstep lockstep-runtime; do
    stripped "$BIN/$program" "$1/bin/$program"
  done
  for shell in bash:bash-completion/completions/lockstep zsh:zsh/vendor-completions/_lockstep \
    fish:fish/vendor_completions.d/lockstep.fish; do
    mkdir -p "$(dirname "$share/${shell#*:}")"
    "$BIN/lockstep" completion "${shell%%:*}" >"$share/${shell#*:}"
  done
  lay_out_licences "$share/doc/lockstep/licences"
  cp LICENSE "$share/doc/lockstep/copyright"
}

make_tar() {
  say "packing the programs"
  local name=lockstep-$version-linux-amd64
  lay_out_programs "$work/$name"
  cp LICENSE "$work/$name/LICENSE" # where krew looks
  pack "$work/$name" "$out/$name.tar.gz" "$name"
}

# With the engine on Debian's LibTorch, so that `lockstep run` trains on this system.
make_deb() {
  say "packing the deb"
  local root=$work/deb
  lay_out_programs "$root/usr"
  ln -s lockstep "$root/usr/bin/kubectl-lockstep" # krew makes its own, and takes no link in a tar
  mkdir -p "$root/usr/lib/lockstep" "$root/DEBIAN"
  stripped "$BIN/liblockstep-engine.so" "$root/usr/lib/lockstep/liblockstep-engine.so"
  cp -r "$BIN/lockstep-engine-placeholders" "$root/usr/lib/lockstep/"
  strip --strip-unneeded "$root/usr/lib/lockstep/lockstep-engine-placeholders"/*
  cat >"$root/DEBIAN/control" <<TEXT
Package: lockstep
Version: $version
Architecture: amd64
Maintainer: the maintainers of Lockstep <root@localhost>
Section: science
Priority: optional
Depends: libc6 (>= 2.34)
Recommends: libtorch1.13, libopenblas0-pthread
Installed-Size: $(du --summarize --block-size=1K --apparent-size "$root/usr" | cut -f1)
Description: trains one model on many machines, and continues when a machine fails
 The command line of Lockstep, its runtime, and the built-in trainer for CPUs.
 The trainer loads the recommended packages; programs of your own do not need them.
TEXT
  find "$root" -type d -exec chmod 755 {} +
  find "$root" -type f ! -perm -100 -exec chmod 644 {} +
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group --threads-max=1 --build "$root" \
    "$out/lockstep_${version}_amd64.deb" >/dev/null
}

# One wheel has the library and the programs inside, the other runs everywhere and has neither.
make_wheels() {
  say "building the wheels"
  local python wheel built=$work/wheels source=$work/python
  python=$(python_tools)
  # A copy, as the licence has to lie beside pyproject.toml.
  mkdir -p "$built/pure" "$source"
  cp -r trainer-runtime/python/. "$source"
  cp LICENSE "$source/LICENSE"
  local build=("$python" -m build --wheel --no-isolation "$source"
    --config-setting=cmake.source-dir="$PWD" --config-setting=build-dir="$PWD/build/wheel")
  "${build[@]}" --outdir "$built/pure" --config-setting=wheel.cmake=false \
    >"$work/wheel.log" 2>&1 ||
    { tail --lines=40 "$work/wheel.log" >&2 && die "building the pure wheel failed"; }
  lay_out_licences "$work/licences"
  (cd "$work/licences" && tail --lines=+1 -- *) >"$source/NOTICE" # a wheel takes it by its name
  "${build[@]}" --outdir "$built" >"$work/wheel.log" 2>&1 ||
    { tail --lines=40 "$work/wheel.log" >&2 && die "building the wheel failed"; }
  "$python" -m wheel tags --remove --platform-tag "$PLATFORM" "$built"/*.whl >/dev/null
  for wheel in "$built"/*.whl "$built"/pure/*.whl; do
    pack --wheel "$wheel"
    mv "$wheel" "$out/"
  done
  local shown
  shown=$("$python" -m auditwheel show "$out"/*-"$PLATFORM".whl)
  [[ $shown == *"\"$PLATFORM\""* ]] || die "the wheel needs more than $PLATFORM: $shown"
}

make_images() {
  [[ $images != none ]] || return 0
  local name
  mkdir -p "$out/images"
  docker/build.sh --tag-prefix "$registry/lockstep" --format oci \
    --archive build/release-images ${images//,/ }
  for name in ${images//,/ }; do
    cp "build/release-images/$name.tar" "$out/images/lockstep-$name-$version.tar"
  done
}

make_sbom() {
  say "writing the SBOM"
  local file=$work/lockstep-$version.spdx.json static
  static=$(for name in "${STATIC[@]}"; do
    basename "$(scripts/install.sh --path "$name")" "-$(uname -m)"
  done)
  /usr/bin/python3 -B scripts/release/sbom.py "$version" "$(git rev-parse HEAD)" "$out" \
    "${INSIDE[@]}" --static $static >"$file"
  "$(python_tools)" -m spdx_tools.spdx.clitools.pyspdxtools --infile "$file" ||
    die "$file is not valid SPDX 2.3"
  mv "$file" "$out/"
}

# fill TEMPLATE: with what it asks for.
fill() {
  sed -e "s|@VERSION@|$version|g" -e "s|@REGISTRY@|$registry|g" \
    -e "s|@URL@|${url:-https://lockstep.invalid}/$version|g" \
    -e "s|@TAR_SHA256@|$(sha256sum "$out/lockstep-$version-linux-amd64.tar.gz" | cut -c1-64)|g" "$1"
}

write_sums() {
  (cd "$out" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) >"$work/SHA256SUMS"
  mv "$work/SHA256SUMS" "$out/SHA256SUMS"
}

# Beside the sums, as they cannot hold themselves.
sign() {
  openssl pkey -in "$key" -pubout -out "$out/lockstep.pub"
  openssl pkeyutl -sign -rawin -inkey "$key" -in "$out/SHA256SUMS" -out "$out/SHA256SUMS.sig"
  openssl pkeyutl -verify -rawin -pubin -inkey "$out/lockstep.pub" -in "$out/SHA256SUMS" \
    -sigfile "$out/SHA256SUMS.sig" >/dev/null || die "the signature does not match SHA256SUMS"
}

check_request
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022
helm=$(scripts/cluster-tools.sh --path)/helm
[[ -x $helm ]] || die "helm is missing: run scripts/install.sh build cluster"
mkdir -p build
work=$(mktemp -d "$PWD/build/release-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
out=$work/dist
mkdir "$out"

make_chart
make_install_yaml
make_docs
if ! $manifests_only; then
  build_preset release lockstep lockstep-runtime lockstep_engine
  make_tar
  make_deb
  make_wheels
  make_images
  make_sbom
  fill scripts/release/krew.yaml.in >"$out/krew-lockstep.yaml"
  fill scripts/release/publish.sh.in >"$out/publish.sh"
  chmod +x "$out/publish.sh"
fi
write_sums
[[ -z $key ]] || sign
rm -rf dist
mv "$out" dist # complete or not there
say "done: dist/ has $(find dist -type f | wc -l) files"
