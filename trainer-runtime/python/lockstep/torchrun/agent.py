"""torchrun's agent for jobs whose torchruns meet by `lockstep`.

torch asks a rendezvous handler for news only while all workers of a pod run well. But workers whose
peers are lost may end with errors before the loss is known, and torchrun would count a restart or
give up. And workers that have done their work may be needed again, as long as others have not. So
this agent decides what an end of workers means.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import torch
import torch.distributed.elastic.agent.server.api
import torch.distributed.elastic.agent.server.local_elastic_agent
import torch.distributed.elastic.multiprocessing.api
import torch.distributed.launcher.api

from lockstep.errors import InvalidArgument
from lockstep.torchrun.rendezvous import Rendezvous, processes_per_pod

_server: Any = torch.distributed.elastic.agent.server.api
_local: Any = torch.distributed.elastic.agent.server.local_elastic_agent
_workers: Any = torch.distributed.elastic.multiprocessing.api
_launcher: Any = torch.distributed.launcher.api

# Signals that workers do not die of because others were lost.
_OWN_SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

# Of an exit code that tells of a signal. Source: POSIX shells.
_SIGNAL_BASE = 128

# From the silence of a rank until all others know of it, on a busy machine. Choice: as
# common/process/silence.h has it, and the other torchrun may begin to end only then.
_NOTICE_SECONDS = 1.5
_SILENT_VARIABLE = "LOCKSTEP_SILENT_AFTER_MS"
_SILENT_MS = 1500.0

# What of torch's own agent is replaced here. Source: releases 1.13 to 2.15.
_REPLACED = ("_monitor_workers", "_assign_worker_ranks", "_exit_barrier")


class Agent(_local.LocalElasticAgent):  # type: ignore[misc]
    """As torch's, but for what is said above."""

    def __init__(self, spec: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(spec, *arguments, **options)
        self._rendezvous_handler: Rendezvous = spec.rdzv_handler
        self._rendezvous_handler.open(
            f"torchrun --nproc-per-node={spec.local_world_size} --role={spec.role}")

    def run(self, *arguments: Any, **options: Any) -> Any:
        """Ends as a program does that the signal kills: torchrun's own code would be 1, an error's.
        """
        try:
            return super().run(*arguments, **options)
        except _workers.SignalException as end:
            raise SystemExit(_SIGNAL_BASE + int(end.sigval)) from None

    def _monitor_workers(self, worker_group: Any) -> Any:
        handler = self._rendezvous_handler
        if self._remaining_restarts == 0 and self._has_own_end():
            handler.shutdown()  # before torch stops the others, which may take half a minute
        result = super()._monitor_workers(worker_group)
        if result.state == _server.WorkerState.SUCCEEDED:
            return result if handler.finish() else self._go_on()
        if not result.is_failed():
            return result
        if handler.await_loss(self._patience(result)):
            return self._go_on()
        if self._remaining_restarts == 0:
            handler.shutdown()  # so that the others need not wait until this process has ended
        return result

    def _has_own_end(self) -> bool:
        """Whether a worker has ended so that no other pod is to blame. Leaves its end to torch."""
        for pid in self._pcontext.pids().values():
            with contextlib.suppress(ChildProcessError):  # torch has seen its end
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                is_exit = ended is not None and ended.si_code == os.CLD_EXITED
                if ended and _is_own(ended.si_status if is_exit else -ended.si_status):
                    return True
        return False

    def _go_on(self) -> Any:
        """Then torch asks the rendezvous whether to start the workers again, and does not count
        it."""
        return _server.RunResult(state=_server.WorkerState.HEALTHY)

    def _patience(self, result: Any) -> float:
        """For how long a failure may turn out to be that of workers of another pod."""
        if any(_is_own(one.exitcode) for one in result.failures.values()):
            return 0.0
        silent_ms = float(os.environ.get(_SILENT_VARIABLE) or _SILENT_MS)
        return silent_ms / 1000 + float(self._worker_group.spec.monitor_interval) + _NOTICE_SECONDS

    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: Any
    ) -> Any:
        """In the order of pods, as the session has seen that all start the same. torch asks the
        others, and would wait in vain for one that is lost meanwhile."""
        count = spec.local_world_size
        return [
            _server.Worker(
                local_rank=local,
                global_rank=group_rank * count + local,
                role_rank=group_rank * count + local,
                world_size=group_world_size * count,
                role_world_size=group_world_size * count)
            for local in range(count)]

    def _exit_barrier(self) -> None:
        """All have finished, or this process has left."""

    @staticmethod
    def _set_master_addr_port(*arguments: Any) -> None:
        """In torch before 2.4: Rendezvous has told it."""


def _is_own(exitcode: int) -> bool:
    """Whether a worker that ends so (the negative number of a signal, as torch has it) says so of
    itself: workers that have lost their peers end with 1, by an exception, or abort."""
    return exitcode > 1 or -exitcode in _OWN_SIGNALS


def create_handler(parameters: Any) -> Rendezvous:
    """The handler of this process's torchrun. Errors: InvalidArgument (the job cannot be started
    so, or this torch is not known)."""
    _check_size(parameters)
    missing = [name for name in _REPLACED if not hasattr(_local.LocalElasticAgent, name)]
    if missing or not hasattr(_launcher, "LocalElasticAgent"):
        raise InvalidArgument(
            f"torchrun's rendezvous 'lockstep' does not support torch {torch.__version__}: "
            f"{', '.join(missing) or 'its launcher'} is not as in torch 1.13 to 2.15")
    _launcher.LocalElasticAgent = Agent
    return Rendezvous(parameters.run_id)


def _check_size(parameters: Any) -> None:
    pods = int(os.environ.get("LOCKSTEP_WORLD_SIZE", "1")) // processes_per_pod()
    if (parameters.min_nodes, parameters.max_nodes) != (pods, pods):
        found = f"{parameters.min_nodes}:{parameters.max_nodes}"
        raise InvalidArgument(
            f"--nnodes={found} found, expected {pods}: with the rendezvous 'lockstep' a job never "
            "trains with only some of its pods; remove --nnodes and PET_NNODES")
