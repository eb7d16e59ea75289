"""What elastic programs hold in the package keras, and the callbacks that commit it."""

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
