"""Who may include whom: the layer table of the architecture, and where libraries may appear."""

import re

COMMON = {"common/base", "common/json", "common/contract"}

# What everything that decides on jobs may know.
TURN = COMMON | {
    "operator/resources",
    "operator/api",
    "operator/kubeclient/kube",
    "operator/scheduler",
}

# From room: rooms it may include besides itself. A room is a folder; one may lie within another,
# as reconcile/gang. A folder that is in no room is an error, so that a new one gets its line here.
EDGES = {
    "common/base": set(),
    "common/http": {"common/base"},
    "common/json": {"common/base"},
    "common/process": {"common/base"},
    "common/contract": {"common/base", "common/json"},
    "operator/yaml": {"common/base", "common/json"},
    "operator/resources": {"common/base"},
    "operator/api": COMMON | {"operator/resources", "operator/yaml"},
    "operator/convert": COMMON | {"operator/api", "operator/resources", "operator/yaml"},
    "operator/kubeclient/kube": COMMON | {"operator/resources"},
    "operator/scheduler": {"common/base", "operator/resources"},
    "operator/allocator": {
        "common/base",
        "operator/api",
        "operator/resources",
        "operator/scheduler",
    },
    # What others have answered, as values: part of what a turn sees.
    "operator/capacity/sight": {"common/json", "operator/api", "operator/kubeclient/kube"},
    "operator/reconcile": TURN | {"operator/capacity/sight"},
    "operator/reconcile/gang": TURN | {"operator/capacity/sight", "operator/reconcile"},
    "operator/reconcile/pods": TURN | {"operator/reconcile", "operator/reconcile/gang"},
    "operator/capacity": TURN
    | {
        "operator/capacity/sight",
        "operator/reconcile",
        "operator/reconcile/gang",
        "operator/reconcile/pods",
    },
    "operator/reconcile/failure": TURN
    | {
        "operator/capacity",
        "operator/reconcile",
        "operator/reconcile/gang",
        "operator/reconcile/pods",
    },
    "operator/reconcile/recovery": TURN
    | {
        "operator/reconcile",
        "operator/reconcile/failure",
        "operator/reconcile/gang",
        "operator/reconcile/pods",
    },
    "operator/reconcile/lifecycle": TURN
    | {
        "operator/capacity",
        "operator/reconcile",
        "operator/reconcile/failure",
        "operator/reconcile/gang",
        "operator/reconcile/pods",
        "operator/reconcile/recovery",
    },
    "operator/reconcile/start": TURN
    | {
        "operator/capacity",
        "operator/reconcile",
        "operator/reconcile/failure",
        "operator/reconcile/gang",
        "operator/reconcile/lifecycle",
        "operator/reconcile/pods",
        "operator/reconcile/recovery",
    },
    "operator/view": TURN
    | {
        "operator/allocator",
        "operator/capacity",
        "operator/capacity/sight",
        "operator/reconcile",
        "operator/reconcile/failure",
        "operator/reconcile/gang",
        "operator/reconcile/lifecycle",
        "operator/reconcile/pods",
    },
    "operator/controller": TURN
    | {
        "operator/allocator",
        "operator/capacity",
        "operator/capacity/sight",
        "operator/reconcile",
        "operator/reconcile/gang",
        "operator/reconcile/pods",
        "operator/view",
    },
    "operator/kubeclient/transport": COMMON | {"operator/kubeclient/kube"},
    "operator/kubeclient/credentials": COMMON | {"operator/kubeclient/transport", "operator/yaml"},
    "operator/kubeclient/api_client": COMMON
    | {"operator/kubeclient/kube", "operator/kubeclient/transport"},
    "operator/pod_client": COMMON,
    "operator/replay": {
        "common/base",
        "common/json",
        "operator/resources",
        "operator/round_log",
        "operator/scheduler",
    },
    "operator/round_log": {
        "common/base",
        "common/json",
        "operator/resources",
        "operator/scheduler",
    },
    "operator/local": COMMON
    | {"common/process", "operator/resources", "operator/api", "operator/kubeclient/kube"},
    # What is said of a lost peer is part of the contract.
    "trainer-runtime/collectives": {"common/base", "common/contract"},
    "trainer-runtime/rendezvous": COMMON | {"common/process"},  # how a silent peer's thread runs
    "trainer-runtime/session": COMMON
    | {"common/process", "trainer-runtime/rendezvous", "trainer-runtime/collectives"},
    "trainer-runtime/engine": COMMON,  # models arrive as the contract's TrainingSpec
    "trainer-runtime/data": COMMON,
    "trainer-runtime/checkpoint": COMMON,
    "trainer-runtime/telemetry": COMMON | {"common/http", "trainer-runtime/devices"},
    "trainer-runtime/devices": COMMON,
    "trainer-runtime/strategy": COMMON
    | {"trainer-runtime/collectives", "trainer-runtime/session", "trainer-runtime/engine"},
    "trainer-runtime/ps": COMMON
    | {
        "trainer-runtime/engine",  # its optimizer's arithmetic
        "trainer-runtime/rendezvous",
        "trainer-runtime/strategy",  # what its parameter_server decides
    },
    "trainer-runtime/train": COMMON
    | {
        "trainer-runtime/strategy",
        "trainer-runtime/engine",
        "trainer-runtime/data",
        "trainer-runtime/checkpoint",
        "trainer-runtime/telemetry",
    },
    "trainer-runtime/capi": COMMON
    | {
        "trainer-runtime/session",
        "trainer-runtime/rendezvous",  # what a session's meeting says of its members
        "trainer-runtime/collectives",  # the communicator that it hands out
        "trainer-runtime/checkpoint",
        "trainer-runtime/telemetry",
    },
    "trainer-runtime/supervisor": COMMON
    | {
        "common/http",  # Horovod's rendezvous
        "common/process",
        "trainer-runtime/rendezvous",
        "trainer-runtime/telemetry",
    },
}

