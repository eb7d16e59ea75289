#!/usr/bin/env bash
# Builds the images with buildah. It needs no registry, and does not touch other images on this
# machine: it keeps everything in the cache folder. It needs root, buildah and mmdebstrap
# (scripts/install.sh cluster). With docker or podman and a registry you do not need this script:
# docker build -f docker/operator.Dockerfile .
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

readonly IMAGES=(operator runtime) # what "all" builds
readonly CUDA_IMAGE=runtime-cuda    # 10 GB of downloads and layers
readonly STORE=${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}/images

usage() {
  cat <<TEXT
usage: docker/build.sh [OPTION]... [IMAGE|all]...

  IMAGE                one of: ${IMAGES[*]} $CUDA_IMAGE; all, the default, is ${IMAGES[*]}

  --base IMAGE         base image; default: a minimal Debian 12 made here by mmdebstrap
  --preset PRESET      CMake preset; default release
  --tag-prefix PREFIX  images are PREFIX-IMAGE:VERSION; default localhost/lockstep
  --archive DIR        also writes DIR/IMAGE.tar, a docker archive for \`docker load\` or
                       \`ctr -n k8s.io images import\`
  --format FORMAT      of archives: docker (the default) or oci, which \`podman load\`,
                       \`skopeo copy\` and \`ctr\` read too
  --clean              removes what earlier builds kept in $STORE
TEXT
}

storage() {
  "$1" --root "$STORE/storage" --runroot "$STORE/run" --storage-driver overlay "${@:2}"
}

# buildah's own messages go to a log; the last of them are shown if it fails.
logged() {
  local log=$STORE/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    tail --lines=40 "$log" >&2
    die "this failed, see $log: $*"
  }
}

# As the official image: no manuals, no translations, no package lists kept by later builds.
make_base() {
  local recipe=(
    --variant=minbase --dpkgopt=force-unsafe-io
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*'
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"'
    bookworm
  )
  base=localhost/debian:bookworm-$(sha256sum <<<"${recipe[*]}" | head --bytes=12)
  if storage buildah inspect --type image "$base" >/dev/null 2>&1; then
    return
  fi
  say "making $base"
  local work=$STORE/base
  rm -rf "$work"
  mkdir "$work"
  logged base mmdebstrap "${recipe[@]}" "$work/root.tar"
  printf 'FROM scratch\nADD root.tar /\nCMD ["bash"]\n' >"$work/Dockerfile"
  logged base storage buildah build --tag "$base" "$work"
  rm -rf "$work"
}

# build_stage NAME STAGE TAG: one stage of docker/NAME.Dockerfile, from the cache where nothing
# that it reads has changed. A tag keeps a stage in the cache; what has none is pruned at the end.
build_stage() {
  local name=$1 stage=$2 tag=$3
  logged "$name" storage buildah build --layers --isolation chroot --network host \
    --build-arg BASE_IMAGE="$base" --build-arg PRESET="$preset" \
    --build-arg CCACHE_DIR=/host-ccache --volume "$ccache:/host-ccache" \
    --file "docker/$name.Dockerfile" ${stage:+--target "$stage"} --tag "$tag" .
}

build_image() {
  local name=$1 tag=$prefix-$1:$version
  say "building $tag"
  build_stage "$name" tools localhost/lockstep-build/tools
  build_stage "$name" build "localhost/lockstep-build/$name-$preset"
  build_stage "$name" "" "$tag"
}

# Writes the archive anew only where the image is another.
write_archive() {
  local name=$1 tag=$prefix-$1:$version id
  id=$(storage buildah inspect --type image --format '{{.FromImageID}}' "$tag")
  local made_from=$archive/$name.id
  if [[ -f $archive/$name.tar && -f $made_from && $(<"$made_from") == "$format $tag $id" ]]; then
    return
  fi
  say "writing $archive/$name.tar"
  rm -f "$archive/$name.tar" "$made_from" "$archive/$name.tar.part"
  logged "$name" storage buildah push "$tag" "$format-archive:$archive/$name.tar.part:$tag"
  mv "$archive/$name.tar.part" "$archive/$name.tar"
  printf '%s %s %s\n' "$format" "$tag" "$id" >"$made_from"
}

base="" preset=release prefix=localhost/lockstep archive="" format=docker names=() clean=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --base | --preset | --tag-prefix | --archive | --format)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      ;;&
    --base) base=$2 && shift ;;
    --preset) preset=$2 && shift ;;
    --tag-prefix) prefix=$2 && shift ;;
    --archive) archive=$2 && shift ;;
    --format) format=$2 && shift ;;
    --clean) clean=true ;;
    all) names+=("${IMAGES[@]}") ;;
    -h | --help) usage && exit 0 ;;
    *)
      [[ " ${IMAGES[*]} $CUDA_IMAGE " == *" $1 "* ]] || { usage >&2 && exit 2; }
      names+=("$1")
      ;;
  esac
  shift
done
[[ ${#names[@]} -gt 0 ]] || $clean || names=("${IMAGES[@]}")

[[ $format == docker || $format == oci ]] || die "--format $format: expected docker or oci"
[[ $(id -u) -eq 0 ]] || die "docker/build.sh must be run as root"
for tool in buildah ccache mmdebstrap; do
  command -v "$tool" >/dev/null || die "no $tool: run scripts/install.sh cluster"
done
version=$(sed -n 's/^project(lockstep VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
ccache=$(ccache --get-config cache_dir)
mkdir -p "$STORE/tmp" "$ccache" ${archive:+"$archive"}
export TMPDIR=$STORE/tmp # buildah's scratch space
exec 9>"$STORE/lock"
flock 9 # one build at a time
if $clean; then
  rm -rf "$STORE"/{storage,run,tmp,base}
  mkdir -p "$STORE/tmp"
fi
[[ ${#names[@]} -gt 0 ]] || exit 0
[[ -n $base ]] || make_base
for name in "${names[@]}"; do
  build_image "$name"
  [[ -z $archive ]] || write_archive "$name"
done
# What an interrupted build left, and the images that this one took the place of.
logged prune storage buildah rm --all
logged prune storage buildah rmi --prune
say "done: $(for name in "${names[@]}"; do printf '%s ' "$prefix-$name:$version"; done)"
