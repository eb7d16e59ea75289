#!/usr/bin/env python3
"""Steps per second at global batch 128 on real digits, beside Debian's python3-torch.

    tests/bench/mnist/run.py [--build build/release] [--rounds 3]

Same network, same initial weights, same batches, Adam 1e-3, float32, one thread a process. The
candidates take turns within a round, so that what else the machine does falls on all of them; the
figure of a candidate is the median over rounds of its best pass (the first pass is warm-up). CPU ms
is the processor time of one process for one step, its best pass: it hardly moves with the load of
the machine. Exit code 1 when the losses of the candidates differ by more than 1e-3 relative.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHON = "/usr/bin/python3"  # the interpreter Debian's python3-torch belongs to
LOSS_TOLERANCE = 1e-3  # relative; float32 sums in another order, through 210 steps of Adam


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_json(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def torch_command(options, weights):
    return [PYTHON, str(HERE / "torch_steps.py"), "--data", str(options.data), "--weights", weights,
            "--batch", str(options.batch), "--passes", str(options.passes)]


def run_torch_distributed(command):
    environment = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(free_port()))
    ranks = [
        subprocess.Popen(command, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
                         stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise RuntimeError("a rank of PyTorch's DDP failed")
    return json.loads(outputs[0].splitlines()[-1])


def candidates(options, weights):
    ours = [str(options.build / "bin" / "lockstep_bench_mnist"), "--data", str(options.data),
            "--weights", weights, "--batch", str(options.batch), "--passes", str(options.passes)]
    theirs = torch_command(options, weights)
    return {
        "lockstep engine, 1 process": lambda: run_json(ours),
        "torch, 1 process": lambda: run_json(theirs),
        "torch DDP gloo, 2 processes": lambda: run_torch_distributed(theirs),
    }


def best_steps(result):
    return max(one["stepsPerSecond"] for one in result["passes"][1:])


def report(results):
    base = statistics.median(map(best_steps, results["lockstep engine, 1 process"]))
    print(f"{'':32} {'steps/s':>8} {'spread':>15} {'ours/this':>9} {'CPU ms/step':>11}"
          "  loss of each pass, accuracy")
    for name, runs in results.items():
        speeds = sorted(map(best_steps, runs))
        median = statistics.median(speeds)
        cpu_ms = min(one["cpuMs"] for run in runs for one in run["passes"][1:])
        losses = " ".join(f"{one['loss']:.5f}" for one in runs[-1]["passes"])
        print(f"{name:32} {median:8.1f} {speeds[0]:7.1f}-{speeds[-1]:<7.1f} {base / median:9.2f} "
              f"{cpu_ms:11.1f}  {losses}, {runs[-1]['testAccuracy']:.4f}")
    first = results["lockstep engine, 1 process"][-1]
    last_pass = first["passes"][-1]
    print(f"engine: {first['engine']}; loaded in {first['loadSeconds'] * 1e3:.0f} ms, "
          f"made in {first['makeSeconds'] * 1e3:.0f} ms; a step: data {last_pass['dataMs']:.2f}, "
          f"compute {last_pass['computeMs']:.2f}, update {last_pass['updateMs']:.2f} ms")


def losses_agree(results):
    final = [runs[-1]["passes"][-1]["loss"] for runs in results.values()]
    return max(final) - min(final) <= LOSS_TOLERANCE * max(final)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "examples" / "data" / "mnist")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    subprocess.run(["cmake", "--build", str(options.build), "--target", "lockstep_bench_mnist"],
                   check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        table = candidates(options, f"{folder}/weights.f32")
        results = {name: [] for name in table}
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.2f} on "
                  f"{os.cpu_count()} cores", flush=True)
            for name, run in table.items():
                results[name].append(run())
    report(results)
    if not losses_agree(results):
        print("the losses differ: the candidates did not do the same work", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
