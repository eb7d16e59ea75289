#!/usr/bin/env python3
"""Three queues that share a saturated cluster on a real API server (see README.md). Needs
scripts/install.sh cluster and the release build.

    tests/bench/operator/shares.py [--bin build/release/bin]

First everybody may borrow, then those whose it is claim it back; then a gang of high priority
has others go."""

import argparse
import concurrent.futures
import pathlib
import sys
import time

import run

SHARES = {"a": 60, "b": 30, "c": 10}  # percent
JOBS = {"c": 50, "b": 100, "a": 150}  # in the order in which they come
WORKERS, GPUS = 4, 2
GRACE = 1  # seconds, of each pod
URGENT_WORKERS, URGENT_GPUS = 8, 8
URGENT_SECONDS = 2
TOLERANCE = 2  # percent of the cluster
SETTLE_SECONDS = 300


def make_queues(admin, gpus):
    admin.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                  "metadata": {"name": "urgent"}, "value": 1000})
    for name, percent in SHARES.items():
        admin.create({
            "apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue", "metadata": {"name": name},
            "spec": {"nominal": {"nvidia.com/gpu": gpus * percent // 100},
                     "ordering": "Priority",
                     "preemption": {"acrossQueues": "Borrowed", "withinQueue": "LowerPriority"}},
        })


def make_jobs(admin):
    """One queue after the other, so that the first ones borrow all there is."""
    for name, count in JOBS.items():
        def create(number, queue=name):
            admin.create(run.training_job(f"{queue}-{number}", WORKERS, gpus=GPUS,
                                          scheduling={"queue": queue}), run.NAMESPACE)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(create, range(count)))
        time.sleep(3)  # they start, and borrow


def held(admin):
    """GPUs of running pods, by queue; and those that all pods together hold."""
    gpus = dict.fromkeys(SHARES, 0)
    for pod in admin.list("Pod", run.NAMESPACE, labels=run.JOB_LABEL):
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            gpus[pod["metadata"]["labels"][run.JOB_LABEL][0]] += GPUS
    return gpus


def settle(admin, total):
    """Waits until the shares are what they should be; how long that took, and what they are."""
    began = time.monotonic()
    shares = {}

    def settled():
        nonlocal shares
        time.sleep(1)  # reading all pods is work for the API server, whose cores are everybody's
        shares = {name: 100 * gpus / total for name, gpus in held(admin).items()}
        return all(abs(shares[name] - percent) <= TOLERANCE for name, percent in SHARES.items())

    try:
        run.wait_for(settled, SETTLE_SECONDS, "the shares")
    except AssertionError:
        return None, shares
    return time.monotonic() - began, shares


def urgent(admin):
    """From just before a gang of high priority is applied until the last pod of those that had to
    go for it is gone, and until all its own run."""
    watch = run.Watch(admin, "Pod", run.NAMESPACE, labels=run.JOB_LABEL)
    began = time.monotonic()
    admin.create(run.training_job("urgent", URGENT_WORKERS, gpus=URGENT_GPUS, scheduling={
        "queue": "a", "priorityClassName": "urgent"}), run.NAMESPACE)
    runs, gone = {}, [began]

    def all_run():
        for arrival, kind, pod in list(watch.events):
            is_its = pod["metadata"]["labels"][run.JOB_LABEL] == "urgent"
            if is_its and pod["status"].get("phase") == "Running":
                runs.setdefault(pod["metadata"]["name"], arrival)
            if kind == "DELETED":
                gone.append(arrival)
        return len(runs) == URGENT_WORKERS

    run.wait_for(all_run, 120, "the urgent gang")
    watch.close()
    last = max(runs.values())
    return max(each for each in gone if each <= last) - began, last - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=run.REPOSITORY / "build/release/bin")
    run.load_harness(parser.parse_args().bin)
    total = run.NODES * run.GPUS_PER_NODE
    with run.ControlPlane() as plane:
        bench = run.make_bench(plane)
        make_queues(plane.admin, total)
        make_jobs(plane.admin)
        seconds, shares = settle(plane.admin, total)
        said = ", ".join(f"{name} {share:.1f} % of {SHARES[name]}"
                         for name, share in shares.items())
        print(f"{sum(JOBS.values())} jobs x {WORKERS} x {GPUS} GPUs on {total}: {said}; "
              + (f"after {seconds:.1f} s" if seconds else f"not within {SETTLE_SECONDS} s"))
        others_gone, waited = urgent(plane.admin)
        cpu = bench.program.cpu_seconds()
        bench.operator.stop()
    bar = URGENT_SECONDS + GRACE
    print(f"urgent gang of {URGENT_WORKERS * URGENT_GPUS} GPUs runs after {waited:.2f} s; the bar, "
          f"with {GRACE} s of grace, is {bar} s. Those that had to go were gone after "
          f"{others_gone:.2f} s")
    print(f"processor time of the operator: {cpu:.2f} s")
    sys.exit(0 if seconds and waited <= bar else 1)


if __name__ == "__main__":
    main()
