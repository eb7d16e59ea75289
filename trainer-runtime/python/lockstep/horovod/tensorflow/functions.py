"""Copies variables from one rank to all others."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from lockstep.horovod import host
from lockstep.horovod.arguments import ProcessSet, check_process_set, check_root
from lockstep.horovod.refusals import no_global_variables
from lockstep.horovod.tensorflow.graph import as_is, check_elements, on_host, tf, with_shape
from lockstep.horovod.variables import broadcast_now


@as_is
def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: Optional[ProcessSet] = None,
    inplace: bool = False,
) -> None:
    """Copies `variables` from rank `root_rank` to all ranks, in place and in one call. It also
    works within a `tf.function`. `inplace` has no effect. Errors: InvalidArgument, those of
    `World`."""
    targets = list(variables)
    for one in targets:
        check_elements("broadcast_variables", one.dtype, None)
    if tf.executing_eagerly():
        broadcast_now(targets, root_rank, process_set)
        return
    check_process_set(process_set)
    check_root(root_rank, "broadcast_variables")
    given = [tf.convert_to_tensor(one) for one in targets]
    made = on_host(
        lambda *arrays: host.broadcast(arrays, root_rank, "variables"), given,
        [one.dtype for one in given])
    for target, one, like in zip(targets, made, given):
        target.assign(with_shape(one, like.shape))


def broadcast_global_variables(root_rank: int) -> None:
    """Raises an error, as Horovod does in TensorFlow 2. Errors: InvalidArgument."""
    no_global_variables(
        "call broadcast_variables(model.variables, root_rank), and the same for the variables of "
        "the optimizer")
