"""Programs on Hugging Face's Trainer, PyTorch Lightning and accelerate. Unchanged, their gang
begins anew at their own newest checkpoint when a rank is lost. With what Lockstep has for them, the
other ranks keep their processes, and the weights come out as ever. It needs a torch whose backends
Python can make, and gloo stands for NCCL."""

import pathlib
import re
import subprocess
import unittest

from harness import command_manifest
from own_program_case import OwnProgramCase
from python_case import PYTHON, VARIABLES, can_make_backends, entry_points, python_words

HERE = pathlib.Path(__file__).parent
STEP_SECONDS = 0.15


def needs(*modules):
    """Looks for them without loading them, which takes many seconds of a core."""
    probe = ("import importlib.util as util; "
             f"raise SystemExit(not all(util.find_spec(one) for one in {modules}))")
    found = subprocess.run([PYTHON, "-c", probe], check=False).returncode == 0
    return unittest.skipUnless(found, f"no {' or '.join(modules)} for {PYTHON}")


needs_transformers = needs("transformers", "accelerate", "torch")
needs_lightning = needs("lightning", "torch")
needs_accelerate = needs("accelerate", "torch")


class TrainersCase(OwnProgramCase):
    variables = ()  # of the programs, as NAME=VALUE

    def environment(self):
        """torch leaves its caches among temporary files."""
        return {**super().environment(), "TMPDIR": str(self.scratch)}

    def manifest(self, program, *words, workers=3, **changes):
        # A replacement imports for longer than a minute on a busy machine.
        patience = {"recovery": "{rendezvousTimeoutSeconds: 250}", **changes}
        env, *rest = python_words(HERE / program, *map(str, words))
        place = rest.index(PYTHON)
        return command_manifest(
            [env, *rest[:place], *self.variables, *rest[place:]], name="own", workers=workers,
            backoff_limit=3, **patience)

    def train(self, *words, **changes):
        run = self.run_job(self.manifest(*words, **changes))
        self.assertEqual(run.exit_code, 0, run.output)
        return run

    def steps(self, run, rank=0):
        """Of each process of the rank, the steps that it did."""
        steps = {}
        for pid, step in re.findall(r"process (\d+) did step (\d+)",
                                    run.pod_log(f"own-worker-{rank}")):
            steps.setdefault(pid, []).append(int(step))
        return list(steps.values())


class Unchanged(TrainersCase):
    """Three pods, of which one is killed."""

    STEPS, KILLED_AFTER, SAVED = 110, 45, 40

    def check(self, program):
        run = self.train(program, self.STEPS, STEP_SECONDS, f"1:{self.KILLED_AFTER}",
                         recovery="{relaunch: true}")
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}], run.output)
        before, after = self.steps(run)
        self.assertEqual(before[-1], self.KILLED_AFTER)
        self.assertEqual((after[0], after[-1]), (self.SAVED + 1, self.STEPS))
        return run

    def check_progress(self, run):
        self.assertEqual((run.summary["steps"], run.summary["stepsTotal"]),
                         (self.STEPS, self.STEPS), run.output)
        self.assertGreater(run.summary["loss"], 0)
        since = run.output[run.output.index("running again after"):]
        told = re.findall(rf"step (\d+)/{self.STEPS} .* eta (\d+) s", since)
        self.assertTrue(told, run.output)
        for step, seconds in told:
            # A step takes longer than its pause. Its trainer's own figure would count the steps of
            # the checkpoint as steps of this start.
            least = (self.STEPS - int(step)) * STEP_SECONDS
            self.assertTrue(least - 1 <= int(seconds) <= 20 * least + 5, (step, seconds))

    @needs_transformers
    def test_hugging_face(self):
        self.check_progress(self.check("python_hugging_face_program.py"))

    @needs_lightning
    def test_lightning(self):
        self.variables = entry_points(self.scratch / "metadata")
        self.check_progress(self.check("python_lightning_program.py"))

    @needs_accelerate
    def test_accelerate(self):
        """It has no hook: the steps are those of the optimizer, which its checkpoint counts."""
        self.variables = entry_points(self.scratch / "metadata")
        run = self.check("python_accelerate_program.py")
        self.assertEqual((run.summary["steps"], run.summary["stepsTotal"]), (self.STEPS, None),
                         run.output)


