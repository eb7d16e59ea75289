#!/usr/bin/env bash
# Builds the site of the documentation into build/docs, strictly: a dead link or heading fails.
# Installs the generator into the cache folder the first time, and needs no network afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

readonly CACHE_DIR="${LOCKSTEP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
readonly ZENSICAL=zensical==0.0.72
readonly MATERIAL=mkdocs-material==9.8.1

usage() {
  cat <<TEXT
usage: scripts/docs.sh [--material]

  Builds build/docs from docs/ and mkdocs.yml with ${ZENSICAL}.

  --material  builds with ${MATERIAL} instead, which reads the same mkdocs.yml
TEXT
}

# generator WHEEL: the folder of an environment that has it, complete or not there.
generator() {
  local target="$CACHE_DIR/docs-${1//==/-}"
  if [[ ! -d $target ]]; then
    mkdir -p "$CACHE_DIR"
    local work
    work=$(mktemp -d "$target.XXXXXX")
    say "installing $1 in $target" >&2
    /usr/bin/python3 -m venv "$work" &&
      "$work/bin/python3" -m pip install --quiet --no-cache-dir "$1" >&2 ||
      { rm -rf "$work"; die "cannot install $1"; }
    [[ -d $target ]] || mv -T "$work" "$target"
  fi
  printf '%s\n' "$target"
}

case "${1:-}" in
  "") wheel=$ZENSICAL module=zensical ;;
  --material) wheel=$MATERIAL module=mkdocs ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) die "unknown option '$1'; the only option of scripts/docs.sh is --material" ;;
esac

folder=$(generator "$wheel")
/usr/bin/python3 -B scripts/docs_source.py build/docs-source
say "building build/docs with $wheel"
"$folder/bin/python3" -m "$module" build --strict --clean
say "done: open build/docs/index.html"
