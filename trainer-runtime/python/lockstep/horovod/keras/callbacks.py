"""Horovod's callbacks for the package keras."""

from __future__ import annotations

import importlib
from typing import Any

from lockstep.errors import InvalidArgument
from lockstep.horovod import callbacks as own

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

keras: Any = importlib.import_module("keras")
if keras.backend.backend() != "tensorflow":
    raise InvalidArgument(
        f"keras: backend {keras.backend.backend()} found, expected tensorflow (KERAS_BACKEND)")

BroadcastGlobalVariablesCallback = own.of_keras(own.BroadcastGlobalVariables, keras)
MetricAverageCallback = own.of_keras(own.MetricAverage, keras)
LearningRateScheduleCallback = own.of_keras(own.LearningRateSchedule, keras)
LearningRateWarmupCallback = own.of_keras(own.LearningRateWarmup, keras)
