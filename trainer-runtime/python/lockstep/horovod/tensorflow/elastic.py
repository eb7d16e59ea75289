"""States of elastic programs for TensorFlow."""

from lockstep.horovod.elastic import ObjectState, State, run
from lockstep.horovod.variables import TensorFlowKerasState, TensorFlowState

__all__ = ["ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run"]
