"""Horovod's API for the package keras with TensorFlow, on the collectives of this package. In a
program for Horovod 0.28, replace `import horovod.keras as hvd` by
`import lockstep.horovod.keras as hvd`.

Names of Horovod that are missing here raise an error with the name. See docs/reference/horovod.md.
"""

from typing import Any as _Any

from lockstep.horovod.keras import callbacks as callbacks
from lockstep.horovod.keras import elastic as elastic
from lockstep.horovod.tensorflow import keras_values as _values
from lockstep.horovod.tensorflow.keras_values import *  # noqa: F403

load_model = _values.load_model_by(callbacks.keras)


def __getattr__(name: str) -> _Any:
    return _values.missing_name(__name__, name)
