"""States of elastic programs for the package keras, and callbacks that commit them."""

from __future__ import annotations

from lockstep.horovod import callbacks as own
from lockstep.horovod.elastic import run
from lockstep.horovod.keras.callbacks import keras
from lockstep.horovod.variables import TensorFlowKerasState

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]

KerasState = TensorFlowKerasState

CommitStateCallback = own.of_keras(own.CommitState, keras)
UpdateBatchStateCallback = own.of_keras(own.UpdateBatchState, keras)
UpdateEpochStateCallback = own.of_keras(own.UpdateEpochState, keras)
