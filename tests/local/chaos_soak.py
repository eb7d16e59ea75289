"""Random runs of one to four workers, with everything a laptop does to them: workers killed and
frozen, a terminal that goes away, a disk that is full or fills up for a while, and other programs
on the ports that everybody likes. Each run must end as the documents say, weights must be those of
an undisturbed run, to the byte, and nothing may be left.

    tests/local/chaos_soak.py [RUNS] [--seed FIRST] [--verbose]

A run that ends otherwise is told with the command that repeats it, and at the end what has come
about how often. Full disks need root, for a small tmpfs; without it they are left out, and that is
said.
"""

import argparse
import collections
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from harness import LocalTest, can_mount_tmpfs, samples_after, training_manifest

STEPS = 160
PORTS = (29500, 2223)  # torchrun's default, and the first of what pods listened at once
CHECKPOINT_KIB = 310  # parameters and Adam's two moments of the harness' network, and a little
AMPLE_KIB = 64 * 1024
RUNS_THAT_SHOW_ALL = 100  # of so many, each kind of trouble has its part
KINDS = ("failures on order", "recoveries", "hang-ups", "stopped by a hang-up", "resumed",
         "disks small", "disks full for a while", "disks filled", "failed for want of room")


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
        self.hangups = chance.choice([0, 0, 0, 1, 2, 3])
        self.hangup_after = chance.uniform(0.01, 2.5)
        self.hangup_gap = chance.choice([0, 0.02, 0.3])
        disk = chance.choice(["any", "any", "any", "small", "full for a while"])
        self.disk = disk if can_mount else "any"
        self.disk_kib = AMPLE_KIB
        if self.disk == "small":
            self.disk_kib = chance.randint(CHECKPOINT_KIB // 2, 6 * CHECKPOINT_KIB)
        self.full_after = chance.uniform(0.5, 2.5)
        self.full_for = chance.choice([0.05, 0.3, 1.5])
        # Half of the moments count from the start, when programs load; a training is over quickly.
        self.from_training = chance.random() < 0.5
        if self.from_training:
            self.hangup_after *= 0.2
            self.full_after *= 0.2

    def __str__(self):
        disk = {"any": "any", "small": f"of {self.disk_kib} KiB",
                "full for a while": f"full after {self.full_after:.2f} s for {self.full_for} s"}
        return (f"seed {self.seed}: {self.workers} workers, every {self.every_steps} steps, "
                f"chaos {','.join(self.chaos) or 'none'}, {self.hangups} SIGHUP after "
                f"{self.hangup_after:.2f} s, {self.hangup_gap} s apart, disk {disk[self.disk]}, "
                f"counted from {'training' if self.from_training else 'the start'}")


class Soak(LocalTest):
    """One run after the other; borrowed from the tests for starting and for looking after."""

    engine = None

    expected = {}  # weights of undisturbed runs, by the number of workers

    def __init__(self, is_verbose, seen):
        super().__init__("run_plan")
        self.is_verbose = is_verbose
        self.seen = seen  # what came about, over all runs

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
        with self.disk(name, plan):
            started = self.start(manifest, *arguments, name=name)
            self.disturb(started, plan)
            run = self.finish(started)
            if self.is_verbose:
                print(run.output)
            self.check_words(run, plan)
            if run.exit_code != 0 and not self.lacks_only_its_summary(run):
                run = self.go_on(run, manifest, name)
            self.check_trained(run, expected)

    def check_words(self, run, plan):
        """The end is one that was brought about, and told as it is."""
        self.assertFalse((run.directory / "job.key").exists(), f"the key is left\n{run.output}")
        if run.summary is None:
            self.assertEqual(run.exit_code, -signal.SIGHUP, run.output)
            self.assertFalse((run.directory / "lock").exists(), f"died unsaid\n{run.output}")
            self.seen["hung up before it began"] += 1
            return
        fired = len(plan.chaos) - len(run.summary["chaosNotFired"])
        self.seen["failures on order"] += fired
        for text in run.summary["chaosNotFired"]:
            self.assertIn(text, plan.chaos)
            self.assertIn(text, run.output)
        if run.exit_code == 0:
            # What befell the job in its last moments needs no recovery.
            self.assertTrue(fired == 0 or run.summary["recoveries"] or "chaos: " in run.output)
            self.seen["recoveries"] += len(run.summary["recoveries"])
        elif run.exit_code == 130:
            self.check_stopped(run, plan)
        elif self.lacks_only_its_summary(run):
            self.assertNotEqual(plan.disk, "any", f"failed\n{run.output}")
            self.seen["only the summary not written"] += 1
        elif "no process was left to save step" in run.output:
            self.check_nobody_left(run, plan)
        else:
            self.assertEqual(run.exit_code, 1, run.output)
            self.assertNotEqual(plan.disk, "any", f"failed\n{run.output}")
            # A job's own reason quotes last words up to a length; where these were not written
            # either they are those of the log, which begin with that.
            self.assertRegex(
                run.summary["reason"],
                "could not be (written|saved)" if run.summary["steps"] > 0 else "No space left",
                run.output)
            self.assertIn("No space left on device", run.output, "failed without the reason")
            # Nobody is asked again who ends at once, and what it leaves behind is a file as well.
            if run.summary["steps"] > 0 and "termination message not written" not in run.output:
                self.assertIn("No space left on device", run.summary["checkpointError"], run.output)
            self.seen["failed for want of room"] += 1

    def check_nobody_left(self, run, plan):
        """Whoever is left saves, so each worker was killed or frozen shortly before the stop."""
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertGreater(plan.hangups, 0, f"stopped by nobody\n{run.output}")
        fired = [chaos for chaos in plan.chaos if chaos not in run.summary["chaosNotFired"]]
        struck = {worker for chaos in fired
                  for worker in chaos.split("=")[1].split("@")[0].split("+")}
        self.assertEqual(len(struck), plan.workers, f"somebody was left\n{run.output}")
        self.assertEqual(run.summary["lastCheckpointStep"] or 0, self.newest_step(run), run.output)
        self.seen["stopped when nobody was left"] += 1

    def lacks_only_its_summary(self, run):
        """The disk was full when all was trained and saved: exit code 1, as documented."""
        return (run.exit_code == 1 and run.summary["outcome"] == "succeeded" and
                "No space left on device" in run.output.partition("writing the summary: ")[2])

    def check_stopped(self, run, plan):
        self.assertGreater(plan.hangups, 0, f"stopped by nobody\n{run.output}")
        self.assertIn("stopped by SIGHUP", run.output)
        self.assertNotIn("killed by SIGHUP", run.output)
        # Whoever sees 130 counts on the newest checkpoint.
        self.assertEqual(run.summary["checkpointError"], "", run.output)
        steps = run.summary["steps"]
        if not plan.chaos and steps > 0:
            self.assertEqual(run.summary["lastCheckpointStep"], steps, run.output)
            self.assertEqual(run.summary["samplesConsumed"], samples_after(steps), run.output)
        self.assertEqual(run.summary["lastCheckpointStep"] or 0, self.newest_step(run), run.output)
        self.seen["stopped by a hang-up"] += 1

    def go_on(self, run, manifest, name):
        """As the console advises, and with room for it."""
        folder = run.directory
        if os.path.ismount(folder):
            subprocess.run(["mount", "-o", f"remount,size={AMPLE_KIB}k", folder], check=True)
        if run.summary is not None and f"lockstep run --resume {folder}" in run.output:
            self.seen["resumed"] += 1
            process, _, summary = self.start_resumed(folder)
            return self.finish((process, folder, summary))
        self.assertEqual(self.newest_step(run), 0, f"advised to begin anew\n{run.output}")
        self.seen["begun anew"] += 1
        return self.run_job(manifest, name=name)

    def check_trained(self, run, expected):
        self.assertTrue(run.exit_code == 0 or self.lacks_only_its_summary(run), run.output)
        self.assertEqual(run.summary["samplesLost"], 0, run.output)
        self.assertEqual(run.summary["samplesRepeated"], 0, run.output)
        self.assertEqual(self.newest_step(run), STEPS, f"the last is not saved\n{run.output}")
        self.assertEqual(self.final_weights(run), expected, f"other weights\n{run.output}")
        self.seen["ended with equal bytes"] += 1

    def newest_step(self, run):
        names = [entry.name for entry in (run.directory / "checkpoints").glob("step-*")]
        return max((int(name.removeprefix("step-")) for name in names), default=0)

    def disturb(self, started, plan):
        """Hangs up and fills the disk, each when its time has come."""
        process, directory, _ = started
        filler = directory / "filler"
        moments = [(plan.hangup_after + index * plan.hangup_gap, lambda: self.hang_up(process))
                   for index in range(plan.hangups)]
        if plan.disk == "full for a while":
            moments += [(plan.full_after, lambda: self.fill(filler)),
                        (plan.full_after + plan.full_for, lambda: filler.unlink(missing_ok=True))]
        if plan.from_training:
            log = directory / "pods" / "quick-worker-0" / "pod.log"
            self.wait_for(lambda: process.poll() is not None or
                          (log.exists() and "engine ready" in log.read_text()))
        began = time.monotonic()
        for when, act in sorted(moments, key=lambda moment: moment[0]):
            time.sleep(max(0, began + when - time.monotonic()))
            act()

    def hang_up(self, process):
        """As the kernel does it: everybody in the terminal's foreground."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGHUP)
            self.seen["hang-ups"] += 1

    def fill(self, filler):
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
        self.seen["disks filled"] += 1

    @contextlib.contextmanager
    def disk(self, name, plan):
        """The run's folder is a disk of its own, where the plan has one."""
        if plan.disk == "any":
            yield
            return
        self.seen["disks " + plan.disk] += 1
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={plan.disk_kib}k", "tmpfs", folder],
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
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("0.0.0.0", port))
                listener.listen()
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        yield


