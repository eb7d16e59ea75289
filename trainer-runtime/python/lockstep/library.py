"""The functions and structs of liblockstep.so.1, as lockstep.h declares them."""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p

# An environment that names another library, for tests and for packagers.
LIBRARY_VARIABLE = "LOCKSTEP_LIBRARY"
_FILE = "liblockstep.so.1"


class DataType(enum.IntEnum):
    """The type of elements: lockstep_type."""

    UINT8 = 0
    INT32 = 1
    INT64 = 2
    FLOAT32 = 3
    FLOAT64 = 4
    FLOAT16 = 5
    BFLOAT16 = 6


# LOCKSTEP_TYPE_WITH: what a collective's type grows by for a word of 1, and the largest word.
TYPE_WORD_ONE = 256
TYPE_WORD_MAX = 0x7FFFFF


class Op(enum.IntEnum):
    """The operation of a reduction: lockstep_op. Sums of integers wrap around; MEAN needs
    floats."""

    SUM = 0
    MIN = 1
    MAX = 2
    MEAN = 3


class Phase(enum.IntEnum):
    """What a process is doing, for the job's status: lockstep_phase."""

    KEEP = 0
    RESTORING = 1
    TRAINING = 2
    CHECKPOINTING = 3
    EVALUATING = 4
    STOPPING = 5


class Options(ctypes.Structure):
    """lockstep_options."""

    _fields_ = [
        ("struct_size", c_uint64),
        ("plan", c_char_p),
        ("catch_stop", c_int32),
        ("report_only", c_int32),
        ("one_per_pod", c_int32),
        ("reserved", c_int32),
    ]


class MeetingOut(ctypes.Structure):
    """lockstep_meeting."""

    _fields_ = [
        ("struct_size", c_uint64),
        ("epoch", c_int64),
        ("rank", c_int32),
        ("size", c_int32),
        ("state_source", c_int32),
        ("reserved", c_int32),
    ]


class MemberOut(ctypes.Structure):
    """lockstep_member."""

    _fields_ = [
        ("struct_size", c_uint64),
        ("step", c_int64),
        ("incarnation", c_int64),
        ("rank", c_int32),
        ("has_state", c_int32),
        ("host", ctypes.c_char * 64),
    ]


class Leave(enum.IntEnum):
    """How a rank that was asked to stop should leave: lockstep_leave, and 0."""

    NOT = 0
    TOGETHER = 1  # after the same step as all others
    ALONE = 2  # the others continue with its replacement


class ProgressIn(ctypes.Structure):
    """lockstep_progress."""

    _fields_ = [
        ("struct_size", c_uint64),
        ("step", c_int64),
        ("steps_total", c_int64),
        ("data_epoch", c_int64),
        ("sample_count", c_int64),
        ("loss", c_double),
        ("accuracy", c_double),
        ("samples_per_second", c_double),
        ("phase", c_int32),
        ("reserved", c_int32),
    ]


REPORT = ctypes.CFUNCTYPE(None, c_char_p)  # hears sentences of a store of checkpoints


class TensorIO(ctypes.Structure):
    """lockstep_tensor."""

    _fields_ = [
        ("name", c_char_p),
        ("type", c_char_p),
        ("shape", POINTER(c_int64)),
        ("dimensions", c_uint64),
        ("data", c_void_p),
        ("bytes", c_uint64),
    ]


class CheckpointIO(ctypes.Structure):
    """lockstep_checkpoint."""

    _fields_ = [
        ("struct_size", c_uint64),
        ("step", c_int64),
        ("data_epoch", c_int64),
        ("position", c_int64),
        ("samples_consumed", c_int64),
        ("seed", c_int64),
        ("world_size", c_int32),
        ("is_finite", c_int32),
        ("settings", c_char_p),
        ("description", c_char_p),
        ("tensors", POINTER(TensorIO)),
        ("tensor_count", c_uint64),
        ("folder", c_char_p),
    ]


