"""Programs of one's own that are disturbed while they work: what their tests share."""

import os
import pathlib
import re
import signal
import urllib.request

from harness import LocalTest, command_manifest

STEPS = 150
STEP_MS = 20
SOME_STEPS = 3  # that all have taken when something happens


class OwnProgramCase(LocalTest):
    """A program with the arguments and the output of examples/own_program.c."""

    program = []  # its words, but for steps and milliseconds

    def manifest(self, workers=3, steps=STEPS, **changes):
        return command_manifest([*self.program, str(steps), str(STEP_MS)],
                                name="own", workers=workers, **{"backoff_limit": 3, **changes})

    def log(self, directory, rank):
        path = directory / "pods" / f"own-worker-{rank}" / "pod.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def pids(self, directory, rank):
        """The processes that have stood for the rank, in order, without repetition."""
        found = re.findall(r"process (\d+) is rank", self.log(directory, rank))
        return [int(pid) for pid in dict.fromkeys(found)]

    def models(self, run, workers=3):
        return [re.findall(r"after \d+ steps: .*", run.pod_log(f"own-worker-{rank}"))
                for rank in range(workers)]

    def steps_met(self, directory, rank):
        """The step at which each of the rank's meetings began."""
        return [int(step) for step in re.findall(r"step (\d+)$", self.log(directory, rank),
                                                 re.MULTILINE)]

    def supervisor_of(self, pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"^PPid:\s+(\d+)$", status, re.MULTILINE)[1])

    def undisturbed(self):
        run = self.run_job(self.manifest())
        self.assertEqual(run.exit_code, 0, run.output)
        return self.models(run)

    def check_killed_ranks(self, *groups):
        """The ranks of each group are killed at once in a run of its own, and all models are those
        of an undisturbed one."""
        expected = self.undisturbed()
        self.assertEqual(len({model for models in expected for model in models}), 1)
        for ranks in groups:
            self.assertEqual(self.models(self.lose(ranks)), expected)

    def start_and_meet(self, manifest=None, workers=3):
        started = self.start(manifest or self.manifest())
        _, directory, _ = started
        self.wait_for(lambda: all(self.pids(directory, rank) for rank in range(workers)))
        self.wait_for(lambda: (self.metric(started, "lockstep_training_step") or 0) >= SOME_STEPS)
        return started

    def metric(self, started, name):
        """Of rank 1's pod, by the address that the run says; None while nobody answers."""
        _, directory, _ = started
        pid = self.pids(directory, 1)[-1]
        variables = dict(
            entry.split("=", 1) for entry in
            pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in entry)
        url = f"http://{variables['LOCKSTEP_HOST']}:{variables['LOCKSTEP_STATUS_PORT']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as page:
            found = re.search(rf"^{name} (\S+)$", page.read().decode(), re.MULTILINE)
        return None if found is None else float(found[1])

    def lose(self, ranks, signal_number=signal.SIGKILL):
        """Ends the processes of `ranks` while all work; returns the run."""
        started = self.start_and_meet()
        _, directory, _ = started
        before = [self.pids(directory, rank) for rank in range(3)]
        for rank in ranks:
            os.kill(before[rank][0], signal_number)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [])
        self.assertRegex(run.output, r"\(process lost\): running again after")
        self.assertNotIn("not recovered", run.output)
        self.assertRegex(run.output, rf"steps +{STEPS}\b")
        for rank in range(3):
            pids = self.pids(directory, rank)
            if rank in ranks:
                self.assertEqual(len(pids), 2, f"rank {rank}: {pids}")
            else:
                self.assertEqual(pids, before[rank], f"rank {rank} lost its process")
                self.assertGreater(self.steps_met(directory, rank)[-1], 0)
        return run
