# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, not run.

# Says what is being done and how long the script has been running; scripts/times.py reads the
# stages again.
say() {
  printf '==> [%3ds] %s\n' "$SECONDS" "$*"
  if [[ -n ${stages_file:-} ]]; then
    printf '%s %s\n' "$SECONDS" "$*" >>"$stages_file"
  fi
}

# Begins the list of this run's stages anew.
begin_stages() {
  mkdir -p build
  stages_file=build/stages.log
  : >"$stages_file"
}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Configures and builds preset $1; further arguments are targets (none: everything).
build_preset() {
  local preset=$1
  shift
  say "configuring preset $preset"
  mkdir -p "build/$preset"
  local log=build/$preset/configure.log
  cmake --preset "$preset" >"$log" 2>&1 || { cat "$log"; die "configuring failed, see $log"; }
  say "building preset $preset (${*:-everything})"
  cmake --build --preset "$preset" --parallel "$(build_jobs)" ${1:+--target "$@"}
}

# One job a core, but no more than memory allows: a LibTorch source takes about 1.5 GiB to compile.
build_jobs() {
  local cores memory_gib
  cores=$(nproc)
  memory_gib=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  local by_memory=$((memory_gib * 2 / 3))
  local jobs=$((cores < by_memory ? cores : by_memory))
  echo $((jobs > 0 ? jobs : 1))
}
