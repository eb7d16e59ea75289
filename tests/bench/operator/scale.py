#!/usr/bin/env python3
"""What a job costs the operator in a small cluster and in a large one (see README.md). Needs
scripts/install.sh cluster and the release build.

    tests/bench/operator/scale.py [--bin build/release/bin] [--runs 3]"""

import argparse
import pathlib

import run

SIZES = ((200, 100), (1000, 600))  # nodes, jobs of five workers that come at once
WORKERS = 5


def cost(nodes, jobs, runs):
    """Milliseconds of processor time for a job: until all were created, and until all said that
    they run. One pair a run."""
    with run.ControlPlane() as plane:
        run.grant_rights(plane)
        hollow = run.HollowNodes(plane, nodes, run.GPUS_PER_NODE)
        bench = run.Bench(plane, run.Operator(plane, log_level="info").start(), hollow)
        results = [bench.measure([(f"job-{number}-{index}", WORKERS) for index in range(jobs)])
                   for number in range(runs)]
        bench.operator.stop()
    return [(1000 * each["CPU until created"] / jobs, 1000 * each["CPU until running"] / jobs)
            for each in results]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=run.REPOSITORY / "build/release/bin")
    options = parser.parse_args()
    run.load_harness(options.bin)
    medians = []
    for nodes, jobs in SIZES:
        costs = cost(nodes, jobs, options.runs)
        medians.append([sorted(each)[len(costs) // 2] for each in zip(*costs)])
        print(f"{jobs} jobs x {WORKERS} on {nodes} nodes, ms of processor time a job: until "
              "created " + " ".join(f"{created:.2f}" for created, _ in costs) + "; until all run "
              + " ".join(f"{running:.2f}" for _, running in costs), flush=True)
    small, large = medians
    print("large / small, medians: until created "
          f"{large[0] / small[0]:.2f}, until all run {large[1] / small[1]:.2f}; the bar is 1")


if __name__ == "__main__":
    main()
