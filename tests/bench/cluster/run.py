#!/usr/bin/env python3
"""How long a training in real pods stands still when one of them is lost; see ../README.md.

Usage: run.py [RUNS]   (default 10 for each kind of loss)"""

import dataclasses
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cluster"))

from product import Product  # noqa: E402 (found through the line above)
from training import Recovery, Training  # noqa: E402

NAMESPACE = "bench"


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    product = Product()
    product.make_namespace(NAMESPACE)
    training = Training(product, NAMESPACE)
    training.start(epochs=10_000, run_policy={"backoffLimit": 1000})

    def delete(pod):
        name = pod["metadata"]["name"]
        product.admin.delete("Pod", name, NAMESPACE, gracePeriodSeconds=0)

    harms = {
        "container of worker 1 killed": ("worker-1", product.kill_container),
        "pod of worker 2 deleted": ("worker-2", delete),
        "container of worker 0 killed": ("worker-0", product.kill_container),
    }
    measured = {name: [] for name in harms}
    for run in range(runs):
        for name, (task, harm) in harms.items():
            training.wait_steps()
            measured[name].append(training.measure_recovery(task, harm))
            print(f"{run + 1:2} {name}: {measured[name][-1]}", file=sys.stderr)
    print(f"{os.cpu_count()} cores, 2 nodes, 3 workers, {runs} runs each")
    print("seconds: median (largest)")
    fields = [field.name for field in dataclasses.fields(Recovery)]
    print("".join(f"{word:>15}" for word in [*fields, "total"]))
    for name, recoveries in measured.items():
        parts = [[getattr(each, field) for each in recoveries] for field in [*fields, "total"]]
        print("".join(f"{statistics.median(part):8.2f} ({max(part):.2f})" for part in parts), name)
    product.cluster.stop()


if __name__ == "__main__":
    main()
