"""What keeps a job from going on over damage: weights that ranks do not share, or that are lost."""

from __future__ import annotations

import math
import sys
from typing import Optional

from lockstep.errors import Diverged, InvalidArgument, MeetAgain
from lockstep.torch.agreement import are_equal, check_equal
from lockstep.torch.gradients import StepSum
from lockstep.torch.holdings import Holdings
from lockstep.torch.options import JobOptions
from lockstep.torch.session import Session

# Choice: weights that are changed by more than `step`, as a program may that clips them, are
# compared now and then, as that reads all of them.
_COMPARED_EVERY = 50

# Choice, as in trainer-runtime/session/recovery_loop.cc: meetings in a row that led to no step
# before this process gives up.
_FRUITLESS_MEETINGS_MAX = 20

_DIVERGED = (": the model has diverged; a smaller learning rate may help; to continue training "
             "anyway, set JobOptions(terminate_on_nan=False)")


class Watch:
    """Ends a job on all ranks alike. Thread: one."""

    def __init__(self, holdings: Holdings, session: Session, options: JobOptions) -> None:
        self._holdings = holdings
        self._session = session
        self._options = options
        self._compared_at = 0
        self._compared_step = -1
        self._has_looked_for_scalers = False
        self._fruitless_meetings = 0  # since the newest step
        self._is_finite = True  # the last loss

    def note_meeting(self) -> None:
        """Newcomers know of no earlier comparison."""
        self._compared_at = -_COMPARED_EVERY
        self._compared_step = -1

    def count_fruitless(self, lost: MeetAgain) -> None:
        """Before a meeting that `lost` leads to. Errors: MeetAgain (too many led to no step)."""
        self._fruitless_meetings += 1
        if self._fruitless_meetings >= _FRUITLESS_MEETINGS_MAX:
            raise MeetAgain(
                f"no step was completed after {self._fruitless_meetings} rendezvous in a row: "
                f"{lost}",
                lost.status) from lost

    def note_loss(self, step: int, loss: Optional[float]) -> None:
        """Of `step`, which is applied."""
        self._fruitless_meetings = 0
        is_finite = loss is None or math.isfinite(loss)
        if self._is_finite and not is_finite and self._session.rank == 0:
            print(f"lockstep: the loss of step {step} is {loss}: the weights may be lost; "
                  "the newest checkpoint with finite weights is kept", file=sys.stderr, flush=True)
        self._is_finite = is_finite

    def tell_of_loss(self, step: int) -> None:
        """Where the program did not catch the MeetAgain of a call of its own."""
        options = self._options
        if options.program_saves:
            print(f"lockstep: a rank was lost after step {step}, during a call outside of a "
                  "training step, for example in an evaluation: the gang restarts from the "
                  "program's newest checkpoint", file=sys.stderr, flush=True)
            return
        lost = "the steps since the newest checkpoint are lost"
        if options.checkpoint_every == 0 or options.checkpoint_folder() is None:
            missing = ("checkpoint_directory is not set" if options.checkpoint_every else
                       "JobOptions.checkpoint_every is 0")
            lost = (f"all steps of this run are lost, because {missing} and no checkpoint was "
                    "written")
        print(f"lockstep: a rank was lost after step {step} during a call of job.session, and the "
              f"program did not catch lockstep.MeetAgain: {lost}. To keep the steps, catch "
              "lockstep.MeetAgain around the call and take the next batch", file=sys.stderr,
              flush=True)

    def check_scalers(self) -> None:
        """Before the first step. Errors: InvalidArgument (a GradScaler is in use, and the job was
        made without it)."""
        if self._has_looked_for_scalers:
            return
        self._has_looked_for_scalers = True
        if self._holdings.has_unknown_scaler():
            raise InvalidArgument(
                "step: a GradScaler has scaled the loss, but Job does not know it, so the update "
                "would use scaled gradients: pass the scaler as Job(scaler=...)")

    def check_sums(self, step: int, total: StepSum) -> None:
        """Of `step`, which is not applied yet. Errors: Diverged."""
        if not self._options.terminate_on_nan:
            return
        scaler = self._holdings.scaler
        if scaler is not None and scaler.is_enabled() and not total.is_finite:
            if scaler.get_scale() <= 1:  # it skips the step, and halves the scale
                raise Diverged(f"the gradients of step {step} are not finite, even at loss scale "
                               f"{scaler.get_scale():g}{_DIVERGED}")
        elif total.loss is not None and not math.isfinite(total.loss):
            word = "NaN" if math.isnan(total.loss) else "inf"
            raise Diverged(f"the loss of step {step} is {word}{_DIVERGED}")
        elif not total.is_finite:
            raise Diverged(f"the gradients of step {step} are not finite{_DIVERGED}")

    def check_state(self, step: int) -> None:
        """An update of finite gradients may still overflow, and buffers and the optimizer's state
        are not of gradients alone; neither is ever saved. Errors: Diverged."""
        name = self._holdings.first_not_finite() if self._options.terminate_on_nan else None
        if name is not None:
            raise Diverged(f"after step {step} {name} is not finite{_DIVERGED}")

    def check_before_save(self, step: int) -> None:
        """What is saved is equal on all ranks, and finite. Collective. Errors: those of `compare`
        and `check_state`, on all ranks alike."""
        self.compare(step)
        self.check_state(step)

    def compare_now_and_then(self, step: int, changed_count: int) -> None:
        """Compares what ranks hold each `compare_every` steps; sooner where something else than
        `step` has changed weights on `changed_count` ranks, as a program may do on all alike.
        Collective. Errors: those of `compare`."""
        every = self._options.compare_every
        is_due = every > 0 and step > 0 and step % every == 0 and step != self._compared_step
        is_changed = changed_count > 0 and step >= self._compared_at + _COMPARED_EVERY
        if is_changed:
            self._compared_at = step
        if is_due or is_changed:
            self.compare(step)

    def compare(self, step: int) -> None:
        """Collective. Errors: Mismatch (ranks hold other values; names the first), MeetAgain."""
        timeout = self._options.call_seconds
        if not are_equal(self._session, self._holdings.digest(), timeout):
            check_equal(self._session, self._holdings.hashes(), timeout,
                        _rule(step, "all ranks have"))
        self._compared_step = step

    def compare_survivors(self) -> None:
        """In a meeting, before one rank's state becomes that of others: weights, buffers and the
        optimizer's tensors of all ranks that are equally far. What the program itself keeps, as
        schedulers, it may have changed on some ranks alone when the loss was noticed. Collective.
        Errors: those of `compare`."""
        members, source = self._session.meeting.members, self._session.meeting.state_source
        if source is None:
            return
        step = members[source].step
        ranks = [rank for rank, one in enumerate(members) if one.has_state and one.step == step]
        if len(ranks) > 1:
            own = self._holdings.trained_hashes() if self._session.rank in ranks else {}
            check_equal(self._session, own, self._options.call_seconds,
                        _rule(step, "ranks that were not lost have"), ranks)


def _rule(step: int, who: str) -> str:
    return (f"after step {step} {who} to hold the same values, bit for bit. Only job.step may "
            "change these values, or the program in the same way on all ranks. A common cause is "
            "an additional call of optimizer.step")
