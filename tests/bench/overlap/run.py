#!/usr/bin/env python3
"""A training step on two hosts with a slow link, beside its parts and beside PyTorch's DDP.

    tests/bench/overlap/run.py [--build build/release] [--batch 128 256] [--turns 3]

As root. The hosts are network namespaces, joined by a veth pair of which both ends are shaped to
1 Gbit/s (tc tbf) and delayed by 1 ms where the kernel has netem. For each batch size ours and
PyTorch's take turns. Of each turn: "compute" is a step of both ranks at once without exchange,
update included; "wire" the sum of all gradients without compute; "after" a step that sums after
backward; "step" the product's own. Figures are medians over the rounds of all turns, in
milliseconds. "ratio" is step / max(compute, wire); the bar is 1.15. Exit code 1 when it is missed
at any batch size.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHON = "/usr/bin/python3"  # the interpreter Debian's python3-torch belongs to
ADDRESSES = ("10.78.0.1", "10.78.0.2")
LINK = "wire"
PATIENCE_SECONDS = 600
BAR = 1.15


def call(*words):
    subprocess.run(words, check=True)


class Hosts:
    """Two network namespaces with a link, gone when the context ends."""

    def __init__(self, options):
        self.options = options
        self.names = [f"lockstep-overlap-{os.getpid()}-{number}" for number in range(2)]
        self.delay = "none"

    def __enter__(self):
        with contextlib.ExitStack() as made:
            for name in self.names:
                call("ip", "netns", "add", name)
                made.callback(call, "ip", "netns", "del", name)
            call("ip", "link", "add", LINK, "netns", self.names[0], "type", "veth",
                 "peer", "name", LINK, "netns", self.names[1])
            for name, address in zip(self.names, ADDRESSES):
                call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", LINK)
                call("ip", "-n", name, "link", "set", LINK, "up")
                call("ip", "-n", name, "link", "set", "lo", "up")
                self.shape(name)
            self.made = made.pop_all()
        return self

    def __exit__(self, *failure):
        self.made.close()

    def shape(self, name):
        tc = ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", LINK]
        call(*tc, "root", "handle", "1:", "tbf", "rate", self.options.rate, "burst", "128kb",
             "latency", "20ms")
        delayed = subprocess.run([*tc, "parent", "1:1", "netem", "delay", self.options.delay],
                                 capture_output=True, text=True, check=False)
        self.delay = self.options.delay if delayed.returncode == 0 else "none"

    def run_pair(self, command, port, environment):
        """Runs the command on both hosts; returns what rank 0 printed."""
        ranks = []
        try:
            for rank, name in enumerate(self.names):
                words = [*command, "--rank", str(rank), "--address", ADDRESSES[0],
                         "--port", str(port)]
                ranks.append(subprocess.Popen(["ip", "netns", "exec", name, *words],
                                              env={**os.environ, **environment},
                                              stdout=subprocess.PIPE, text=True))
            outputs = [rank.communicate(timeout=PATIENCE_SECONDS)[0] for rank in ranks]
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
        if any(rank.returncode != 0 for rank in ranks):
            raise RuntimeError(f"a rank failed: {' '.join(command)}")
        return json.loads(outputs[0].splitlines()[-1])


def commands(options, batch):
    shared = ["--batch", str(batch), "--rounds", str(options.rounds), "--steps",
              str(options.steps), "--hidden", *map(str, options.hidden)]
    ours = [str(options.build / "bin" / "lockstep_bench_overlap"),
            "--bucket-bytes", str(options.bucket_bytes), *shared]
    theirs = [PYTHON, str(HERE / "torch_steps.py"), *shared]
    return {"lockstep": ours, "torch DDP gloo": theirs}


def measure(hosts, options, batch):
    """Every contender's results, turn by turn."""
    results = {}
    for turn in range(options.turns):
        for number, (name, command) in enumerate(commands(options, batch).items()):
            port = 4000 + 2 * turn + number  # of a namespace of our own
            results.setdefault(name, []).append(
                hosts.run_pair(command, port, {"GLOO_SOCKET_IFNAME": LINK}))
    return results


def median(results, kind):
    return statistics.median(one[kind] for result in results for one in result["rounds"])


def report(results, batch):
    """Prints the rows of a batch size; returns our ratio."""
    ours = results["lockstep"]
    wire = median(ours, "wireMs")
    ratios = {}
    for name, runs in results.items():
        compute, step = median(runs, "computeMs"), median(runs, "stepMs")
        ratios[name] = step / max(compute, wire)
        after = f"{median(runs, 'afterMs'):8.1f}" if name == "lockstep" else f"{'':8}"
        print(f"{batch:6} {name:16} {compute:8.1f} {wire:8.1f} {after} {step:8.1f} "
              f"{ratios[name]:6.2f}", flush=True)
    return ratios["lockstep"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 768, 768, 768, 768, 768])
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--bucket-bytes", type=int, default=4 << 20)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="1ms")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("network namespaces need root", file=sys.stderr)
        return 2
    call("cmake", "--build", str(options.build), "--target", "lockstep_bench_overlap")
    with Hosts(options) as hosts:
        print(f"link {options.rate}, delay {hosts.delay}; {os.cpu_count()} cores, load "
              f"{os.getloadavg()[0]:.2f}; medians in ms")
        print(f"{'batch':>6} {'':16} {'compute':>8} {'wire':>8} {'after':>8} {'step':>8} "
              f"{'ratio':>6}")
        ratios = []
        for batch in options.batch:
            results = measure(hosts, options, batch)
            ratios.append(report(results, batch))
        first = results["lockstep"][0]
        print(f"{first['gradientBytes'] / 1e6:.1f} MB of gradients in {first['bucketCount']} "
              f"buckets; {first['engine']}; {results['torch DDP gloo'][0]['engine']}")
    if max(ratios) > BAR:
        print(f"the bar is missed: {max(ratios):.2f} > {BAR}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