# Arguments by function. All return a lockstep_status, but those of _OTHER_RESULTS.
_MEMORY = [c_void_p, c_void_p, c_uint64, c_int]  # session, data, count, type
_WRITER = [c_char_p, c_int64, c_int64, c_int64]  # job_uid, attempt, epoch, incarnation
_PROTOTYPES: dict[str, list[type]] = {
    "lockstep_version": [],
    "lockstep_last_error": [],
    "lockstep_open": [POINTER(Options), POINTER(c_void_p)],
    "lockstep_meet": [c_void_p, c_int, c_int64, c_double, POINTER(MeetingOut)],
    "lockstep_get_member": [c_void_p, c_int, POINTER(MemberOut)],
    "lockstep_all_reduce": [*_MEMORY, c_int, c_double],
    "lockstep_all_reduce_begin": [*_MEMORY, c_int, c_double, POINTER(c_uint64)],
    "lockstep_wait": [c_void_p, c_uint64],
    "lockstep_has_ended": [c_void_p, c_uint64, POINTER(c_int)],
    "lockstep_reduce_scatter": [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int, c_double],
    "lockstep_all_gather": [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_double],
    "lockstep_broadcast": [*_MEMORY, c_int, c_double],
    "lockstep_barrier": [c_void_p, c_double],
    "lockstep_should_stop": [c_void_p, POINTER(c_int), c_double],
    "lockstep_should_save": [c_void_p, POINTER(c_int)],
    "lockstep_stop_requested": [c_void_p],
    "lockstep_abort": [c_void_p, c_char_p],
    "lockstep_await_loss": [c_void_p, c_int64, c_double],
    "lockstep_report": [c_void_p, POINTER(ProgressIn)],
    "lockstep_report_mismatch": [c_void_p, c_char_p],
    "lockstep_finish": [c_void_p, c_double],
    "lockstep_close": [c_void_p],
    "lockstep_last_system_error": [],
    "lockstep_checkpoint_open_store": [c_char_p, c_char_p, c_int, REPORT, POINTER(c_void_p)],
    "lockstep_checkpoint_close_store": [c_void_p],
    "lockstep_checkpoint_make_directory": [c_void_p],
    "lockstep_checkpoint_claim": [c_void_p, *_WRITER],
    "lockstep_checkpoint_write": [c_void_p, POINTER(CheckpointIO)],
    "lockstep_checkpoint_verify": [c_void_p, c_int64, *_WRITER, POINTER(c_int)],
    "lockstep_checkpoint_open": [c_void_p, c_int64, POINTER(POINTER(CheckpointIO))],
    "lockstep_checkpoint_close": [POINTER(CheckpointIO)],
}
_OTHER_RESULTS: dict[str, type] = {"lockstep_version": c_char_p, "lockstep_last_error": c_char_p}


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """Loads the library: from LOCKSTEP_LIBRARY, else from this package, else from the system.

    Errors: OSError (the library is missing, or needs a newer glibc; says which places were tried).
    Thread: any; calls release the GIL.
    """
    own = pathlib.Path(__file__).with_name(_FILE)
    named = os.environ.get(LIBRARY_VARIABLE)
    name = named or (str(own) if own.exists() else _FILE)
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        variable = f"{LIBRARY_VARIABLE}={named}" if named else f"{LIBRARY_VARIABLE} is not set"
        places = f"in {own.parent} and by the system's loader"
        raise OSError(f"Lockstep's library: {error}; {variable}"
                      + ("" if named or own.exists() else f"; looked for {places}")) from None
    for function, arguments in _PROTOTYPES.items():
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise OSError(f"Lockstep's library: {name} has no {function}: the library and this "
                          "package come from different releases") from None
        entry.argtypes = arguments
        entry.restype = _OTHER_RESULTS.get(function, c_int)
    return library


def version() -> str:
    """The library's version."""
    text: bytes = load().lockstep_version()
    return text.decode()
