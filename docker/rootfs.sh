#!/usr/bin/env bash
# Makes the root folder of an image that has only our programs and the libraries that they load.
#
#   docker/rootfs.sh ROOT [--notice PACKAGE[=FILE]]... [--beside DIR=PATH]... FILE=PATH...
#
# It copies FILE, a file or a folder, to PATH below ROOT. It strips programs and libraries, and adds
# all shared libraries that they load, from the packages installed here. As on a Debian system,
# /var/lib/dpkg/status.d lists the packages for vulnerability scanners, and /usr/share/doc has their
# licences.
#
# --notice PACKAGE: our programs contain this package as a header or an archive, so its licence is
# added. FILE is the licence, if the package is not installed.
#
# --beside DIR=PATH: DIR has third-party libraries with their licences, which another layer of the
# image puts at PATH. This script does not copy them. It adds the libraries of Debian that they
# load, and checks our programs together with them. Libraries of drivers and network cards come from
# the node.
#
# It runs in a build stage, as root, on Debian.
set -euo pipefail

readonly USER_ID=65532 # nobody's in particular, as in other images without a shell

die() {
  printf 'rootfs: %s\n' "$*" >&2
  exit 1
}

is_elf() { [[ $(head --bytes=4 "$1") == $'\x7fELF' ]]; }

make_skeleton() {
  mkdir -p "$root"/{etc,tmp,usr/{bin,lib,lib64,share/doc},var/lib/dpkg/status.d}
  chmod 1777 "$root/tmp"
  ln -s usr/bin "$root/bin"
  ln -s usr/lib "$root/lib"
  ln -s usr/lib64 "$root/lib64"
  cp --dereference /etc/os-release "$root/etc/os-release"
  printf 'root:x:0:0::/:/usr/sbin/nologin\nlockstep:x:%d:%d::/:/usr/sbin/nologin\n' \
    "$USER_ID" "$USER_ID" >"$root/etc/passwd"
  printf 'root:x:0:\nlockstep:x:%d:\n' "$USER_ID" >"$root/etc/group"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
}

copy_file() {
  local from=$1 to=$root$2 file
  [[ -e $from ]] || die "$from does not exist"
  mkdir -p "$(dirname "$to")"
  cp --recursive --dereference "$from" "$to"
  while IFS= read -r -d '' file; do
    if is_elf "$file"; then
      strip --strip-unneeded "$file"
      programs+=("$file")
    fi
  done < <(find "$to" -type f -print0)
}

# The libraries that file $1 below ROOT loads, one a line; those that are in ROOT already are not
# named.
libraries_of() {
  local listing
  listing=$(ldd "$1" 2>&1) || {
    [[ $listing == *"statically linked"* || $listing == *"not a dynamic"* ]] && return
    die "ldd $1: $listing"
  }
  ! grep 'not found' <<<"$listing" >&2 || die "a library is missing for $1"
  grep --only-matching '/[^ ]*' <<<"$listing" | grep --invert-match "^$root/" || true
}

# Lays DIR out at PATH, until take_out.
copy_beside() {
  local from=$1 to=$root$2 file
  [[ -d $from ]] || die "$from is not a folder"
  mkdir -p "$(dirname "$to")"
  cp --recursive "$from" "$to"
  beside+=("$to")
  while IFS= read -r -d '' file; do
    ! is_elf "$file" || foreign+=("$file")
  done < <(find "$to" -type f -print0)
}

# Libraries of Debian's that file $1, of a folder beside, loads, one a line.
libraries_of_foreign() {
  { ldd "$1" 2>/dev/null || true; } | grep --invert-match 'not found' |
    grep --only-matching '/[^ ]*' | grep --invert-match "^$root/" || true
}

take_out() {
  local folder
  for folder in "${beside[@]}"; do
    rm -rf "$folder"
  done
}

copy_library() {
  local folder
  folder=$(realpath "$(dirname "$1")")
  mkdir -p "$root$folder"
  # The name that is asked for, the content that is behind it.
  cp --dereference "$1" "$root$folder/$(basename "$1")"
}

# The packages of the named files, one a line; every file must have one. Debian 12 moved /lib to
# /usr/lib, its packages did not: a file is asked for by both names.
packages_of() {
  local owners
  owners=$(dpkg-query --search "$@" "${@#/usr}" 2>/dev/null || true)
  # shellcheck disable=SC2001 # a line each, which ${...//} does not know
  diff <(sed 's|.*: \(/usr\)\?|/usr|' <<<"$owners" | sort -u) <(printf '%s\n' "$@" | sort -u) >&2 ||
    die "these files belong to no Debian package"
  sed 's/: .*//; s/:.*//' <<<"$owners" | sort -u
}

# write_licence PACKAGE[=FILE]
write_licence() {
  local package=${1%%=*} file=${1#*=}
  [[ $1 == *=* ]] || file=/usr/share/doc/$package/copyright
  mkdir -p "$root/usr/share/doc/$package"
  cp --dereference "$file" "$root/usr/share/doc/$package/copyright"
}

copy_libraries() {
  local listing libraries packages library package
  listing=$({
    for program in "${programs[@]}"; do libraries_of "$program"; done
    for library in "${foreign[@]}"; do libraries_of_foreign "$library"; done
  } | sort -u)
  mapfile -t libraries <<<"$listing"
  for library in "${libraries[@]}"; do
    copy_library "$library"
  done
  mapfile -t libraries < <(realpath "${libraries[@]}")
  packages=$(packages_of "${libraries[@]}")
  for package in $packages; do
    dpkg-query --status "$package" >"$root/var/lib/dpkg/status.d/$package"
    write_licence "$package"
  done
}

# Every program loads in there, where nothing else is.
check() {
  local loader program
  loader=$(find "$root/usr/lib" "$root/usr/lib64" -maxdepth 1 -name 'ld-linux-*')
  for program in "${programs[@]}"; do
    chroot "$root" "${loader#"$root"}" --list "${program#"$root"}" >/dev/null ||
      die "${program#"$root"} does not load in $root"
  done
}

[[ $# -ge 2 ]] ||
  die "usage: docker/rootfs.sh ROOT [--notice PACKAGE[=FILE]]... [--beside DIR=PATH]..." \
    "FILE=PATH..."
root=$(realpath --canonicalize-missing "$1")
shift
[[ ! -e $root ]] || die "$root exists already"
programs=() foreign=() beside=()
make_skeleton
while [[ $# -gt 0 ]]; do
  case $1 in
    --notice)
      write_licence "$2"
      shift
      ;;
    --beside)
      copy_beside "${2%%=*}" "${2#*=}"
      shift
      ;;
    *=*) copy_file "${1%%=*}" "${1#*=}" ;;
    *) die "$1 found, expected FILE=PATH or an option" ;;
  esac
  shift
done
copy_libraries
ldconfig -r "$root" 2>/dev/null
check
take_out
