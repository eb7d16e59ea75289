"""What the engine for GPUs does on this machine, as rows of tests/gpu/run.sh: fields with tabs
between, of what, figure, bar and verdict.

    engine_rows.py --programs DIR [--plugin FILE | --why SENTENCE]

Without a plug-in each row says why it is not run. Exit code 0: every bar is held; 1: one is missed,
or could not be tried.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PARITY_STEPS = 50
# Kernels of a GPU add in another order, and Adam takes it through 50 steps.
PARITY_BAR = 1e-3
MIXED_BAR = 0.05  # of the loss of the last ten steps
SPEED_BAR = 2.0   # times eager PyTorch
ROUNDS = 5
TIMED_STEPS = 200
WARM_UP_STEPS = 30
LISTENED_STEPS = 200
FED_STEPS = 200
PROGRAM_SECONDS = 60
COMPILE_SECONDS = 100  # of one network by torch.compile

PARITY, MIXED = "parity with the CPU", "16 bits"
SPEED, GRAPH = "ms a step", "step as a CUDA graph"
LISTENED = "buckets beside a CUDA graph"
FED = "batches ahead of their steps"
SNAPSHOT, KILL = "snapshot beside compute", "kill -9 to the next step"
UNCHANGED = "unchanged program on NCCL, kill -9 to the end of the other rank"
NETWORK_NAMES = ("convolution", "dense", "line")


class Rows:
    def __init__(self):
        self.is_held = True

    def print(self, what, figure, bar, verdict):
        fields = (str(field).replace("\t", " ").replace("\n", " ")
                  for field in (what, figure, bar, verdict))
        print("\t".join(fields), flush=True)
        self.is_held = self.is_held and verdict not in ("MISSED", "not run")

    def bar(self, what, figure, bar, is_held):
        self.print(what, figure, bar, "held" if is_held else "MISSED")

    def none(self, why):
        """All rows, none of which could be tried."""
        for name in NETWORK_NAMES:
            for what in (PARITY, MIXED, SPEED):
                self.print(f"{name}: {what}", why, "", "not run")
        for what in (GRAPH, LISTENED, FED, SNAPSHOT, KILL, UNCHANGED):
            self.print(what, why, "", "not run")


class Failed(Exception):
    """A program that ended as it should not, in its own words."""


def last_words(process):
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with code {process.returncode}"


class Engine:
    """Our engine, driven by lockstep-gpu-engine."""

    def __init__(self, programs, plugin, scratch):
        self.program = programs / "lockstep-gpu-engine"
        self.plugin = plugin
        self.scratch = scratch

    def run(self, network, precision, *arguments):
        """(what it said, its first weights)"""
        import torch
        files = {name: self.scratch / name for name in ("spec", "inputs", "labels", "weights")}
        files["spec"].write_text(json.dumps(network.section(precision)))
        files["inputs"].write_bytes(network.inputs.numpy().tobytes())
        files["labels"].write_bytes(network.labels.numpy().tobytes())
        command = [self.program, "--plugin", self.plugin, "--samples", len(network.inputs)]
        for name, file in files.items():
            command += [f"--{name}", file]
        ran = subprocess.run([str(word) for word in [*command, *arguments]], capture_output=True,
                             text=True, timeout=PROGRAM_SECONDS, check=False)
        if ran.returncode != 0:
            raise Failed(last_words(ran))
        weights = torch.frombuffer(bytearray(files["weights"].read_bytes()), dtype=torch.float32)
        return json.loads(ran.stdout.splitlines()[-1]), weights


def difference(found, wanted):
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(found, wanted, strict=True))


def parity_rows(rows, engine, network):
    """What the engine came to in Float32; None where it did not run."""
    what = f"{network.name}: {PARITY}"
    try:
        said, weights = engine.run(network, "Float32", "--steps", PARITY_STEPS, "--rounds", ROUNDS,
                                   "--timed-steps", TIMED_STEPS)
    except (Failed, subprocess.TimeoutExpired) as error:
        rows.print(what, error, "", "MISSED")
        return None
    found = difference(said["losses"], network.losses(weights, PARITY_STEPS))
    rows.bar(what, f"{found:.1e} of a loss at most, {PARITY_STEPS} steps", f"<= {PARITY_BAR}",
             found <= PARITY_BAR)
    return said


def end_of(losses):
    return statistics.mean(losses[-10:])


def mixed_rows(rows, engine, network, exact):
    for precision in ("Float16", "BFloat16"):
        what = f"{network.name}: {MIXED}, {precision}"
        try:
            said, _ = engine.run(network, precision, "--steps", PARITY_STEPS, "--rounds", ROUNDS,
                                 "--timed-steps", TIMED_STEPS)
        except (Failed, subprocess.TimeoutExpired) as error:
            rows.print(what, error, "", "MISSED")
            continue
        wanted = end_of(exact["losses"])
        found = end_of(said["losses"])
        # A line is learnt to nothing: what is left of it is rounding.
        off = abs(found - wanted) / max(wanted, 0.05)
        rows.bar(what, f"loss {found:.4f}, Float32 {wanted:.4f}; "
                 f"{min(said['msPerStep']):.3f} ms a step", f"<= {MIXED_BAR:.0%}", off <= MIXED_BAR)


def torch_times(network, compiled):
    """Milliseconds a step of PyTorch's, each round's: a batch from pinned memory, the loss back."""
    import torch

    from networks import BATCH, BATCHES
    module = network.module().cuda()
    optimizer = network.optimizer(module)
    call = torch.compile(module, mode="reduce-overhead") if compiled else module
    inputs = network.inputs.pin_memory()
    targets = network.targets().pin_memory()

    def step(number):
        part = slice(number % BATCHES * BATCH, (number % BATCHES + 1) * BATCH)
        batch = inputs[part].to("cuda", non_blocking=True)
        wanted = targets[part].to("cuda", non_blocking=True)
        optimizer.zero_grad()
        loss = network.loss(call(batch), wanted)
        loss.backward()
        optimizer.step()
        return loss.item()

    for number in range(WARM_UP_STEPS):
        step(number)
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        for number in range(TIMED_STEPS):
            step(number)
        times.append((time.monotonic() - begin) * 1e3 / TIMED_STEPS)
    return times


def measure_torch(name, compiled):
    """In a process of its own, so that a compiler that hangs costs its own time only."""
    command = [sys.executable, __file__, "--measure", name, *(["--compiled"] if compiled else [])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False,
                         timeout=COMPILE_SECONDS)
    if ran.returncode != 0:
        raise Failed(last_words(ran))
    return statistics.median(json.loads(ran.stdout.splitlines()[-1]))


def speed_rows(rows, network, said):
    ours = statistics.median(said["msPerStep"])
    figure = f"ours {ours:.3f}"
    eager = None
    for words, compiled in (("eager", False), ("torch.compile", True)):
        try:
            theirs = measure_torch(network.name, compiled)
        except (Failed, subprocess.TimeoutExpired) as error:
            figure += f"; {words}: {error}"
            continue
        eager = eager if compiled else theirs
        figure += f", {words} {theirs:.3f} ({theirs / ours:.2f}x)"
    what = f"{network.name}: {SPEED}"
    if eager is None:
        rows.print(what, figure, f">= {SPEED_BAR:.0f}x eager", "not run")
        return
    rows.bar(what, figure, f">= {SPEED_BAR:.0f}x eager", eager / ours >= SPEED_BAR)


def graph_row(rows, said):
    words = "; ".join(said["notices"]) or "it says nothing of one"
    rows.print(GRAPH, f"{words}; update {'on the device' if said['isGuarded'] else 'by the host'}",
               "", "seen")


def listened_row(rows, engine, network):
    """Buckets that are copied behind their events while the graph goes on, as NCCL sums them."""
    try:
        said, _ = engine.run(network, "Float32", "--steps", 1, "--listened", LISTENED_STEPS)
    except (Failed, subprocess.TimeoutExpired) as error:
        rows.print(LISTENED, error, "", "MISSED")
        return
    seen = said["listened"]
    eager, graph = seen["msPerStep"]
    words = "; ".join(seen["notices"][1]) or "it says nothing of a graph"
    rows.bar(LISTENED,
             f"{'equal' if seen['isEqual'] else 'other'} bits after {LISTENED_STEPS} steps, "
             f"{sum(seen['late'])} of {sum(seen['buckets'])} buckets late; {graph:.3f} ms a step, "
             f"without {eager:.3f}; {words}",
             "equal bits, none late", seen["isEqual"] and not any(seen["late"]))


def fed_row(rows, engine, network):
    """Batches that come to the device while it computes the step before."""
    try:
        said, _ = engine.run(network, "Float32", "--steps", 1, "--fed", FED_STEPS)
    except (Failed, subprocess.TimeoutExpired) as error:
        rows.print(FED, error, "", "MISSED")
        return
    seen = said["fed"]
    before, ahead = seen["msPerStep"]
    rows.bar(FED, f"{'equal' if seen['isEqual'] else 'other'} bits after {FED_STEPS} steps; "
             f"{ahead:.3f} ms a step, each before its step {before:.3f}",
             "equal bits", seen["isEqual"])


def snapshot_row(rows, engine, network):
    try:
        said, _ = engine.run(network, "Float32", "--steps", 20, "--snapshots",
                             engine.scratch / "snapshot")
    except (Failed, subprocess.TimeoutExpired) as error:
        rows.print(SNAPSHOT, error, "", "MISSED")
        return
    seen = said["snapshot"]
    rows.bar(SNAPSHOT,
             f"{seen['stallMs']:.1f} ms stalled, {seen['writeMs']:.1f} ms written beside, "
             f"{seen['bytes'] / 1e6:.0f} MB; {seen['stepsBeside']} steps meanwhile",
             "steps go on", seen["stepsBeside"] > 0)


def all_rows(rows, engine, programs):
    import kill_row
    import unchanged_row
    from networks import TUTORIALS, WIDE
    first = None
    for network in TUTORIALS:
        said = parity_rows(rows, engine, network)
        if said is None:
            continue
        first = first or said
        mixed_rows(rows, engine, network, said)
        speed_rows(rows, network, said)
    if first is None:
        rows.print(GRAPH, "no network ran", "", "not run")
    else:
        graph_row(rows, first)
    listened_row(rows, engine, TUTORIALS[1])
    fed_row(rows, engine, TUTORIALS[0])
    snapshot_row(rows, engine, WIDE)
    kill_row.print_row(rows, KILL, programs, engine.plugin, engine.scratch)
    unchanged_row.print_row(rows, UNCHANGED, programs, engine.scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--plugin", type=pathlib.Path)
    parser.add_argument("--why", default="there is no engine")
    parser.add_argument("--measure", choices=NETWORK_NAMES, help="only times of PyTorch, as JSON")
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    if options.measure:
        from networks import TUTORIALS
        network = next(one for one in TUTORIALS if one.name == options.measure)
        print(json.dumps(torch_times(network, options.compiled)))
        return 0
    rows = Rows()
    if options.plugin is None:
        rows.none(options.why)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        all_rows(rows, Engine(options.programs, options.plugin, pathlib.Path(scratch)),
                 options.programs)
    return 0 if rows.is_held else 1


if __name__ == "__main__":
    sys.exit(main())
