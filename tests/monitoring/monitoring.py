"""What the tests of boards and alerts share: the chart's files, and promtool."""

import json
import pathlib
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
for _folder in ("helm", "kubernetes"):
    sys.path.insert(0, str(REPOSITORY / "tests" / _folder))

from tools import require_tools, tool  # noqa: E402 (found through the lines above)

__all__ = ["require_tools", "tool"]
FILES = REPOSITORY / "helm" / "lockstep" / "files"
ALERTS = FILES / "alerts.yaml"
BOARDS = {"Lockstep / On call": "on-call.json", "Lockstep / Queues": "queues.json",
          "Lockstep / Job": "job.json", "Lockstep / Runtime fleet": "runtime-fleet.json"}
RUNBOOK = "docs/alerts.md"


def alert_names():
    return re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE)


def board(name):
    return json.loads((FILES / "dashboards" / name).read_text())


def promtool(*arguments):
    """(exit code, all that it says)."""
    run = subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True,
                         timeout=300)
    return run.returncode, run.stdout + run.stderr