# Rooms that have rooms of their own: each of these may include of its own room, besides itself,
# only what its line says, and of other rooms what the whole room may. "." is what lies in the
# room's own folder.
WITHIN = {
    "common/base": {
        ".": set(),
        "io": {"."},
    },
    "common/contract": {
        ".": set(),
        "text": set(),
        "command": {"text"},
        "environment": {"command", "text"},
        "training": {"environment", "text"},
        "status": {"environment", "text", "training"},
    },
    "operator/api": {
        "fields": set(),
        "job": {"fields"},
        "queue": {"fields"},
        "rules": {"fields", "job"},
        "status": {"fields", "job"},
        ".": {"fields", "job", "queue", "rules", "status"},
    },
    "operator/cli": {
        "pods": set(),
        "schema": set(),
        "terminal": set(),
        "run_folder": {"terminal"},
        "summary": {"run_folder", "terminal"},
        "run": {"pods", "run_folder", "summary", "terminal"},
        ".": {"run", "run_folder", "schema", "summary", "terminal"},
    },
    "operator/controller": {
        "errand": set(),
        "look": {"errand"},
        "queue": {"errand"},
        "write": {"errand", "look"},
        ".": {"errand", "look", "queue", "write"},
    },
    "operator/scheduler": {
        "queue": set(),
        "plan": {"queue"},
        "nodes": {"plan"},
        "state": {"nodes", "plan", "queue"},
        "placement": {"plan", "queue", "state"},
        ".": {"placement", "plan", "queue", "state"},
    },
    "operator/view": {
        "stored": set(),
        "capacity": {"stored"},
        "pods": {"stored"},
        "jobs": {"pods", "stored"},
        ".": {"capacity", "jobs", "pods", "stored"},
    },
    "trainer-runtime/cmd": {
        "devices": set(),
        ".": {"devices"},
    },
    "trainer-runtime/collectives": {
        "communicator": set(),
        "reduce": {"communicator"},
        "nccl": {"communicator", "reduce"},
        "shared_memory": {"communicator", "reduce"},
        "tcp": {"communicator", "reduce"},
        ".": {"communicator", "shared_memory", "tcp"},
    },
    "trainer-runtime/supervisor": {
        "process": set(),
        "status": set(),
        "hang": {"process"},
        "output": {"process"},
        "peers": {"process"},
        ".": {"hang", "output", "process"},
    },
}

# Programs put the parts of their own side together.
FREE_ON_OWN_SIDE = ("operator/cli", "operator/cmd", "trainer-runtime/cmd")

# Engine is an interface to the strategy; what is behind it stays there.
STRATEGY_SEES_OF_ENGINE = {"trainer-runtime/engine/engine.h"}

# These put the stages of a turn together, as programs do their parts: they stand above the rooms
# of the stages, while all else in their folder lies below them.
STAGED = (
    "operator/reconcile/decide.cc",
    "operator/reconcile/follow_up.cc",
    "operator/reconcile/stall.cc",
    "operator/reconcile/turn.cc",
)
STAGE_ROOMS = ("operator/capacity", "operator/reconcile/")

