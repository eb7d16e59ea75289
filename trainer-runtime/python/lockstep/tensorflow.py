"""Gets the current TF_CONFIG from the lockstep-runtime that started this process.

The environment variable TF_CONFIG has the value from the process's start, and has no room for a
cluster of thousands. This module neither imports nor needs TensorFlow.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any, Optional

from lockstep.errors import InvalidArgument, LockstepError, NoJob, Status

__all__ = ["Task", "TfConfig", "tf_config"]

_VARIABLE = "LOCKSTEP_TF_CONFIG_URL"
# A cluster of the most ranks that a job may have, with the longest names, has a tenth of it.
_BYTES_MAX = 64 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Task:
    """The task that a process runs."""

    type: str
    index: int


@dataclasses.dataclass(frozen=True)
class TfConfig:
    """The tasks of the cluster, and which of them this process runs.

    `cluster`: for each type of task, the addresses "host:port" by index; empty if the job has only
    one process. `attempt`, `epoch`: numbers that grow each time the gang starts again.
    """

    cluster: Mapping[str, tuple[str, ...]]
    task: Task
    attempt: int
    epoch: int

    def text(self) -> str:
        """The text that TensorFlow reads from the variable TF_CONFIG."""
        return json.dumps({
            "cluster": {kind: list(addresses) for kind, addresses in self.cluster.items()},
            "task": dataclasses.asdict(self.task)})


def tf_config(timeout: float = 5.0) -> TfConfig:
    """Returns the current TF_CONFIG of this process. `timeout`: seconds for the connection, and for
    each part of the answer.

    Errors: NoJob (lockstep-runtime did not start this process, or does not serve TF_CONFIG),
    InvalidArgument (LOCKSTEP_TF_CONFIG_URL or `timeout` is wrong), LockstepError (SYSTEM: the
    runtime does not answer; INTERNAL: the answer is not TF_CONFIG). Thread: any.
    """
    if not timeout > 0:
        raise InvalidArgument(f"timeout: {timeout!r} found, expected a number of seconds above 0")
    url = os.environ.get(_VARIABLE, "")
    if not url:
        raise NoJob(f"{_VARIABLE} is not set: lockstep-runtime did not start this process, or "
                    "could not serve TF_CONFIG; the pod's log says why", Status.NO_JOB)
    return _parse(url, _get(url, timeout))


def _get(url: str, timeout: float) -> bytes:
    """The body of the answer. Proxies of the environment are for the world outside."""
    host, port, path = _split(url)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise LockstepError(
            f"{url} does not answer: {str(error) or type(error).__name__}; lockstep-runtime "
            "serves this address as long as the pod runs", Status.SYSTEM) from error
    finally:
        connection.close()
    if response.status != 200:
        raise LockstepError(
            f"{url} answers {response.status} {response.reason}, expected 200", Status.INTERNAL)
    if len(body) > _BYTES_MAX:
        raise LockstepError(
            f"{url} answers with more than {_BYTES_MAX} bytes, expected TF_CONFIG", Status.INTERNAL)
    return body


def _split(url: str) -> tuple[str, int, str]:
    port: Optional[int] = None
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        parts = urllib.parse.SplitResult("", "", "", "", "")
    if parts.scheme != "http" or not parts.hostname or port is None or not parts.path:
        raise InvalidArgument(f"{_VARIABLE}: {url!r} found, expected http://ADDRESS:PORT/PATH")
    return parts.hostname, port, parts.path


def _parse(url: str, body: bytes) -> TfConfig:
    try:
        document: Any = json.loads(body)
    except ValueError:
        raise _strange(url, "", body[:100], "JSON") from None
    if not isinstance(document, dict):
        raise _strange(url, "", document, "an object")
    return TfConfig(_cluster(url, document.get("cluster")), _task(url, document.get("task")),
                    _count(url, "attempt", document.get("attempt")),
                    _count(url, "epoch", document.get("epoch")))


def _cluster(url: str, value: Any) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _strange(url, "cluster", value, "an object")
    for kind, addresses in value.items():
        if not isinstance(addresses, list) or not all(isinstance(one, str) for one in addresses):
            raise _strange(url, f"cluster.{kind}", addresses, "a list of addresses")
    return {kind: tuple(addresses) for kind, addresses in value.items()}


def _task(url: str, value: Any) -> Task:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise _strange(url, "task", value, "an object with type and index")
    return Task(value["type"], _count(url, "task.index", value.get("index")))


def _count(url: str, field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _strange(url, field, value, "a whole number of at least 0")
    return value


def _strange(url: str, field: str, found: object, expected: str) -> LockstepError:
    where = f"{url}: {field}" if field else url
    return LockstepError(f"{where}: {str(found)[:100]!r} found, expected {expected}",
                         Status.INTERNAL)
