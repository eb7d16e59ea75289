"""Horovod's names for tf.keras on the collectives of this package: where a program for Horovod 0.28
says `import horovod.tensorflow.keras as hvd`, it says
`import lockstep.horovod.tensorflow.keras as hvd`.

What Horovod has and this has not is refused by name. docs/reference/horovod.md tells more.
"""

from typing import Any as _Any

from lockstep.horovod.tensorflow.keras import callbacks as callbacks
from lockstep.horovod.tensorflow.keras import elastic as elastic
from lockstep.horovod.tensorflow import keras_values as _values
from lockstep.horovod.tensorflow.keras_values import *  # noqa: F403

load_model = _values.load_model_by(callbacks.keras)


def __getattr__(name: str) -> _Any:
    return _values.missing_name(__name__, name)