# Header prefix: where it may be included (a folder, or one file).
LIBRARIES = {
    "torch/": ("trainer-runtime/engine",),
    "ATen/": ("trainer-runtime/engine",),
    "c10/": ("trainer-runtime/engine",),
    "nlohmann/": ("common/json",),
    "boost/": ("common/http", "operator/kubeclient/transport", "operator/pod_client"),
    "cpprest/": (
        "operator/kubeclient/transport/cpprest_exchange.cc",
        "operator/kubeclient/transport/cpprest_exchange.h",
        "operator/kubeclient/transport/cpprest_transport.cc",
    ),
    "pplx/": ("operator/kubeclient/transport/cpprest_exchange.cc",),
    "spdlog/": ("common/base/log.cc", "operator/cli/run/run_log.cc"),  # the two Logger sinks
    "fmt/": ("common/base/log.cc",),
    "CLI/": (
        "operator/cli",
        "operator/cmd",
        "operator/replay/replay_arguments.cc",
        "trainer-runtime/cmd",
    ),
    "yaml-cpp/": ("operator/yaml",),
    "simdjson.h": ("operator/kubeclient/kube",),
    "prometheus/": ("trainer-runtime/telemetry", "operator/cmd"),
    "openssl/": (
        "common/base",
        "operator/kubeclient/transport",
        "operator/kubeclient/credentials",
    ),
    "zlib.h": ("trainer-runtime/data", "operator/cli"),
    "gloo/": (),
    "mpi.h": (),
}
TEST_LIBRARIES = ("gtest/", "gmock/")

# Folders of the system's own headers; everything else with a slash must be in LIBRARIES.
SYSTEM_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "asm/", "bits/")

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<open>[<"])(?P<target>[^>"]+)[>"]')


def layer_of(path):
    """The room of a path: the deepest folder of the table, else its first two parts."""
    parts = path.split("/")[:-1]
    for depth in range(len(parts), 2, -1):
        if (folder := "/".join(parts[:depth])) in EDGES:
            return folder
    return "/".join(parts[:2])


def side_of(path):
    return path.split("/")[0]


def check_include_edges(file):
    if not file.is_cpp:
        return
    for number, line in enumerate(file.lines, 1):
        match = _INCLUDE.match(line)
        if match is None:
            continue
        target = match["target"]
        if match["open"] == "<":
            problem = _library_problem(file, target)
        elif side_of(target) in ("common", "operator", "trainer-runtime", "tests"):
            problem = _edge_problem(file, target)
        else:
            problem = f'"{target}" is not written from the repository\'s root'
        if problem:
            yield file.finding(number, problem)


def _edge_problem(file, target):
    source, destination = layer_of(file.path), layer_of(target)
    if source == destination:
        return None if file.is_test else _problem_within(source, file.path, target)
    if source.startswith("tests/"):
        return None
    if destination.startswith("tests/"):
        return f"{source} may not include {target}: only tests include tests"
    if {side_of(source), side_of(destination)} == {"operator", "trainer-runtime"}:
        return f"{source} may not include {target}: operator and runtime never meet"
    if file.path in STAGED and destination.startswith(STAGE_ROOMS):
        return None
    if source in FREE_ON_OWN_SIDE or (file.is_test and side_of(source) == side_of(destination)):
        return None
    if source not in EDGES:
        return f"folder {source} has no line in the layer table of tests/tidy/include_rules.py"
    if destination not in EDGES[source]:
        return f"{source} may not include {target} (see the layer table)"
    if (
        source == "trainer-runtime/strategy"
        and destination == "trainer-runtime/engine"
        and target not in STRATEGY_SEES_OF_ENGINE
    ):
        return f"{source} may include the engine's interface only, not {target}"
    return None


def _problem_within(room, path, target):
    rooms = WITHIN.get(room)
    if rooms is None:
        return None
    source, destination = (_room_within(room, one) for one in (path, target))
    if source == destination or destination in rooms[source]:
        return None
    return f"{room}: {source} may not include {target} (see the table WITHIN)"


def _room_within(room, path):
    part = path[len(room) + 1 :].split("/")[0]
    return part if part in WITHIN[room] else "."


def _library_problem(file, target):
    if target.startswith(TEST_LIBRARIES):
        return None if file.is_test else f"<{target}> belongs into tests"
    for prefix, homes in LIBRARIES.items():
        if target.startswith(prefix):
            is_home = any(file.path == home or file.path.startswith(home + "/") for home in homes)
            if is_home or file.path.startswith("tests/"):
                return None
            return f"<{target}> may be included only in {', '.join(homes) or 'tests'}"
    if "/" in target and not target.startswith(SYSTEM_FOLDERS):
        return f"<{target}> is of a library that tests/tidy/include_rules.py does not know"
    return None
