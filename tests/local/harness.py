"""Runs `lockstep run` on manifests written by a test, in a folder that is removed afterwards."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))  # for lanes.py
MNIST = REPOSITORY / "examples" / "data" / "mnist"
BIN = pathlib.Path(
    os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build" / "dev" / "bin")
).resolve()

# Stands for LibTorch in jobs that are not about numbers: it is loaded in a moment, where LibTorch
# takes a third of a second of a core for each pod.
REFERENCE_ENGINE = (BIN.parent / "trainer-runtime" / "engine" / "plugins" /
                    "liblockstep_test_reference_plugin.so")

# Far above what any job here takes, so that a hang is a failure and not a stuck build.
RUN_TIMEOUT_SECONDS = 300

TRAINING = """\
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  roles:
  - name: worker
    replicas: {workers}
  runPolicy: {{backoffLimit: {backoff_limit}}}
  training:
    seed: {seed}
    steps: {steps}
    globalBatchSize: 96
    model:
      inputShape: [28, 28, 1]
      layers:
      - {{type: Flatten}}
      - {{type: Dense, units: 32, activation: relu}}
      - {{type: Dense, units: 10}}
    loss: {{type: SparseCategoricalCrossentropy, fromLogits: true}}
    optimizer: {{type: Adam}}
    dataset:
      format: idx
      images: {mnist}/t10k-images-idx3-ubyte.gz
      labels: {mnist}/t10k-labels-idx1-ubyte.gz
      scale: 0.00392156862745098
      testSamples: 1000
    checkpoint: {{directory: checkpoints, everySteps: {every_steps}, keep: 3}}
"""

COMMAND = """\
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  strategy: None
  roles:
  - name: worker
    replicas: {workers}
    restartPolicy: {restart_policy}
    template:
      spec:
        terminationGracePeriodSeconds: {grace}
        containers:
        - name: trainer
          image: local
          command: {command}
  runPolicy: {{backoffLimit: {backoff_limit}}}
  recovery: {recovery}
"""


def training_manifest(**changes):
    """A quick network on the real digits; `changes` replace the fields named in TRAINING."""
    fields = {
        "name": "quick",
        "workers": 3,
        "backoff_limit": 6,
        "seed": 1,
        "steps": 120,
        "every_steps": 20,
        "mnist": MNIST,
    }
    return TRAINING.format(**{**fields, **changes})


def command_manifest(command, **changes):
    """A job whose workers run `command`, a list of words."""
    fields = {
        "name": "command",
        "workers": 2,
        "restart_policy": "ExitCode",
        "grace": 30,
        "backoff_limit": 0,
        "command": json.dumps(command),
        "recovery": "{}",
    }
    return COMMAND.format(**{**fields, **changes})


def can_mount_tmpfs():
    """Whether a test may have a small disk."""
    return os.geteuid() == 0 and subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def small_disk(folder, options):
    """A disk in `folder`, which is made, of so many bytes or files: options of tmpfs."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def samples_after(steps):
    """How many samples that training has used after so many steps: the last batch of each data
    epoch has what is left of its 9,000 samples."""
    epochs, rest = divmod(steps, 94)
    return 9000 * epochs + 96 * rest


class Run:
    """What one `lockstep run` left: exit code, output, summary, and the run's folder."""

    def __init__(self, exit_code, output, summary, directory):
        self.exit_code = exit_code
        self.output = output
        self.summary = summary
        self.directory = directory

    def pod_log(self, pod):
        return (self.directory / "pods" / pod / "pod.log").read_text(errors="replace")


