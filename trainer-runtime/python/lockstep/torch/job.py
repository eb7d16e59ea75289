"""A training loop that continues after the loss of a process."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import time
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar, Union

import torch

from lockstep import exits
from lockstep.errors import (
    Finished, InvalidArgument, LockstepError, MeetAgain, Status, Stopped, code_of, watch_end)
from lockstep.library import Leave, Phase
from lockstep.session import Meeting, Progress
from lockstep.torch.agreement import check_agreement
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import Manifest
from lockstep.torch.ending import Ending
from lockstep.torch.feed import Drawn, Feed, check_begins_anew
from lockstep.torch.gradients import StepReducer, StepShare, loss_of
from lockstep.torch.holdings import Holdings, Stateful
from lockstep.torch.keeper import Keeper, Snapshot
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler, Totals, mix
from lockstep.torch.session import Session, open
from lockstep.torch.state import broadcast_state, flatten
from lockstep.torch.watch import Watch

Batch = TypeVar("Batch")

# All ranks say at the end of a job that no work is left: a process has one.
_has_finished = False


class Job:
    """Trains `model` on all ranks of the job together:

        job = lockstep.torch.Job(model=model, optimizer=optimizer, sampler=sampler)
        loader = DataLoader(dataset, batch_sampler=sampler)
        for inputs, labels in job.batches(loader):
            loss = loss_function(model(inputs), labels)
            loss.backward()
            job.step(loss)

    The loss is the mean over the batch's samples. After each step, the weights are equal bit by bit
    on all ranks. They equal those of one process that uses the whole global batch, except for
    rounding. Only `step` changes the state, after all sums have arrived. If a rank is lost before
    that, the others forget the step, join a rendezvous with the replacement, give it the state, and
    repeat the step. `Job` seeds torch's random numbers by the number of the step, so the repeated
    step gives the same result.

    Errors: Stopped from `batches` (end with 42, as `lockstep.run` does); NotSaved if the last
    checkpoint cannot be written; Superseded, TakenOver, Finished from the constructor and
    `batches`. Thread: one.
    """

    _holdings_type, _reducer_type, _session = Holdings, StepReducer, None  # of one on groups: own
    _first_step = 0  # of one whose program has its own checkpoints: what they have come to

    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        sampler: Sampler,
        extra: Optional[Mapping[str, Stateful]] = None,
        scaler: Any = None,
        options: JobOptions = JobOptions(),
    ) -> None:
        """Opens the session, waits for all ranks, and loads the state: from a rank that has a
        state, else from the newest checkpoint, else rank 0's initial state. `scaler`: the
        GradScaler that scales the loss, if any; `step` unscales and updates it. Collective.

        Errors: NoJob, InvalidArgument (a second Job after the first; a list of models; an optimizer
        that needs a closure), Mismatch (model, optimizer, sampler, plan or `extra` differ between
        ranks; names the difference), those of `meet`. On an error the session is closed.
        """
        if _has_finished:
            raise InvalidArgument(
                "Job: a second Job in this process found, expected one: when the first Job ended, "
                "all ranks reported that no work is left. To train longer, raise epochs of the "
                "Sampler; to train another model, use another job")
        directory = options.checkpoint_folder()
        self.model = model
        self.optimizer = optimizer
        self.sampler = sampler
        self._holdings = self._holdings_type(model, optimizer, extra, scaler)
        self._options = options
        self._reducer = self._reducer_type(self._holdings)
        self._step = self._first_step
        self._has_state = False
        self._is_finished = False
        self._lost: Optional[MeetAgain] = None  # why the step in progress was forgotten
        self._is_open = False  # a batch is out, and no step has come to an end for it
        self._drawn = Drawn([], 0)  # what the batch that is out, or was last, is made of
        self._used_count = 0  # samples that all ranks used in the newest step
        self._loss: Optional[float] = None
        self._begin = time.monotonic()
        self._owes_turn = False  # a step was taken, and what comes after it was not done
        catches_stop = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # else the program does
        # What ranks come with is compared once they have met, so that a difference has a name.
        self.session: Session = self._session or open("lockstep.torch.Job", catches_stop)
        self._ending = Ending(self.session, self._progress)
        store = CheckpointStore(directory, options.checkpoint_keep) if directory else None
        self._watch = Watch(self._holdings, self.session, options)
        self._keeper = Keeper(store, self.session, self._snapshot, self._progress)
        watch_end(lambda: self._watch.tell_of_loss(self._step))
        try:
            with self._ending.by_errors():
                self._meet()
        except BaseException:
            self.session.close()  # else its threads may outlive what they stand on
            raise
        self._forget_exit = exits.call_at_exit(self._at_exit)

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self.session.rank

    @property
    def size(self) -> int:
        """The number of ranks of the job."""
        return self.session.size

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0, which writes files for all ranks, such as checkpoints."""
        return self.rank == 0

    @property
    def step_count(self) -> int:
        """The number of updates applied to the model."""
        return self._step

    @property
    def meeting(self) -> Meeting:
        """The newest rendezvous. If its epoch has grown, a rank was lost."""
        return self.session.meeting

    @property
    def totals(self) -> Totals:
        """How many samples were used, lost and repeated, as far as the job has seen."""
        return self.sampler.totals()

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """Yields this rank's batches from the cursor to the end of the last data epoch, then ends
        the job. After each loss, `loader` is iterated again from the cursor: make it with
        `batch_sampler=job.sampler`. To transform batches, wrap this iterator, not the loader.

        Errors: Stopped, NotSaved, Diverged, Superseded, TakenOver, Finished, Mismatch;
        InvalidArgument (`loader` cannot be iterated again); LockstepError (the batches do not come
        from the sampler; the loader dropped or repeated batches; `step` was not called). If a
        program catches one of these errors and calls `batches` again, SystemExit ends the process
        with the error's exit code.
        """
        if self._is_finished:
            print("lockstep: batches was called after the last step: one loop goes over all epochs "
                  "of the sampler; to train longer, raise the epochs of the sampler",
                  file=sys.stderr, flush=True)
        self._ending.end_process()
        with self._ending.by_errors():
            check_begins_anew(loader)
            while not self._is_finished:
                yield from self._batches_of_meeting(loader)
                if self.sampler.is_done:
                    self._finish()

    def step(
        self,
        loss: Union[torch.Tensor, float, None] = None,
        before_update: Optional[Callable[[], object]] = None,
    ) -> bool:
        """Averages the gradients over all samples of the global batch, applies them, and resets
        them. It calls `before_update` before it applies them, for example to clip gradients.
        Returns False if a rank was lost: all ranks forget the step, and the same batch comes again.
        Collective.

        Errors: InvalidArgument (`loss` is not a number; a rank has no gradient; the job does not
        know the GradScaler), Diverged, Mismatch (values or trained parameters differ between ranks,
        or some ranks have left the loop), LockstepError (no batch is in progress). An error during
        the update ends the job, even if the program catches it.
        """
        self._ending.raise_anew()
        if not self._is_open:
            raise LockstepError("step: no batch is in progress; call step once for each batch")
        exits.note(0)  # what was asked for before was caught
        value = loss_of(loss)
        self._watch.check_scalers()
        share = StepShare(
            self._drawn.ids, self.sampler.global_size(), value, self._drawn.unseen_count)
        self._owes_turn = True
        with self._ending.by_errors():
            is_taken = self._take_step(share, before_update)
        self._is_open = False
        return is_taken

    def _take_step(
        self, share: StepShare, before_update: Optional[Callable[[], object]]
    ) -> bool:
        try:
            total = self._reducer.reduce(self.session, share, self._options.call_seconds)
            self._watch.compare_now_and_then(self._step, total.changed_count)
        except MeetAgain as lost:
            self._lost = lost
            self._reducer.forget_step()
            self.optimizer.zero_grad(set_to_none=True)
            return False
        try:
            self._watch.check_sums(self._step + 1, total)
            self.sampler.check(total.ids)  # what cannot be counted is not applied
        except LockstepError:
            self._reducer.forget_step()
            raise
        with self._ending.by_half_an_update():
            self._update(before_update)
            self.optimizer.zero_grad(set_to_none=True)
            self.sampler.advance(total.ids, total.unseen_count)
        self._step += 1
        self._used_count = len(total.ids)
        self._loss = total.loss
        self._watch.note_loss(self._step, total.loss)
        self._reducer.note_weights()
        return True

    def _update(self, before_update: Optional[Callable[[], object]]) -> None:
        """All ranks hold the same gradients, so that a scaler does the same on all of them."""
        scaler = self._holdings.scaler
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        if before_update is not None:
            before_update()
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()

    def close(self) -> None:
        """Saves a checkpoint if the loop was left early, waits until it is written, and leaves the
        job. If the loop was left early, all ranks have to leave it after the same step, and this
        call is collective. Errors: NotSaved, Superseded, TakenOver, Stopped, Diverged, Mismatch,
        LockstepError (other ranks continue)."""
        try:
            with self._ending.by_errors():
                self._end_early()
        finally:
            with self._ending.by_errors():
                self._leave()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        else:
            with self._ending.by_errors():
                self._leave()

    def _leave(self) -> None:
        self._forget_exit()
        self._part()

    def _part(self) -> None:
        self._ending.is_over = True
        try:
            if self._keeper.store is not None:
                self._keeper.store.flush()
        finally:
            self.session.close()

    def _at_exit(self) -> None:
        """Of a process that ends without `close`, and maybe with 0 while other ranks go on."""
        if self._ending.is_over or self._is_finished:
            return
        code = exits.code()
        try:
            with self._ending.by_errors():
                self._end_at_exit() if code == 0 else self._part()
        except LockstepError as error:
            exits.end_at_last(code or code_of(error), str(error))

    def _end_at_exit(self) -> None:
        """As `close` does, but where a rank is lost this process meets nobody again."""
        self._drop_batch()
        if self._owes_turn:
            if self._is_save_due():
                self._watch.check_before_save(self._step)
            self.session.should_stop(self._options.call_seconds)
        if not self.sampler.is_done:
            self._reducer.say_leaving(self.session, self._options.call_seconds)
        self._save_and_finish()
        self._is_finished = True

    def _drop_batch(self) -> None:
        """One that is out, for which no step comes to an end any more."""
        if self._is_open:
            self._is_open = False
            self._reducer.forget_step()  # buffers that the forward pass has changed

    def _end_early(self) -> None:
        """As of a loop that was left before its end, or that has just come to it."""
        if self._is_finished or self._ending.has_failed:
            return
        self._drop_batch()
        if self._owes_turn:
            self._between_steps()
        while not self._is_finished:
            try:
                if not self.sampler.is_done:
                    self._reducer.say_leaving(self.session, self._options.call_seconds)
            except MeetAgain as lost:
                self._recover(lost)
                continue
            self._finish()

    def _batches_of_meeting(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """Batches until the end, or until another meeting was joined."""
        epoch = self.meeting.epoch
        self.sampler.place(self.rank, self.size)
        self._seed()
        feed = Feed(loader, self.sampler)
        while not self.sampler.is_done and self.meeting.epoch == epoch:
            self._seed()
            self._reducer.begin_step()
            batch, self._drawn = feed.next(self._step + 1)
            self._is_open = True
            yield batch
            self._ending.raise_anew()
            if self._is_open:
                self._drop_batch()
                raise LockstepError(
                    "step was not called for the last batch, or the program caught its error. Call "
                    "step once at the end of each batch. To accumulate gradients, give the "
                    "sampler a larger batch_size, split each batch, and then call step once")
            self._between_steps()

    def _seed(self, *part: int) -> None:
        """`part`: the number of a part of the step, where each is seeded."""
        torch.manual_seed(mix(self.sampler.seed, self._step, self.rank, *part))

    def _between_steps(self) -> None:
        """What comes after a step: after the program's own doing, so that the state is whole."""
        self._owes_turn = False
        leave = Leave.NOT
        lost = self._lost
        if lost is None:
            self._report()
            try:
                self._save_if_due()
                leave = self.session.should_stop(self._options.call_seconds)
            except MeetAgain as error:
                lost = error
        if lost is not None:
            self._recover(lost)
            if self._is_save_due() and self._keeper.is_behind:
                self._watch.check_state(self._step)  # those that were not lost have compared it
                self._keeper.save()
        elif leave and not self.sampler.is_done:
            self._stop(leave)

    def _save_if_due(self) -> None:
        """After a step. Collective. Errors: MeetAgain, those of `check_before_save`."""
        if self._is_save_due():
            self._watch.check_before_save(self._step)
            self._keeper.save()

    def _is_save_due(self) -> bool:
        """Equal on all ranks, which compare what they hold before it."""
        every = self._options.checkpoint_every
        return every > 0 and self._step % every == 0 and not self.sampler.is_done

    def _stop(self, leave: Leave) -> None:
        """A rank that leaves alone has nobody to compare with: the others go on."""
        self._watch.check_state(self._step)
        try:
            if leave == Leave.TOGETHER:
                self._watch.compare(self._step)
        except MeetAgain as lost:
            self._keeper.stop_without(Stopped(str(lost), Status.STOPPED))
        self._keeper.stop(leave, self._options.long_seconds())

    def _finish(self) -> None:
        global _has_finished
        try:
            self._save_and_finish()
        except MeetAgain as lost:
            with contextlib.suppress(Finished):
                self._recover(lost)
                return
            # The others know already.
        self._is_finished = True
        _has_finished = True

    def _save_and_finish(self) -> None:
        self._watch.check_before_save(self._step)
        self._keeper.save_at_end(not self.sampler.is_done, self._options.long_seconds())
        self.sampler.check_end()
        self.session.finish(self._options.long_seconds())

    def _progress(self) -> Progress:
        return Progress(
            step=self._step, steps_total=self._step + len(self.sampler),
            data_epoch=self.sampler.data_epoch, loss=self._loss)

    def _report(self) -> None:
        now = time.monotonic()
        self.session.report(dataclasses.replace(
            self._progress(),
            sample_count=len(self._drawn.ids),
            samples_per_second=self._used_count / max(now - self._begin, 1e-9),
            phase=Phase.TRAINING))
        self._begin = now

    def _recover(self, lost: MeetAgain) -> None:
        print(f"lockstep: joining a new rendezvous after step {self._step}: {lost}", flush=True)
        self._lost = None
        self._watch.count_fruitless(lost)
        try:
            self._meet()
        except Stopped as stop:
            self._watch.check_state(self._step)
            self._keeper.stop_without(stop)

    def _meet(self) -> None:
        """Joins a meeting and takes over what it lacks, again where a rank is lost meanwhile."""
        while True:
            try:
                self.session.meet(self._has_state, self._step, self._options.meeting_seconds)
                check_agreement(self.session, self._terms(), self._options.call_seconds)
                self._watch.compare_survivors()
                self._keeper.claim()
                self._take_over()
                self._has_state = True
                self._reducer.note_equal()
                self._watch.note_meeting()
                self.session.report(
                    dataclasses.replace(self._progress(), phase=Phase.RESTORING))
                return
            except MeetAgain as lost:
                if lost.status == Status.TIMEOUT:
                    raise
                self._watch.count_fruitless(lost)

    def _terms(self) -> dict[str, str]:
        """What ranks have to agree on; a checkpoint may be of other batches, epochs and groups."""
        return {
            "plan:": repr(self._options.plan),
            "checkpoint_directory:": "none" if self._keeper.store is None else "some",
            **self.sampler.terms(),
            **self._holdings.terms(),
        }

    def _take_over(self) -> None:
        members = self.meeting.members
        source = self.meeting.state_source
        if source is None:
            source = 0
            restored = self._keeper.restore(self._fingerprint())
            if restored is not None:
                self._load(restored, is_of_file=True)
        elif all(one.has_state and one.step == members[source].step for one in members):
            return  # equal to the bit already
        state = self._state() if self.rank == source else None
        state = broadcast_state(self.session, state, source, self._options.long_seconds())
        if self.rank != source:
            self._load(state, is_of_file=False)

    def _state(self) -> dict[str, Any]:
        return {"step": self._step, "sampler": self.sampler.state_dict(), **self._holdings.state()}

    def _load(self, state: dict[str, Any], is_of_file: bool) -> None:
        self._holdings.load(state, is_of_file)
        self.sampler.load_state_dict(state["sampler"])
        self._step = state["step"]

    def _fingerprint(self) -> dict[str, str]:
        return self._holdings.fingerprint(self._options.plan, self.sampler)

    def _snapshot(self) -> Snapshot:
        cursor = self.sampler
        manifest = Manifest(
            step=self._step, data_epoch=cursor.data_epoch, position=cursor.position,
            samples_consumed=self.totals.consumed, seed=cursor.seed, world_size=self.size,
            fingerprint=self._fingerprint())
        return Snapshot(flatten(self._state()), manifest)