# A Trainer of one process, whose arguments are changed one by one. Its folder is an argument.
REFUSALS = """\
import sys, transformers
import lockstep.transformers
from lockstep.errors import InvalidArgument
from python_trainers_parts import Network, Samples

class Trainer(lockstep.transformers.Recovers, transformers.Trainer):
    pass

trainer = Trainer(model=Network(), train_dataset=Samples(), args=transformers.TrainingArguments(
    output_dir=sys.argv[1], use_cpu=True, report_to="none"))
lockstep.transformers._check(trainer, None)
for name in ("fp16", "auto_find_batch_size", "save_on_each_node", "eval_on_start",
             "ignore_data_skip", "include_num_input_tokens_seen"):
    kept = getattr(trainer.args, name)
    setattr(trainer.args, name, True)
    try:
        lockstep.transformers._check(trainer, None)
    except InvalidArgument as error:
        print(error)
    setattr(trainer.args, name, kept)
trainer.is_deepspeed_enabled = True
try:
    lockstep.transformers._check(trainer, None)
except InvalidArgument as error:
    print(error)
"""


# Lightning's Trainer of one process, which is changed one by one within `fit`.
LIGHTNING_REFUSALS = """\
import datetime, lightning, torch
import lightning.pytorch.callbacks as callbacks
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lockstep.errors import InvalidArgument
from lockstep.lightning import Recovers
from lockstep.lightning.refusals import check_data, check_steps, check_trainer
from python_lightning_program import Module
from python_trainers_parts import Samples

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(())

class Own(torch.utils.data.SequentialSampler):
    def set_epoch(self, epoch):
        pass

def say(name, check, *arguments, **named):
    print(name, end=": ")
    try:
        check(*arguments, **named)
        print("accepted")
    except InvalidArgument as error:
        print(error)

def load(**named):
    return torch.utils.data.DataLoader(Samples(), batch_size=8, **named)

class Asks(lightning.Callback):
    def on_train_start(self, trainer, module):
        def check():
            check_trainer(trainer)
            check_data(trainer)

        def say_with(name, owner, **values):
            kept = {key: getattr(owner, key) for key in values}
            for key, value in values.items():
                setattr(owner, key, value)
            say(name, check)
            for key, value in kept.items():
                setattr(owner, key, value)

        say("nothing", check)
        say_with("manual", module, automatic_optimization=False)
        say_with("optimizers", trainer.strategy, optimizers=trainer.optimizers * 2)
        trainer.precision_plugin.scaler = 1
        say("scaler", check)
        trainer.precision_plugin.scaler = None
        say_with("reload", trainer, reload_dataloaders_every_n_epochs=1)
        say_with("interval", trainer, _val_check_time_interval=5.0)
        for one in (callbacks.BatchSizeFinder(), callbacks.LearningRateFinder(),
                    callbacks.GradientAccumulationScheduler({0: 1, 4: 2}),
                    callbacks.BackboneFinetuning(), callbacks.StochasticWeightAveraging(0.1),
                    callbacks.EMAWeightAveraging(), callbacks.ModelPruning("l1_unstructured")):
            say_with(type(one).__name__, trainer, callbacks=[self, one])
        say_with("fetcher", trainer.fit_loop, _data_fetcher=_DataLoaderIterDataFetcher())
        combined = trainer.fit_loop._combined_loader
        weighted = torch.utils.data.WeightedRandomSampler([1.0] * 240, 240)
        loaders = {
            "shuffled": load(shuffle=True), "in order": load(), "own": load(sampler=Own(Samples())),
            "weighted": load(sampler=weighted), "batches": [{"inputs": 1}],
            "stream": torch.utils.data.DataLoader(Stream()),
            "own batches": torch.utils.data.DataLoader(Samples(), batch_sampler=[[0, 1]]),
        }
        for name, loader in loaders.items():
            combined.flattened = [loader]
            say(name, check)
        for total in (float("inf"), -1, 20):
            say(f"steps {total}", check_steps, total)

for name, value in (("ddp_comm_hook", print), ("model_averaging_period", 3),
                    ("start_method", "spawn"), ("find_unused_parameters", True)):
    say(name, Recovers, **{name: value})
lightning.Trainer(
    accelerator="cpu", max_steps=1, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, callbacks=[Asks()]).fit(Module(), load())
"""

