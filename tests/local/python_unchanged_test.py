"""A program on torch that knows nothing of Lockstep, and one of whose ranks is killed: the others
end soon, whatever they wait for, the gang begins anew at the program's own checkpoint, and the
status names the rank that was killed. Ranks that wait for each other by gloo stand for those that
wait in NCCL, and hear nothing of the loss."""

import json
import os
import pathlib
import re
import signal
import unittest

from harness import LocalTest, command_manifest
from python_case import PYTHON, VARIABLES, can_import, can_make_backends, entry_points

PROGRAM = pathlib.Path(__file__).with_name("python_unchanged_program.py")
STEPS = 400  # long enough to be killed in
RANKS = 3
KILLED = 1
LAST_STEP = 59  # of ranks that hang


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Unchanged(LocalTest):
    """Three pods, of which one loses its program."""

    def environment(self):
        """torch leaves its caches among temporary files."""
        return {**super().environment(), "TMPDIR": str(self.scratch)}

    def manifest(self, *words, **changes):
        variables = {**VARIABLES, "PYTHONDONTWRITEBYTECODE": "1"}
        for entry in entry_points(self.scratch / "metadata"):
            name, value = entry.split("=", 1)
            variables[name] = value
        variables.pop("LOCKSTEP_LIBRARY", None)
        env = [{"name": name, "value": value} for name, value in variables.items()]
        self.folder = self.scratch / "saved"
        self.folder.mkdir()
        text = command_manifest([PYTHON, str(PROGRAM), str(self.folder), str(STEPS), *words],
                                name="own", workers=RANKS, backoff_limit=1,
                                **{"recovery": "{relaunch: true}", **changes})
        return text.replace("          image: local\n",
                            f"          image: local\n          env: {json.dumps(env)}\n").replace(
            "    restartPolicy:", "    warm: [torch]\n    restartPolicy:")

    def said(self, run, rank):
        return "".join(run.pod_log(pod.name)
                       for pod in sorted((run.directory / "pods").glob(f"own-worker-{rank}*")))

    def lose(self, *words, step=45, **changes):
        """Kills the program of a rank once all have done the step, and runs to the end."""
        started = self.start(self.manifest(*words, **changes))
        process, directory, _ = started
        pods = [f"own-worker-{rank}" for rank in range(RANKS)]
        marks = [f"did step {step}\n"]
        if "recovery" not in changes:  # a pod that nobody has asked is not held
            marks.append("the status was requested")
        self.wait_for(lambda: process.poll() is not None or all(
            mark in self.pod_log(directory, pod) for pod in pods for mark in marks))
        lost = re.search(r"process (\d+)", self.pod_log(directory, pods[KILLED]))
        self.assertTrue(lost, self.pod_log(directory, pods[KILLED]))
        self.command = pathlib.Path(f"/proc/{lost[1]}/cmdline").read_text()
        os.kill(int(lost[1]), signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        # The first cause, and not what became of those that lost a peer.
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}], run.output)
        self.assertIn(f"pod own-worker-{KILLED} (rank {KILLED}) killed by SIGKILL", run.output)
        for rank in range(RANKS):
            first, second = re.findall(r"begins at step (\d+)", self.said(run, rank))
            self.assertEqual(int(first), 0)
            self.assertGreaterEqual(int(second), step // 10 * 10)  # its newest checkpoint
        return run

    def test_the_gang_begins_anew_from_the_warm_interpreter_and_the_newest_checkpoint(self):
        self.lose()
        self.assertIn("lockstep_fork_server", self.command)

    def test_with_new_pods_the_killed_rank_is_named_too(self):
        self.lose(recovery="{}")

    @unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
    def test_who_waits_in_a_collective_and_handles_the_signal_is_killed_soon(self):
        run = self.lose("asks", "hangs", step=LAST_STEP)
        for rank in {*range(RANKS)} - {KILLED}:
            log = self.said(run, rank)
            self.assertIn("it is in a call of torch.distributed that cannot complete", log)
            self.assertNotIn("grace period is over", log)

    @unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
    def test_who_saves_has_its_grace(self):
        self.lose("hangs", "saves", step=LAST_STEP)
        self.assertEqual((self.folder / "saved-by-2").read_text(), "whole")


if __name__ == "__main__":
    unittest.main(verbosity=2)