class LocalTest(unittest.TestCase):
    """A test with a scratch folder, and with nothing left running after it. `engine` is what the
    built-in trainer computes with; None: what is shipped, on LibTorch."""

    engine = REFERENCE_ENGINE

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        self.run_count = 0

    def tearDown(self):
        left = processes_below(self.scratch)
        for pid in left:  # a test that failed half way has not stopped its run
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.scratch, ignore_errors=bool(left))
        self.assertEqual(list(left.values()), [], "processes left behind")

    def start(self, manifest, *arguments, name=None):
        """Starts `lockstep run` and returns (process, folder of the run, summary file)."""
        self.run_count += 1
        name = name or f"run-{self.run_count}"
        manifest_file = self.scratch / f"{name}.yaml"
        manifest_file.write_text(manifest)
        directory = self.scratch / name
        summary = self.scratch / f"{name}.json"
        return self._start(directory, summary, manifest_file, "--dir", directory, *arguments)

    def start_resumed(self, directory, *arguments):
        """Starts `lockstep run --resume` on an earlier run's folder; as `start`."""
        self.run_count += 1
        summary = self.scratch / f"resumed-{self.run_count}.json"
        return self._start(directory, summary, "--resume", directory, *arguments)

    def _start(self, directory, summary, *arguments):
        process = subprocess.Popen(
            [BIN / "lockstep", "run", "--summary", summary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=self.environment(),
        )
        return process, directory, summary

    def environment(self):
        """That of `lockstep run`."""
        engine = {} if self.engine is None else {"LOCKSTEP_ENGINE": str(self.engine)}
        return {**os.environ, **engine}

    def start_until_trained(self, manifest, *arguments, name=None):
        """As `start`, and waits until worker 0 has told of a step."""
        started = self.start(manifest, *arguments, name=name)
        _, directory, _ = started
        log = directory / "pods" / "quick-worker-0" / "pod.log"
        self.wait_for(lambda: log.exists() and " trained " in log.read_text())
        return started

    def finish(self, started):
        """Waits for a run to end; one that hangs is killed and fails the test."""
        process, directory, summary = started
        try:
            output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            self.fail(f"lockstep run hangs; its output:\n{output}")
        document = json.loads(summary.read_text()) if summary.exists() else None
        return Run(process.returncode, output, document, directory)

    def stop(self, started):
        """As one ^C, and waits for the end."""
        process, _, _ = started
        process.send_signal(signal.SIGINT)
        return self.finish(started)

    def run_job(self, manifest, *arguments, name=None):
        return self.finish(self.start(manifest, *arguments, name=name))

    def assert_trained(self, run, recoveries=0):
        """The job succeeded, and used every sample exactly once."""
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["samplesLost"], 0, run.output)
        self.assertEqual(run.summary["samplesRepeated"], 0, run.output)
        self.assertGreater(run.summary["samplesConsumed"], 0, run.output)
        self.assertGreaterEqual(len(run.summary["recoveries"]), recoveries, run.output)

    def wait_for(self, condition, seconds=240):
        """Polls until the condition holds; fails the test when it does not in time."""
        began = time.monotonic()
        while not condition():
            waited = time.monotonic() - began
            self.assertLess(waited, seconds, "waited in vain")
            time.sleep(min(max(0.005, 0.02 * waited), 0.05))  # looking costs what others could use

    def pid_of(self, directory, pod):
        """The process that runs `pod` of the run in `directory`."""
        wanted = f"LOCKSTEP_POD={pod}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if wanted in variables and str(directory).encode() in b" ".join(variables):
                    return int(entry.name)
        self.fail(f"no process runs {pod}")

    def pod_log(self, directory, pod):
        """What `pod` of the run in `directory` has said so far."""
        log = directory / "pods" / pod / "pod.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def told(self, directory, pod, mark):
        """The words behind `mark` of each line in which a program of the pod told something."""
        log = self.pod_log(directory, pod)
        return [line.split() for line in re.findall(rf"{mark} (\d+ .*)", log)]

    def wait_until_asked(self, directory, pods, mark):
        """Waits until every pod's program has told of itself, and its runtime was asked how it is:
        from then on whoever dies is missed."""
        self.wait_for(lambda: all(
            self.told(directory, pod, mark)
            and "the status was requested" in self.pod_log(directory, pod) for pod in pods))

    def final_weights(self, run):
        """The bytes of the newest checkpoint's tensors."""
        checkpoints = sorted((run.directory / "checkpoints").glob("step-*/tensors.safetensors"))
        self.assertTrue(checkpoints, "no checkpoint")
        return checkpoints[-1].read_bytes()


def processes_below(folder):
    """Live processes whose environment or arguments name `folder`: process id to command line."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            text = command + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            command = command.replace(b"\0", b" ").decode().strip()
            found[int(entry.name)] = command
    return found
