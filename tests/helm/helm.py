"""Runs the helm that scripts/cluster-tools.sh builds, with a home of its own."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kubernetes"))

from tools import REPOSITORY, tool  # noqa: E402 (found through the line above)

CHART = REPOSITORY / "helm" / "lockstep"
_HOMES = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")


def helm(home, *arguments, kubeconfig=None):
    """(exit code, stdout, stderr). `home` is a folder of the test's; without `kubeconfig` no
    cluster is asked."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environment.update({name: str(home) for name in _HOMES})
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    run = subprocess.run(
        [tool("helm"), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )
    return run.returncode, run.stdout, run.stderr
