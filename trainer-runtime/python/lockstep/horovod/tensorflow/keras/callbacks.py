"""Horovod's callbacks for tf.keras."""

from __future__ import annotations

from typing import Any

from lockstep.horovod import callbacks as own
from lockstep.horovod.tensorflow.graph import tf

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

keras: Any = tf.keras

BroadcastGlobalVariablesCallback = own.of_keras(own.BroadcastGlobalVariables, keras)
MetricAverageCallback = own.of_keras(own.MetricAverage, keras)
LearningRateScheduleCallback = own.of_keras(own.LearningRateSchedule, keras)
LearningRateWarmupCallback = own.of_keras(own.LearningRateWarmup, keras)
