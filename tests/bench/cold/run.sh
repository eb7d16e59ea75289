#!/usr/bin/env bash
# Runs a command in a fresh clone of HEAD on a bare Debian 12 of its own: nothing is installed there
# but git, and no cache is warm. Says how long it took. Needs root, mmdebstrap, and 15 GB for as
# long as it runs, in TMPDIR (/var/tmp).
#
#   tests/bench/cold/run.sh scripts/test.sh
#   tests/bench/cold/run.sh scripts/demo.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."

# Within namespaces of its own: makes $1 the root file system and runs the rest of the command.
# Settings that a machine behind a proxy needs are taken along.
inside() {
  local root=$1 file
  shift
  mount --make-rprivate /
  mount --bind "$root" "$root"
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [[ ! -e $file ]] || cp -L "$file" "$root$file"
  done
  if [[ -d /usr/local/share/ca-certificates ]]; then
    cp -R /usr/local/share/ca-certificates "$root/usr/local/share/"
  fi
  cd "$root"
  mount -t proc proc proc
  mount --rbind /dev dev
  mount --rbind /sys sys
  mount -t tmpfs tmpfs run
  mount -t tmpfs -o mode=1777 tmpfs tmp
  mkdir -p old
  pivot_root . old # not chroot, in which no container can be made
  cd /srv/lockstep
  umount -l /old
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

if [[ ${1:-} == --inside ]]; then
  shift
  inside "$@"
fi
if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit $(($# == 0 ? 2 : 0))
fi

root=$(mktemp -d "${TMPDIR:-/var/tmp}/lockstep-cold.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
mmdebstrap --quiet --variant=minbase --include=ca-certificates,git bookworm "$root"
git clone --quiet . "$root/srv/lockstep"
began=$SECONDS
status=0
unshare --mount --pid --fork --kill-child "$0" --inside "$root" "$@" || status=$?
echo "$*: exit code $status after $((SECONDS - began)) s on a bare Debian 12"
exit "$status"
