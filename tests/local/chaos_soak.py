"""Random runs of one to four workers, with everything a laptop does to them: workers killed and
frozen, a terminal that goes away, a disk that fills up, and other programs on the ports that
everybody likes. Each run must end as the documents say, and trained weights must be those of an
undisturbed run, to the byte.

    tests/local/chaos_soak.py [RUNS] [--seed FIRST] [--verbose]

A run that ends otherwise is told with the command that repeats it. Full disks need root, for a
small tmpfs; without it they are left out, and that is said.
"""

import argparse
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time

from harness import LocalTest, training_manifest

STEPS = 160
PORTS = (29500, 2223)  # torchrun's default, and the first of what pods listened at once
EXIT_STOPPED = 130
CHECKPOINT_KIB = 310  # parameters and Adam's two moments of the harness' network, and a little


class Plan:
    """What happens in one run; all of it follows from the seed."""

    def __init__(self, seed, can_mount):
        chance = random.Random(seed)
        self.seed = seed
        self.workers = chance.randint(1, 4)
        self.every_steps = chance.choice([1, 7, 20, 50, 1000])
        self.chaos = []
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            victims = chance.sample(range(self.workers), chance.randint(1, self.workers))
            names = "+".join(f"worker-{index}" for index in sorted(victims))
            what = chance.choice(["kill", "kill", "stop"])
            self.chaos.append(f"{what}={names}@step={chance.randint(1, STEPS - 40)}")
        self.hangups = chance.choice([0, 0, 0, 1, 2])
        self.hangup_after = chance.uniform(0.05, 2.5)
        is_small = chance.random() < 0.25
        size = chance.randint(CHECKPOINT_KIB // 2, 6 * CHECKPOINT_KIB)
        self.disk_kib = size if is_small and can_mount else None

    def __str__(self):
        return (f"seed {self.seed}: {self.workers} workers, every {self.every_steps} steps, "
                f"chaos {','.join(self.chaos) or 'none'}, {self.hangups} SIGHUP after "
                f"{self.hangup_after:.2f} s, disk {self.disk_kib or 'any'} KiB")


class Soak(LocalTest):
    """One run after the other; borrowed from the tests for starting and for looking after."""

    expected = {}  # weights of undisturbed runs, by the number of workers

    def __init__(self, is_verbose):
        super().__init__("run_plan")
        self.is_verbose = is_verbose

    def undisturbed(self, workers):
        if workers not in self.expected:
            run = self.run_job(training_manifest(workers=workers, steps=STEPS))
            self.assert_trained(run)
            self.expected[workers] = self.final_weights(run)
        return self.expected[workers]

    def run_plan(self, plan):
        expected = self.undisturbed(plan.workers)
        manifest = training_manifest(workers=plan.workers, steps=STEPS, backoff_limit=50,
                                     every_steps=plan.every_steps)
        arguments = [word for chaos in plan.chaos for word in ("--chaos", chaos)]
        name = f"run-{plan.seed}"
        with self.disk(name, plan.disk_kib):
            started = self.start(manifest, *arguments, name=name)
            self.hang_up(started[0], plan)
            run = self.finish(started)
            if self.is_verbose:
                print(run.output)
            if run.exit_code == EXIT_STOPPED:
                self.assertGreater(plan.hangups, 0, f"stopped by nobody\n{run.output}")
                run = self.run_job(manifest, name=name)  # as the console advises: goes on
            self.check_end(run, plan, expected)

    def check_end(self, run, plan, expected):
        if run.exit_code == 0:
            self.assertEqual(run.summary["samplesLost"], 0, run.output)
            self.assertEqual(run.summary["samplesRepeated"], 0, run.output)
            self.assertEqual(self.final_weights(run), expected, f"other weights\n{run.output}")
            newest = max((run.directory / "checkpoints").glob("step-*"))
            self.assertIn(str(STEPS), newest.name, f"the last step is not saved\n{run.output}")
            return
        self.assertIsNotNone(plan.disk_kib, f"failed, exit code {run.exit_code}\n{run.output}")
        self.assertIn("space", run.output.lower(), f"failed without the reason\n{run.output}")

    def hang_up(self, process, plan):
        if plan.hangups == 0:
            return
        time.sleep(plan.hangup_after)
        for _ in range(plan.hangups):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGHUP)
            time.sleep(0.02)

    @contextlib.contextmanager
    def disk(self, name, size_kib):
        """The run's folder is a disk of that size."""
        if size_kib is None:
            yield
            return
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", folder],
                       check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def taken_ports():
    """Somebody else listens on the ports, at every address; where that is so already, all the
    better."""
    with contextlib.ExitStack() as stack:
        for port in PORTS:
            listener = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind(("0.0.0.0", port))
                listener.listen()
        yield


def can_mount_tmpfs():
    return os.geteuid() == 0 and "tmpfs" in open("/proc/filesystems", encoding="ascii").read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    can_mount = can_mount_tmpfs()
    if not can_mount:
        print("no full disks: mounting a small one needs root")
    failed = 0
    with taken_ports():
        for seed in range(options.seed, options.seed + options.runs):
            plan = Plan(seed, can_mount)
            soak = Soak(options.verbose)
            soak.setUp()
            try:
                soak.run_plan(plan)
                soak.tearDown()
            except AssertionError as problem:
                failed += 1
                print(f"FAILED {plan}\n{problem}\n"
                      f"again: tests/local/chaos_soak.py 1 --seed {seed} --verbose", flush=True)
    print(f"{options.runs - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