def leftovers():
    """What a run might leave outside of its folder."""
    return {*os.listdir("/dev/shm"), *os.listdir(tempfile.gettempdir())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    can_mount = can_mount_tmpfs()
    if not can_mount:
        print("no full disks: mounting a small one needs root")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # an ignored one is inherited
    failed = 0
    seen = collections.Counter()
    with taken_ports():
        for seed in range(options.seed, options.seed + options.runs):
            plan = Plan(seed, can_mount)
            soak = Soak(options.verbose, seen)
            before = leftovers()
            soak.setUp()
            try:
                soak.run_plan(plan)
                soak.tearDown()
                soak.assertEqual(leftovers() - before, set(), "left behind")
            except AssertionError as problem:
                failed += 1
                print(f"FAILED {plan}\n{problem}\n"
                      f"again: tests/local/chaos_soak.py 1 --seed {seed} --verbose", flush=True)
    print("came about: " + ", ".join(f"{what} {count}" for what, count in sorted(seen.items())))
    print(f"{options.runs - failed} passed, {failed} failed")
    absent = [what for what in KINDS if seen[what] == 0 and (can_mount or "disk" not in what)]
    if options.runs >= RUNS_THAT_SHOW_ALL and absent:
        print(f"never came about, so nothing is shown: {', '.join(absent)}")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
