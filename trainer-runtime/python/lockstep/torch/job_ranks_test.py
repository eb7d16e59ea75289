"""Jobs of two ranks that are threads: what programs do to weights, beside one rank that does it
alone."""

import contextlib
import io
import pathlib
import tempfile
import threading
import unittest
import unittest.mock

import torch
from torch import nn

from lockstep import exits
from lockstep.errors import Diverged, InvalidArgument, MeetAgain, Mismatch, note_end
from lockstep.fake_exchange import FakeExchange, in_threads, where_nobody_fails
from lockstep.library import Leave
from lockstep.session import Meeting, Member
from lockstep.torch import feed, holdings, job
from lockstep.torch.job import Job, JobOptions
from lockstep.torch.sampler import Sampler


def alike(calls):
    """What ranks hand each other, where they make the same call with as many elements."""
    if len({(name, tensor.shape, tensor.dtype) for name, tensor in calls}) > 1:
        raise Mismatch(f"ranks call {[name for name, _ in calls]}")
    return torch.stack([tensor for _, tensor in calls])


class FakeSession:
    """One rank's of a world without losses."""

    note_end = staticmethod(note_end)

    def __init__(self, world, rank):
        self.world = world
        self.rank = rank
        self.size = world.size

    def meet(self, has_state, step, timeout):
        members = tuple(Member(rank, step, has_state, 0, "host") for rank in range(self.size))
        self.meeting = Meeting(1, self.rank, self.size, None, members)

    def call(self, name, tensor):
        return self.world.exchange(self.rank, (name, tensor))

    def all_gather(self, tensor, timeout):
        return self.call("all_gather", tensor)

    def all_reduce(self, tensor, op, timeout):
        each = self.call(op, tensor)
        return tensor.copy_(each.max(0).values if op == "max" else each.sum(0))

    def begin_all_reduce(self, tensor, op, timeout):
        self.all_reduce(tensor, op, timeout)
        return self

    def wait(self):
        pass

    def broadcast(self, tensor, root, timeout):
        tensor.copy_(self.call("broadcast", tensor)[root])

    def should_stop(self, timeout):
        self.call("should_stop", torch.zeros(1))
        return Leave.NOT

    def barrier(self, timeout):
        self.call("barrier", torch.zeros(1))

    def report(self, progress):
        pass

    def finish(self, timeout):
        self.call("finish", torch.zeros(1))

    def close(self):
        pass


class FakeScaler:
    """A GradScaler of the host, which torch 1.13 has not."""

    def __init__(self, scale=1024.0):
        self._scale = None  # until it has scaled something
        self.value = scale
        self.has_found = False
        self.good_count = 0

    def is_enabled(self):
        return True

    def get_scale(self):
        return self.value

    def scale(self, loss):
        self._scale = self.value
        return loss * self.value

    def unscale_(self, optimizer):
        self.has_found = False
        for one in (one for group in optimizer.param_groups for one in group["params"]):
            if one.grad is not None:
                one.grad.mul_(1 / self.value)
                self.has_found |= not bool(torch.isfinite(one.grad).all())

    def step(self, optimizer):
        if not self.has_found:
            optimizer.step()

    def update(self):
        self.good_count = 0 if self.has_found else self.good_count + 1
        self.value *= 0.5 if self.has_found else 2.0 if self.good_count % 2 == 0 else 1.0

    def state_dict(self):
        return {"scale": self.value, "good_count": self.good_count}

    def load_state_dict(self, state):
        self.value, self.good_count = state["scale"], state["good_count"]


class Program:
    """A network on twelve samples in six steps, and what a test changes of it."""

    options: dict = {}

    def __init__(self):
        torch.manual_seed(3)
        self.inputs, self.labels = torch.randn(12, 4), torch.randn(12, 1)
        self.model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        self.optimizer = torch.optim.Adam(self.trained(), lr=0.05)
        self.scaler = None
        self.extra = {}

    def trained(self):
        return list(self.model.parameters())

    def compared(self):
        """What ranks hold alike at the end."""
        return self.trained()

    def forward(self, inputs):
        return self.model(inputs)

    def backward(self, loss):
        loss.backward()

    def wrap(self, loader):
        return loader

    def begin(self, job):
        """Before each batch is used."""

    def end(self, job):
        """After each step. True: leave the loop."""

    def train(self, session):
        sampler = Sampler(12, 4, epochs=2, seed=1)
        data = torch.utils.data.TensorDataset(self.inputs, self.labels)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
        sessions.own = session
        with Job(model=self.model, optimizer=self.optimizer, sampler=sampler, scaler=self.scaler,
                 extra=self.extra, options=JobOptions(**self.options)) as made:
            for inputs, labels in made.batches(self.wrap(loader)):
                self.begin(made)
                loss = (self.forward(inputs) - labels).square().mean()
                self.backward(loss)
                made.step(loss)
                if self.end(made):
                    break
        self.totals = made.totals
        return self


