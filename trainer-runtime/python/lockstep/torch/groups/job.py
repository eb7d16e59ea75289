"""A training loop on torch's own groups that continues after the loss of a process."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar, Union

import torch

from lockstep.errors import InvalidArgument, LockstepError, MeetAgain, Status
from lockstep.torch import job as plain
from lockstep.torch.agreement import check_equal
from lockstep.torch.gradients import StepShare
from lockstep.torch.groups.control import control, is_open
from lockstep.torch.groups.copies import Copies, copies_for
from lockstep.torch.groups.models import check_optimizer, is_group_initialized, synchronize
from lockstep.torch.groups.shards import ProgramSaves, Sharded, ShardHoldings, adapter_of
from lockstep.torch.groups.vote import StepVote
from lockstep.torch.holdings import Holdings, Stateful
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler
from lockstep.torch.state import broadcast_state

Batch = TypeVar("Batch")


class Job(plain.Job):
    """Like lockstep.torch.Job, for a model that sums its gradients through torch's own groups, such
    as DistributedDataParallel over NCCL:

        import lockstep.torch.groups
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(...)
        job = lockstep.torch.groups.Job(model=model, optimizer=optimizer, sampler=sampler)
        for inputs, labels in job.batches(loader):
            with job.attempt():
                loss = loss_function(model(inputs), labels)
                loss.backward()
                job.step(loss)

    If a rank is lost, all others forget the step. They keep their processes, their groups and the
    model's objects. They join a rendezvous with the replacement, connect the groups again, give it
    the state, and repeat the step. `raises=True`: collective calls of a lost step raise MeetAgain,
    and `attempt` catches it. `raises=False`: the calls return at once with undefined results, and
    the step runs to its end.

    `copy_every`: for a model of fully_shard without replicas, steps between two copies of each
    rank's shard to a rank of another pod. If a rank is lost, all ranks go back to the newest copy.
    None: no copies.

    Errors: those of lockstep.torch.Job; InvalidArgument (the model or the optimizer cannot forget a
    step, or there is no group of all ranks). Thread: one.
    """

    _reducer_type = StepVote
    _reducer: StepVote
    # Whether a rank that has not heard of a step's outcome takes the step by itself. Else another
    # rank hands over what the step has come to.
    _rolls_forward = False

    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        sampler: Sampler,
        extra: Optional[Mapping[str, Stateful]] = None,
        scaler: Any = None,
        options: JobOptions = JobOptions(),
        raises: bool = False,
        copy_every: Optional[int] = None,
    ) -> None:
        if not is_group_initialized() or not is_open():
            raise InvalidArgument(
                "groups: no group of lockstep.torch.groups found, expected a group of all ranks: "
                "import lockstep.torch.groups, then call init_process_group, then make the Job")
        self._adapter = adapter_of(model)
        check_optimizer(optimizer)
        self._copies = copies_for(copy_every, self._adapter)
        if isinstance(self._adapter, Sharded):
            self._rolls_forward = True
            self._holdings_type = ShardHoldings
            options = ProgramSaves.like(options)
        self._control = control()
        self._check_extra(extra or {})
        self._session = self._control.session  # type: ignore[assignment]
        self._raises = raises
        self._voted: Optional[Voted] = None
        self._has_left_loop = False  # so that it cannot repeat a step
        super().__init__(model=self._adapter.bare, optimizer=optimizer, sampler=sampler,
                         extra=extra, scaler=scaler, options=options)
        self.model = model

    def _check_extra(self, extra: Mapping[str, Stateful]) -> None:
        """One rank alone takes its state when it hands it over. Errors: LockstepError (this calls
        the others)."""
        for key, one in extra.items():
            with self._control.silent(
                    f"called by state_dict of extra: {key}, expected a state_dict that calls no "
                    "other rank. Keep tensors that are spread over ranks as parameters of the "
                    "model with requires_grad=False: a replacement gets these with its shard"):
                if callable(getattr(one, "state_dict", None)):  # else the base names it
                    one.state_dict()

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Put it around a step. It catches exceptions after a loss; then the batch comes again."""
        try:
            yield
        except Exception as error:
            if self._ending.is_over:
                raise
            loss = self._control.await_loss() if not isinstance(error, MeetAgain) else error
            if not isinstance(loss, MeetAgain):
                raise
            if self._is_open:
                self._forget(loss)
            else:  # the step has had its vote, and what came of it stays
                self._note_loss(loss)

    def step(
        self,
        loss: Union[torch.Tensor, float, None] = None,
        before_update: Optional[Callable[[], object]] = None,
    ) -> bool:
        """Like `lockstep.torch.Job.step`, but the model has already summed the gradients;
        DistributedDataParallel averages over the ranks. `before_update` may make collective
        calls."""
        if self._lost is not None and not self._is_open:
            return False  # `attempt` has ended the step
        if self._control.lost is not None and self._is_open:
            loss = None  # whatever it is
        return super().step(loss, before_update)

    def _take_step(
        self, share: StepShare, before_update: Optional[Callable[[], object]]
    ) -> bool:
        try:
            self._prepare(before_update)
            self._check_standing()
        except MeetAgain as lost:
            self._forget(lost)
            return False
        self._control.raises = True
        voted = Voted(self._step, self._holdings) if self._rolls_forward else None
        is_taken = super()._take_step(share, None)
        if not is_taken:
            scaled = self._forget_scaled()
            if voted is not None:
                voted.scaled = scaled
            self._voted = voted
        return is_taken

    def _prepare(self, before_update: Optional[Callable[[], object]]) -> None:
        """All that calls other ranks comes before the vote. Errors: MeetAgain."""
        scaler = self._holdings.scaler
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        if before_update is not None:
            before_update()
        self._adapter.settle()
        synchronize()
        if scaler is not None:
            self._reducer.found_inf = any(
                bool(one.item()) for one in _found_infs(scaler, self.optimizer))

    def _check_standing(self) -> None:
        """A call may fail where no rank is lost, and the program may catch what it raises: what it
        was to give is missing, so that no rank may take the step. Errors: MeetAgain."""
        if self._control.lost is None:
            failure = self._control.failure()
            if failure is None:
                return
            self.session.abort(failure)
            raise MeetAgain(failure, Status.ABORTED)
        raise self._control.lost

    def _update(self, before_update: Optional[Callable[[], object]]) -> None:
        scaler = self._holdings.scaler
        if scaler is None:
            self.optimizer.step()
            return
        if self._reducer.found_inf:  # on any rank: all skip the step
            for one in _found_infs(scaler, self.optimizer):
                one.fill_(1.0)
        scaler.step(self.optimizer)
        scaler.update()

    def _forget(self, lost: MeetAgain) -> None:
        """The step in progress: as where its vote was lost."""
        self._note_loss(lost)
        self._voted = None
        self._is_open = False
        self._reducer.forget_step()
        self._forget_scaled()
        self.optimizer.zero_grad(set_to_none=True)

    def _forget_scaled(self) -> Any:
        """Takes from the GradScaler what it knows of a step: it would not unscale it again."""
        scaler = self._holdings.scaler
        return None if scaler is None else scaler._per_optimizer_states.pop(
            id(self.optimizer), None)

    def _note_loss(self, lost: MeetAgain) -> None:
        """Ranks meet before the next batch."""
        self._control.raises = True
        self._owes_turn = True
        self._lost = lost

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """As that of the base."""
        for batch in super().batches(loader):
            self._control.raises = self._raises
            yield batch

    def _end_early(self) -> None:
        self._has_left_loop = True
        self._control.session.has_left_loop = not self.sampler.is_done
        super()._end_early()

    def _recover(self, lost: MeetAgain) -> None:
        """Before ranks compare what they come with, the model is as between two steps: calls of the
        meeting that is over end, and nobody asks what they came to."""
        self._control.leave()
        self._adapter.forget_step()
        super()._recover(lost)

    def _meet(self) -> None:
        while True:
            super()._meet()
            try:
                self._control.form()
                self.optimizer.zero_grad(set_to_none=True)  # which may be views of what goes
                self._adapter.renew()
                return
            except MeetAgain as lost:
                if lost.status == Status.TIMEOUT:
                    raise
                self._watch.count_fruitless(lost)

    @property
    def _shards(self) -> ShardHoldings:
        """Precondition: the model is of fully_shard."""
        assert isinstance(self._holdings, ShardHoldings)
        return self._holdings

    def _save_if_due(self) -> None:
        super()._save_if_due()
        self._copy_if_due()

    def _copy_if_due(self) -> None:
        """After a step, and once more in a meeting that has come to this step: a copy may have been
        lost, or not have come to its end. Collective. Errors: MeetAgain."""
        if self._copies is None or not self._copies.is_due(self._step) or self.sampler.is_done:
            return
        state = {**self._common(), "shard": self._shards.shard()}
        self._copies.take(self.session, self._step, state, self._options.long_seconds())

    def _terms(self) -> dict[str, str]:
        every = "none" if self._copies is None else str(self._copies.every)
        return {**super()._terms(), "copy_every:": every}

    def _take_over(self) -> None:
        """Shards come from the ranks that hold the same; what all have, from the source."""
        members, source = self.meeting.members, self.meeting.state_source
        if not isinstance(self._adapter, Sharded):
            super()._take_over()
            return
        timeout = self._options.long_seconds()
        if source is None:  # ranks begin with what the program has made of one seed
            check_equal(self.session, self._shards.extra_hashes(), timeout,
                        "extra must hold the same on all ranks, as a replacement gets it from any "
                        "of them; keep what is of a shard as parameters of the model")
            return
        lost = [one.rank for one in members if not one.has_state]
        if lost and self._copies is not None:
            self._go_back(lost, self._copies)
        else:
            step = members[source].step
            if self._has_state and self._step < step:
                self._roll_forward(step)
            for rank, donor in self._adapter.donors(members, step).items():
                self._hand_shard(rank, donor, self._shards.shard)
        self._voted = None
        if lost or any(one.step != self._step for one in members):
            common = broadcast_state(self.session, self._common(), source, timeout)
            if self.rank != source:
                self._load_common(common)
        self._copy_if_due()

    def _go_back(self, lost: list[int], copies: Copies) -> None:
        """To the newest copies that count, of which those of the ranks that are `lost` come from
        other pods. Collective. Errors: ShardLost, on all ranks; MeetAgain."""
        step = copies.agree(self.session, self.meeting.members, self._has_left_loop,
                            self._options.long_seconds())
        if self._has_state:
            print(f"lockstep: going back from step {self._step} to the copy of step {step}",
                  flush=True)
            own = copies.own(step)
            self._shards.load_shard(own["shard"])
            self._load_common(own)
        for rank in lost:
            self._hand_shard(rank, copies.holder(rank), lambda: copies.held(step))

    def _hand_shard(self, rank: int, donor: int, shard: Callable[[], dict[str, Any]]) -> None:
        """That of `rank`, which `donor` has. Collective. Errors: MeetAgain."""
        found = broadcast_state(
            self.session, shard() if self.rank == donor else None, donor,
            self._options.long_seconds(), is_kept=self.rank == rank)
        if self.rank == rank:
            self._shards.load_shard(found)

    def _common(self) -> dict[str, Any]:
        """What all ranks hold alike."""
        return {"step": self._step, "sampler": self.sampler.state_dict(), **self._shards.common()}

    def _load_common(self, state: dict[str, Any]) -> None:
        self._shards.load_common(state)
        self.sampler.load_state_dict(state["sampler"])
        self._step = state["step"]

    def _roll_forward(self, step: int) -> None:
        """Takes the step that others have taken: all have voted for it, this rank among them, and
        only the outcome was lost on the way. Errors: LockstepError (it has not)."""
        if self._voted is None or self._voted.step != self._step or step != self._step + 1:
            raise LockstepError(
                f"this rank is at step {self._step} and another at step {step}, to which this rank "
                "has not agreed: this is a bug in Lockstep, please report it", Status.INTERNAL)
        self._voted.put_back()
        if self._holdings.scaler is not None:
            self._holdings.scaler._per_optimizer_states[id(self.optimizer)] = self._voted.scaled
        self._update(None)
        self.optimizer.zero_grad(set_to_none=True)
        self._step = step


class Voted:
    """What a step has come to before its vote: it is taken later, where others know the outcome."""

    def __init__(self, step: int, holdings: Holdings) -> None:
        self.step = step
        self.scaled: Any = None  # what the GradScaler knows of it
        self._parameters = list(holdings.parameters().values())
        self._gradients = [one.grad for one in self._parameters]
        self._buffers = [(one, one.detach().clone()) for each in holdings.buffers()
                         for one in each.values()]

    def put_back(self) -> None:
        """As if it were just before the update."""
        for parameter, gradient in zip(self._parameters, self._gradients):
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, kept in self._buffers:
                buffer.copy_(kept)


def _found_infs(scaler: Any, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """What a GradScaler has found in the gradients, one for each device."""
    return list(scaler._found_inf_per_device(optimizer).values())
