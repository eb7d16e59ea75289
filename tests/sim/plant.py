#!/usr/bin/env python3
"""Plants bugs in copies of the code that ships, and sees that the simulation finds each.

    plant.py --check           all patches still apply (what every test run does)
    plant.py [NAME ...]        builds the simulation with each bug, or those named, and runs seeds
                               until one breaks a promise

A bug is tests/sim/planted/NAME.patch: a sentence that says what is wrong, and the difference that
makes it so. It is found when one of the first SEEDS seeds fails. Bugs in BAD_USERS are looked for
with --bad-users, and found when a seed fails with the words that BAD_USERS has for it: not every
seed is known to be clean with that flag. Exit code 1 where a patch does not apply, does not
compile, or is not found.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANTED = ROOT / "tests" / "sim" / "planted"
SEEDS = 1000
# The bugs that need --bad-users, and what a seed says of each. No seed says that without the bug.
BAD_USERS = {
    "dead_pod_waits_for_its_successor": "is in the way of its successor",
    "hopeless_gang_weighs_in": "whose queue would hold less",
    "limit_of_time_leaves_pods": "goes on after its job's time was over",
    "nobody_asks_the_server": "and a ResourceQuota allows",
    "ports_become_resources": "bytes from the heap",
    "rack_of_a_node_without_label": "a replacement waits, and its rack has room",
    "two_releases_serve_a_queue": "which another release serves",
    "unparsed_job_is_nobodys": "has had its places for longer than",
    "unreadable_gang_is_untouchable": "has had its places for longer than",
}
BAD_USERS_SEEDS = 300  # of which every fifth has bad users
NOT_COPIED = {".git", ".cache", "build", "runs"}  # of the root
FAILED = re.compile(r"^seed (\d+): (.*)$", re.MULTILINE)


def patches(names):
    found = {path.stem: path for path in sorted(PLANTED.glob("*.patch"))}
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"no such bug: {', '.join(unknown)}; known: {' '.join(found)}")
    return [found[name] for name in names or found]


def apply(patch, tree, *options):
    """None, or what `patch` says against it."""
    command = ["patch", "--strip=1", "--force", "--silent", "--reject-file=-",
               "--no-backup-if-mismatch", f"--directory={tree}", f"--input={patch}", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else done.stdout.strip()


def check(chosen):
    problems = [(patch.name, problem) for patch in chosen
                if (problem := apply(patch, ROOT, "--dry-run")) is not None]
    for name, problem in problems:
        print(f"{name} does not apply any more:\n{problem}")
    print(f"{len(chosen)} patches, {len(problems)} that do not apply")
    return not problems


def copy_tree(tree):
    def left_out(folder, names):
        return NOT_COPIED.intersection(names) if pathlib.Path(folder) == ROOT else ()

    shutil.copytree(ROOT, tree, symlinks=True, ignore=left_out)


def run(tree, *command):
    """The output of a command that must work; None, and its last words told, where it does not."""
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode == 0:
        return done.stdout
    print("\n".join(done.stdout.splitlines()[-20:]))
    return None


def build(tree):
    jobs = str(os.cpu_count())
    return run(tree, "cmake", "--build", "--preset", "dev", "--target", "lockstep-sim",
               "--parallel", jobs) is not None


def broken_seeds(tree, *options):
    """(exit code, (seed, what it says) of those that failed) of a run of the simulation."""
    program = tree / "build" / "dev" / "bin" / "lockstep-sim"
    done = subprocess.run([program, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode == -signal.SIGABRT:  # the code itself checks an invariant
        return done.returncode, [("?", (done.stdout.strip().splitlines() or [""])[-1])]
    if done.returncode < 0:
        sys.exit(f"{program.name} ended by signal {-done.returncode}")
    return done.returncode, FAILED.findall(done.stdout)


def first_broken(tree, words=None):
    """The first seed that fails and what it says; None where all of SEEDS are kept.

    With `words`: the first seed with bad users that says them.
    """
    if words is None:
        return next(iter(broken_seeds(tree, "--seeds", str(SEEDS), "--until-broken")[1]), None)
    code, seeds = broken_seeds(tree, "--seeds", str(BAD_USERS_SEEDS), "--bad-users",
                               "--until-says", words)
    if code == -signal.SIGABRT:
        sys.exit(f"the simulation has ended by itself: {seeds[0][1]}")
    return next((seed for seed in seeds if words in seed[1]), None)


def false_alarm(tree, chosen, are_all):
    """A seed that fails, or that says the words of a bug, though no bug is planted; or None."""
    if are_all and (broken := first_broken(tree)) is not None:
        return broken
    looked_for = {BAD_USERS[patch.stem] for patch in chosen if patch.stem in BAD_USERS}
    if not looked_for:
        return None
    code, seeds = broken_seeds(tree, "--seeds", str(BAD_USERS_SEEDS), "--bad-users")
    return next((seed for seed in seeds if code == -signal.SIGABRT or
                 any(words in seed[1] for words in looked_for)), None)


def plant(patch, tree):
    """Whether the bug was found. The tree is left as it was."""
    name = patch.stem
    problem = apply(patch, tree)
    if problem is not None:
        print(f"{name}: does not apply: {problem}", flush=True)
        return False
    try:
        if not build(tree):
            print(f"{name}: does not compile", flush=True)
            return False
        broken = first_broken(tree, BAD_USERS.get(name))
    finally:
        apply(patch, tree, "--reverse")
    if broken is None:
        seeds = f"{BAD_USERS_SEEDS} with --bad-users" if name in BAD_USERS else str(SEEDS)
        print(f"{name}: NOT FOUND in {seeds} seeds", flush=True)
        return False
    print(f"{name}: seed {broken[0]}: {broken[1]}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    chosen = patches(arguments.names)
    if arguments.check:
        return 0 if chosen and check(chosen) else 1
    with tempfile.TemporaryDirectory(prefix="lockstep-planted-") as folder:
        tree = pathlib.Path(folder) / "tree"
        copy_tree(tree)
        if run(tree, "cmake", "--preset", "dev") is None or not build(tree):
            return 1
        broken = false_alarm(tree, chosen, are_all=not arguments.names)
        if broken is not None:
            print(f"seed {broken[0]} fails without any of them: {broken[1]}")
            return 1
        results = [plant(patch, tree) for patch in chosen]
    print(f"{sum(results)} of {len(results)} found")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