sessions = threading.local()


class Ranks(unittest.TestCase):
    def setUp(self):
        for patch in (unittest.mock.patch.object(job, "open", lambda plan, catches: sessions.own),
                      unittest.mock.patch.object(exits, "_asked", None),
                      unittest.mock.patch.object(exits, "call_at_exit")):
            patch.start()
            self.addCleanup(patch.stop)
        self.said = io.StringIO()

    def run_on(self, size, kind):
        """What becomes of `kind` on each rank: itself, or what it raises."""
        job._has_finished = False
        world = FakeExchange(size, alike)
        programs = [kind() for _ in range(size)]  # by one thread, as it seeds the generator
        with contextlib.redirect_stderr(self.said):
            return in_threads(size, lambda rank: programs[rank].train(FakeSession(world, rank)))

    def assert_as_alone(self, kind):
        """Two ranks end with equal weights, which are those of one."""
        [alone] = where_nobody_fails(self.run_on(1, kind))
        first, second = where_nobody_fails(self.run_on(2, kind))
        for own, other, expected in zip(first.compared(), second.compared(), alone.compared()):
            self.assertTrue(torch.equal(own, other))
            # Sums in another order, of numbers about 1.
            torch.testing.assert_close(own, expected, rtol=0, atol=1e-5)

    def assert_refused(self, kind, words):
        """On both ranks, in the same words."""
        found = self.run_on(2, kind)
        for one in found:
            self.assertIsInstance(one, Mismatch)
        self.assertEqual(str(found[0]), str(found[1]))
        self.assertRegex(str(found[0]), words)

    def test_what_one_rank_does_not_see_of_its_samples_no_rank_claims(self):
        class Swaps(Program):
            def wrap(self, loader):
                backwards = type("Backwards", (), {"__iter__": lambda _: reversed(list(loader))})
                return backwards() if sessions.own.rank == 1 else loader

        with unittest.mock.patch.object(feed, "_has_told", False):
            found = where_nobody_fails(self.run_on(2, Swaps))
        for one in found:
            self.assertEqual(str(one.totals), "24 samples drawn; it is not known whether the steps "
                             "used 12 of them")
            self.assertEqual((one.totals.lost, one.totals.repeated), (None, None))
        self.assertEqual(self.said.getvalue().count("the job does not see which samples"), 1)

    def test_parameters_that_are_unfrozen_later_are_reduced(self):
        class Unfreezes(Program):
            def __init__(self):
                super().__init__()
                self.model[0].requires_grad_(False)

            def begin(self, job):
                if job.step_count == 2:
                    self.model[0].requires_grad_(True)

        self.assert_as_alone(Unfreezes)

    def test_parameters_that_the_optimizer_alone_has_are_handed_on_and_reduced(self):
        class Scaled(Program):
            def trained(self):
                # Another on each rank: rank 0 gives its own to all.
                self.factor = nn.Parameter(torch.tensor([float(next(factors))]))
                return [*self.model.parameters(), self.factor]

            def compared(self):
                return [*self.model.parameters(), self.factor]

            def forward(self, inputs):
                return self.model(inputs) * self.factor

        factors = iter([1, 1, 2])
        self.assert_as_alone(Scaled)

    def adds_a_group(self, seed_of):
        class Adds(Program):
            def begin(self, job):
                if job.step_count == 2 and len(self.optimizer.param_groups) == 1:
                    generator = torch.Generator().manual_seed(seed_of(job.rank))
                    self.shift = nn.Parameter(torch.randn(1, generator=generator))
                    self.optimizer.add_param_group({"params": [self.shift], "lr": 0.1})

            def forward(self, inputs):
                return self.model(inputs) + getattr(self, "shift", 0.0)

            def compared(self):
                return [*self.model.parameters(), self.shift]

        return Adds

    def test_a_group_that_is_added_is_reduced(self):
        self.assert_as_alone(self.adds_a_group(lambda rank: 5))

    def test_a_group_that_begins_with_other_values_on_a_rank_is_refused_by_name(self):
        self.assert_refused(
            self.adds_a_group(lambda rank: rank),
            "^optimizer: group 1, parameter 0 differs between rank 0 and rank 1: a parameter that "
            "was added")

    def test_parameters_that_one_rank_alone_trains_are_refused_by_name(self):
        class Freezes(Program):
            def begin(self, job):
                self.model[2].bias.requires_grad_(job.rank == 0 or job.step_count < 2)

        self.assert_refused(
            Freezes, r"^step: model: 2.bias \[1\] torch.float32, not trained found on rank 1, "
            r"expected \[1\] torch.float32, as on rank 0$")

    def test_buffers_that_are_put_in_the_place_of_others_become_the_mean(self):
        class Averages(Program):
            def __init__(self):
                super().__init__()
                self.model.register_buffer("seen", torch.zeros(4))
                self.model.register_buffer("own", torch.zeros(0), persistent=False)

            def forward(self, inputs):
                self.model.seen = self.model.seen + inputs.mean(0)
                self.model.own = torch.zeros(len(inputs), 1)  # of another length on each rank
                return self.model(inputs)

            def compared(self):
                return [*self.model.parameters(), self.model.seen]

        self.assert_as_alone(Averages)

    def spoils(self, name, when, compare_every):
        """A program that changes a weight of rank 1 as nobody sees, and the tensor's name."""
        class Spoils(Program):
            options = {"compare_every": compare_every}

            def end(self, job):
                if job.rank == 1 and job.step_count == when:
                    dict(self.model.named_parameters())[name].data.add_(1e-3)

        return Spoils

    def test_weights_that_differ_are_found_each_so_many_steps_and_at_the_end(self):
        for when, every, found in ((1, 2, 2), (5, 0, 6), (6, 100, 6)):
            self.assert_refused(
                self.spoils("2.weight", when, every),
                f"^model/2.weight differs between rank 0 and rank 1: after step {found} all ranks "
                "have to hold the same")

    def test_optimizers_that_differ_are_found(self):
        class Schedules(Program):
            def end(self, job):
                if job.rank == 1:
                    self.optimizer.param_groups[0]["lr"] = 0.04

        self.assert_refused(Schedules, "differs between rank 0 and rank 1: after step 6")

    def test_what_a_stop_would_save_is_compared_and_finite(self):
        def stops(change):
            class Stops(Program):
                def end(self, job):
                    if job.step_count == 3:
                        change(self.model[2].bias.data, job.rank)
                        job.session.should_stop = lambda timeout: Leave.TOGETHER

            return Stops

        for one in self.run_on(2, stops(lambda bias, rank: None)):
            self.assertRegex(str(one), "^asked to stop after 3 steps")
        self.assert_refused(stops(lambda bias, rank: bias.add_(rank)),
                            "^model/2.bias differs between rank 0 and rank 1: after step 3 ")
        for one in self.run_on(2, stops(lambda bias, rank: bias.fill_(float("nan")))):
            self.assertIsInstance(one, Diverged)

    def test_a_checkpoint_that_a_loss_has_put_off_is_written_after_the_meeting(self):
        class Loses(Program):
            def end(self, job):
                if job.step_count == 2:
                    lost = unittest.mock.Mock(side_effect=[MeetAgain("lost"), None, None])
                    job._watch.check_before_save = lost

        with tempfile.TemporaryDirectory(prefix="lockstep-test-") as directory:
            Loses.options = {"checkpoint_directory": directory, "checkpoint_every": 2}
            where_nobody_fails(self.run_on(1, Loses))
            self.assertEqual(sorted(path.name for path in pathlib.Path(directory).glob("step-*")),
                             [f"step-{step:08}" for step in (2, 4, 6)])

    def test_extra_state_that_differs_is_refused_by_key(self):
        class Counts(Program):
            def __init__(self):
                super().__init__()
                self.extra = {"own": unittest.mock.Mock(state_dict=lambda: {"v": self.value})}
                self.value = 0

            def end(self, job):
                self.value = job.rank

        self.assert_refused(Counts, "^extra/own differs between rank 0 and rank 1: after step 6 ")

    def test_buffers_that_are_not_finite_are_never_saved(self):
        class Spoils(Program):
            def __init__(self):
                super().__init__()
                self.model.append(nn.BatchNorm1d(1))

            def end(self, job):
                self.model[3].running_var.fill_(float("nan"))

        for one in self.run_on(2, Spoils):
            self.assertIsInstance(one, Diverged)
            self.assertRegex(str(one), "^after step 6 model: 3.running_var is not finite: ")

    def test_a_rank_that_leaves_the_loop_alone_is_named_on_all(self):
        class Leaves(Program):
            def end(self, job):
                return job.rank == 0 and job.step_count == 3

        class Exits(Program):
            def end(self, job):
                if job.rank == 0 and job.step_count == 3:
                    raise SystemExit(0)

        words = "^rank 0 left the loop after step 3 of 6, but rank 1 continued: all ranks must"
        self.assert_refused(Leaves, words)
        self.assert_refused(Exits, words)

    def test_a_process_that_ends_alone_without_close_does_not_end_well(self):
        class Ends(Program):
            def end(self, made):
                if made.rank == 0 and made.step_count == 3:
                    made._at_exit()  # as the interpreter calls it
                    raise SystemExit(1)

        with unittest.mock.patch.object(exits, "_wanted", None):
            _, other = self.run_on(2, Ends)
            self.assertEqual(exits._wanted, (1, str(other)))
        self.assertIsInstance(other, Mismatch)

    def test_ranks_that_leave_the_loop_together_end_well(self):
        class Leaves(Program):
            def end(self, job):
                return job.step_count == 3

        self.assert_as_alone(Leaves)

    def test_a_rank_that_leaves_after_the_last_step_ends_with_the_others(self):
        class Leaves(Program):
            def end(self, job):
                return job.rank == 0 and job.step_count == 6

        self.assert_as_alone(Leaves)

    def scaled(self, make, spoiled=(), scale=1024.0):
        """A program whose loss a scaler scales; at steps `spoiled` a gradient of rank 1 (of rank 0
        where it is alone) overflows."""
        class Scales(Program):
            def __init__(self):
                super().__init__()
                self.scaler = make(scale)
                self.scales = []

            def begin(self, job):
                self.is_spoiled = job.step_count in spoiled and job.rank == job.size - 1

            def backward(self, loss):
                self.scaler.scale(loss).backward()
                if self.is_spoiled:
                    self.model[2].bias.grad.fill_(float("inf"))

            def end(self, job):
                self.scales.append(self.scaler.get_scale())

        return Scales

    def scalers(self):
        """Ways to make one: the double, and torch's own where it has one for the host."""
        own = getattr(getattr(torch, "amp", None), "GradScaler", None)
        yield FakeScaler
        if own is not None:
            yield lambda scale: own("cpu", init_scale=scale, growth_interval=2)

    def test_scaled_gradients_are_unscaled_before_the_update(self):
        [alone] = where_nobody_fails(self.run_on(1, Program))
        for make in self.scalers():
            for program in where_nobody_fails(self.run_on(2, self.scaled(make))):
                self.assertEqual(program.scales, [1024, 2048, 2048, 4096, 4096, 8192])
                for own, expected in zip(program.compared(), alone.compared()):
                    torch.testing.assert_close(own, expected, rtol=0, atol=1e-5)

    def test_a_step_that_overflows_on_one_rank_is_skipped_on_all(self):
        for make in self.scalers():
            kind = self.scaled(make, spoiled=(1, 2))
            self.assert_as_alone(kind)
            for program in where_nobody_fails(self.run_on(2, kind)):
                self.assertEqual(program.scales, [1024, 512, 256, 256, 512, 512])

    def test_gradients_that_overflow_without_scale_end_the_job(self):
        for one in self.run_on(2, self.scaled(FakeScaler, (1, 2), scale=2.0)):
            self.assertIsInstance(one, Diverged)
            self.assertRegex(str(one), "^the gradients of step 3 are not finite, even at ")

    def test_a_scaler_that_the_job_does_not_know_is_refused(self):
        class Unknown(Program):
            def __init__(self):
                super().__init__()
                self.unknown = FakeScaler()

            def backward(self, loss):
                self.unknown.scale(loss).backward()

        with unittest.mock.patch.object(holdings, "_SCALERS", (FakeScaler,)):
            for one in self.run_on(2, Unknown):
                self.assertIsInstance(one, InvalidArgument)
                self.assertRegex(str(one), r"^step: a GradScaler has scaled .*Job\(scaler=")


if __name__ == "__main__":
    unittest.main()