# Each line: what is changed, and what is named.
LIGHTNING_REFUSED = {
    "ddp_comm_hook": "ddp_comm_hook", "model_averaging_period": "model_averaging_period",
    "start_method": "start_method", "find_unused_parameters": None, "nothing": None,
    "manual": "automatic_optimization", "optimizers": "configure_optimizers",
    "scaler": "precision", "reload": "reload_dataloaders_every_n_epochs",
    "interval": "val_check_interval", "BatchSizeFinder": "callbacks",
    "LearningRateFinder": "callbacks", "GradientAccumulationScheduler": "callbacks",
    "BackboneFinetuning": "callbacks", "StochasticWeightAveraging": "callbacks",
    "EMAWeightAveraging": "callbacks", "ModelPruning": "callbacks", "fetcher": "training_step",
    "shuffled": "train_dataloader", "in order": None, "own": None, "weighted": "train_dataloader",
    "batches": "train_dataloader", "stream": "train_dataloader",
    "own batches": "train_dataloader", "steps inf": "max_steps", "steps -1": "max_steps",
    "steps 20": None,
}


# What a Trainer is to begin from, and what it begins from. The folder is an argument.
BEGINNINGS = """\
import os, sys, transformers
import lockstep.transformers
from python_trainers_parts import Network, Samples

class Tells(transformers.Trainer):
    def train(self, resume_from_checkpoint=None):
        print(os.path.basename(str(resume_from_checkpoint)))

class Trainer(lockstep.transformers.Recovers, Tells):
    pass

trainer = Trainer(model=Network(), train_dataset=Samples(), args=transformers.TrainingArguments(
    output_dir=sys.argv[1], use_cpu=True, report_to="none"))
for name in (True, "checkpoint-20", "checkpoint-12", "checkpoint-3", "checkpoint-2", "best",
             "checkpoint-7", None):
    print(name, end=":", flush=True)
    is_path = isinstance(name, str)
    trainer.train(os.path.join(sys.argv[1], name) if is_path else name)
"""


@unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
class Recovers(TrainersCase):
    """Two pods: a sum of two rounds alike in any order."""

    STEPS = 20  # more than a data epoch has
    known_ends = {}  # of undisturbed runs, by what was run

    def trained(self, program, *words, killed=()):
        """`killed`: the moments at which a rank is."""
        run = self.train(program, self.STEPS, 0, "recovers", *words, *killed, workers=2)
        self.assertEqual(run.summary["restarts"], [], run.output)
        self.assertNotIn("unsaved steps are lost", run.output)
        for rank in range(2):
            deaths = sum(word.split(":")[-2] == str(rank) for word in killed)
            steps = self.steps(run, rank)
            self.assertLessEqual(len(steps), deaths + 1)
            # Each step once: of a rank that is killed after a step, its successor does the next.
            self.assertEqual(sum(steps, []), list(range(1, self.STEPS + 1)))
        return run

    def ends(self, *program, killed=()):
        return self.one_end(self.trained(*program, killed=killed))

    def one_end(self, run):
        """What each rank says at the end, which is the same."""
        ends = [re.findall(r"after \d+ steps: .*", run.pod_log(f"own-worker-{rank}"))
                for rank in range(2)]
        self.assertEqual(ends, [ends[0]] * 2)
        self.assertEqual(len(ends[0]), 1)
        return set(ends[0])

    def check(self, program, *words):
        """A rank is killed in the first data epoch, and rank 0 in the second."""
        self.assertEqual(self.ends(program, *words, killed=("1:6", "0:17")),
                         self.undisturbed(program, *words))

    @needs_transformers
    def test_hugging_face(self):
        self.check("python_hugging_face_program.py")

    @needs_transformers
    def test_hugging_face_that_accumulates_gradients(self):
        self.check("python_hugging_face_program.py", "accumulates")

    def say(self, code, *arguments):
        """What Python says when it runs `code`."""
        return subprocess.run(
            [PYTHON, "-B", "-c", code, *arguments], capture_output=True, text=True, check=False,
            cwd=HERE, env={**self.environment(), **VARIABLES})

    def undisturbed(self, *program):
        program = program or ("python_hugging_face_program.py",)
        if program not in self.known_ends:
            self.known_ends[program] = self.ends(*program)
        return self.known_ends[program]

    def all_ends(self, run):
        """What all processes say that came to the end, without repetition."""
        return {end for pod in (run.directory / "pods").iterdir()
                for end in re.findall(r"after \d+ steps: .*", run.pod_log(pod.name))}

    def saved(self, directory):
        """The steps of the checkpoints, all of which are whole."""
        checkpoints = list((directory / "checkpoints").glob("checkpoint-*"))
        for one in checkpoints:
            for name in ("model.safetensors", "optimizer.pt", "trainer_state.json"):
                self.assertTrue((one / name).exists(), f"{one}: {name}")
        return {int(one.name.split("-")[1]) for one in checkpoints}

    def savers(self, directory, step):
        """The pods that have written a part of this step's checkpoint."""
        pods = sorted(one.name for one in (directory / "pods").iterdir())
        return [pod for pod in pods if f"saves step {step}\n" in self.pod_log(directory, pod)]

    @needs_transformers
    def test_a_rank_that_is_asked_to_go_alone_has_a_successor(self):
        """Rank 1 in the first data epoch, which writes nothing, and then rank 0."""
        run = self.train("python_hugging_face_program.py", self.STEPS, 0.3, "recovers",
                         "asked:1:2", "asked:0:11", workers=2)
        for rank in range(2):
            self.assertIn("asked to stop after", run.pod_log(f"own-worker-{rank}"))
        self.assertEqual(self.all_ends(run), self.undisturbed())
        self.assertEqual(self.savers(run.directory, self.STEPS), ["own-worker-0-r1",
                                                                 "own-worker-1-r1"])
        [last, _] = sorted(self.saved(run.directory))
        self.assertTrue(11 < last < self.STEPS, last)
        self.assertEqual(self.savers(run.directory, last), ["own-worker-0"])
        self.assertNotIn("saves step", run.pod_log("own-worker-1"))

    def stop_and_resume(self, *words, until, left):
        """Stops all pods once rank `left`, the lowest that is there, has said `until`."""
        started = self.start(self.manifest(
            "python_hugging_face_program.py", self.STEPS, 0.3, "recovers", *words, workers=2))
        _, directory, _ = started
        self.wait_for(lambda: until in self.log(directory, left))
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        [step] = set(re.findall(r"asked to stop after (\d+) steps", self.log(directory, left)))
        self.assertEqual(max(self.saved(directory)), int(step))
        self.assertEqual(self.savers(directory, step), [f"own-worker-{left}"])
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)
        self.assertIn(f"training begins from checkpoint-{step}", self.log(directory, left))
        self.assertEqual(self.all_ends(resumed), self.undisturbed())

    @needs_transformers
    def test_a_stop_of_all_ranks_is_saved(self):
        self.stop_and_resume(until="did step 5\n", left=0)

    @needs_transformers
    def test_a_stop_while_rank_0_is_replaced_is_saved_by_the_other(self):
        self.stop_and_resume("0:7", until="joining a new rendezvous after step 7", left=1)

    @needs_transformers
    def test_a_rank_killed_while_it_saves_has_a_successor_that_begins_from_a_whole_checkpoint(self):
        self.assertEqual(
            self.ends("python_hugging_face_program.py", killed=["saves:0:10"]),
            self.undisturbed())

    @needs_transformers
    def test_training_begins_from_the_newest_checkpoint_that_is_whole(self):
        for name, state in (("checkpoint-3", "{}"), ("checkpoint-5", "{}"), ("checkpoint-12", "{"),
                            ("checkpoint-20", None), ("best", None), ("checkpoint-2", None)):
            folder = self.scratch / name
            folder.mkdir()
            if state is not None:
                (folder / "trainer_state.json").write_text(state)
        said = self.say(BEGINNINGS, self.scratch)
        self.assertEqual(said.stdout.split(), [
            "True:checkpoint-5", "checkpoint-20:checkpoint-5", "checkpoint-12:checkpoint-5",
            "checkpoint-3:checkpoint-3", "checkpoint-2:None", "best:best",
            "checkpoint-7:checkpoint-7", "None:None"], said.stderr)
        self.assertIn("checkpoint-20 is incomplete: ", said.stderr)

    @needs_transformers
    def test_what_a_trainer_cannot_recover_is_refused_by_name(self):
        said = self.say(REFUSALS, self.scratch)
        names = re.findall(r"^(\w+): .+ found, which lockstep.transformers.Recovers cannot",
                           said.stdout, re.MULTILINE)
        self.assertEqual(names, ["fp16", "auto_find_batch_size", "save_on_each_node",
                                 "eval_on_start", "ignore_data_skip",
                                 "include_num_input_tokens_seen", "deepspeed"],
                         said.stdout + said.stderr)

    @needs_accelerate
    def test_accelerate(self):
        self.check("python_accelerate_program.py")

    @needs_lightning
    def test_lightning(self):
        self.check("python_lightning_program.py")

    @needs_lightning
    def test_lightning_that_accumulates_gradients_and_validates(self):
        """A data epoch has an odd number of batches, and a validation comes within an update."""
        killed = ("1:6", "0:17")
        program = ("python_lightning_program.py", "accumulates", "validates")
        run = self.trained(*program, killed=killed)
        self.assertEqual(self.one_end(run), self.undisturbed(*program))
        for rank in range(2):
            log = run.pod_log(f"own-worker-{rank}")
            # Of two data epochs, whichever process of the rank was there at their ends.
            self.assertEqual(re.findall(r"counted (.*)", log)[:2], ["240.0 120.0"] * 2)

    @needs_lightning
    def test_lightning_that_is_stopped_is_saved(self):
        """Also by the rank that is left, while rank 0 is replaced."""
        program = "python_lightning_program.py"
        for words, until, left in ((), "did step 5\n", 0), (
                ("0:7",), "joining a new rendezvous after step 7", 1):
            with self.subTest(words):
                started = self.start(self.manifest(
                    program, self.STEPS, 0.3, "recovers", *words, workers=2))
                _, directory, _ = started
                self.wait_for(lambda: until in self.log(directory, left))
                run = self.stop(started)
                self.assertEqual(run.exit_code, 130, run.output)
                [step] = set(re.findall(
                    r"asked to stop after (\d+) steps", self.log(directory, left)))
                self.assertEqual(self.savers(directory, step), [f"own-worker-{left}"])
                resumed = self.finish(self.start_resumed(directory))
                self.assertEqual(resumed.exit_code, 0, resumed.output)
                self.assertEqual(self.steps(resumed)[-1][0], int(step) + 1)
                self.assertEqual(self.all_ends(resumed), self.undisturbed(program))

    @needs_lightning
    def test_what_lightning_cannot_recover_is_refused_by_name(self):
        said = self.say(LIGHTNING_REFUSALS)
        names = {
            what: None if answer == "accepted" else re.match(
                r"(\w+): .+ found, which lockstep.lightning.Recovers cannot", answer)[1]
            for what, answer in re.findall(
                r"^([\w -]+): ((?:accepted|\w+: ).*)", said.stdout, re.MULTILINE)}
        self.assertEqual(names, LIGHTNING_REFUSED, said.stdout + said.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
