#!/usr/bin/env python3
"""Measures the operator on a real API server with hollow nodes, beside what other operators took
on the same machine (see README.md). Needs scripts/install.sh cluster and the release build.

    tests/bench/operator/run.py [--runs 3] [--bin build/release/bin] [--jobset | --workers 4096]

--jobset: only A, beside JobSet with raised limits, the two taking turns.
--workers: only one job of so many, looked at as a whole: pods, wiring, what is stored."""

import argparse
import base64
import concurrent.futures
import importlib
import json
import os
import pathlib
import sys
import time
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
HARNESS = {
    "client": ("Watch",),
    "control_plane": ("ControlPlane", "ETCD_PORT"),
    "hollow_nodes": ("HollowNodes",),
    "jobs": ("JOB_LABEL", "foreign_pod", "is_true", "training_job"),
    "operator_process": ("Operator", "grant_rights"),
    "processes": ("wait_for",),
}

NODES, GPUS_PER_NODE, GPUS_PER_WORKER = 200, 8, 2
NAMESPACE = "default"
LARGE = 500  # workers of the job of A
CREATE_SECONDS_MAX = 600
QUIET_SECONDS = 3  # before a worker fails: it trains by then, and what came before has been cleaned
SAMPLES = 50  # pods whose size in etcd is asked for
EVENTS_PER_FOREIGN_POD = 2  # it is created where it is bound already, and it runs
TRAINING = {
    "model": {"inputShape": [4], "layers": [{"type": "Dense", "units": 1}]},
    "loss": {"type": "MeanSquaredError"},
    "optimizer": {"type": "SGD"},
    "dataset": {"format": "idx", "images": "images", "labels": "labels"},
    "globalBatchSize": 64,
}

# Seconds and MiB of others on this machine: Kubeflow TFJob 1.9.3, JobSet 0.12.0, Kubeflow Trainer
# 2.3.0. "defaults" is their own client rate limit, "raised" 500 requests per second.
PEERS = {
    "A": {"TFJob defaults": 49.8, "TFJob raised": 8.9, "JobSet defaults": 24.8,
          "JobSet raised": 3.6, "Trainer raised": 4.2},
    "B": {"TFJob defaults": 102.9, "TFJob raised": 7.7, "JobSet defaults": 33.7,
          "JobSet raised": 8.3, "Trainer raised": 10.7},
    "C": {"TFJob": 0.041, "JobSet raised": 2.31, "Trainer raised": 2.27},
    "idle": {"TFJob": 45, "JobSet": 45, "Trainer": 34},
    "beside 10,000 pods": {"TFJob": 143.8, "JobSet": 142.2, "Trainer": 34.4},
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=REPOSITORY / "build/release/bin")
    parser.add_argument("--foreign-pods", type=int, default=10_000)
    parser.add_argument("--jobset", action="store_true")
    parser.add_argument("--workers", type=int)
    return parser.parse_args()


def load_harness(bin_folder, tree=REPOSITORY):
    """Takes in the modules of the cluster tests of that tree, which look for the programs when they
    are imported, and makes their names known here."""
    os.environ["LOCKSTEP_BIN"] = str(bin_folder.resolve())
    sys.path.insert(0, str(tree / "tests" / "kubernetes"))
    for module, names in HARNESS.items():
        loaded = importlib.import_module(module)
        globals().update({name: getattr(loaded, name) for name in names})


def make_bench(plane, gpus_per_node=GPUS_PER_NODE):
    """Of a running operator with its nodes."""
    grant_rights(plane)
    hollow = HollowNodes(plane, NODES, gpus_per_node)
    return Bench(plane, Operator(plane, log_level="info").start(), hollow)


def await_pods(admin, label, wanted, create, cpu_seconds):
    """From just before `create()` until so many pods with that label were created, and ran."""
    watch = Watch(admin, "Pod", NAMESPACE, labels=label)
    cpu = cpu_seconds()
    start = time.monotonic()
    create()
    arrivals = {"created": {}, "running": {}}
    position, cpu_until_created = 0, None

    def count():
        nonlocal position, cpu_until_created
        news = watch.events[position:]
        position += len(news)
        for arrival, _, pod in news:
            name = pod["metadata"]["name"]
            arrivals["created"].setdefault(name, arrival)
            if pod["status"].get("phase") == "Running":
                arrivals["running"].setdefault(name, arrival)
        if cpu_until_created is None and len(arrivals["created"]) == wanted:
            cpu_until_created = cpu_seconds() - cpu
        return len(arrivals["running"]) == wanted

    wait_for(count, CREATE_SECONDS_MAX, f"{wanted} running pods")
    watch.close()
    return {
        "created": max(arrivals["created"].values()) - start,
        "running": max(arrivals["running"].values()) - start,
        "CPU until created": cpu_until_created,
        "events": len(watch.events),
    }


class Bench:
    def __init__(self, plane, operator, hollow):
        self.plane, self.admin = plane, plane.admin
        self.operator, self.hollow = operator, hollow
        self.program = operator.program
        # Hollow kubelets finish a deletion by the pod's name, late: nobody may have it again.
        self.run_number = 0

    def large_job(self):
        """A: one job of 500 workers, from just before the request until the last pod was made."""
        self.run_number += 1
        return self.measure([(f"large-{self.run_number}", LARGE)])

    def many_jobs(self):
        """B: 100 jobs of 5 workers, all at once."""
        self.run_number += 1
        return self.measure([(f"job-{self.run_number}-{index}", 5) for index in range(100)])

    def measure(self, jobs):
        def create():
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda job: self.create(*job), jobs))

        cpu = self.program.cpu_seconds()
        wanted = sum(workers for _, workers in jobs)
        result = await_pods(self.admin, JOB_LABEL, wanted, create, self.program.cpu_seconds)
        self.wait_running(jobs)
        result["CPU until running"] = self.program.cpu_seconds() - cpu
        result["peak RSS"] = self.program.peak_resident_mib()
        self.clean(jobs)
        return result

    def replacement(self):
        """C: one of 16 workers of the built-in trainer fails; until its successor runs."""
        self.run_number += 1
        job = f"small-{self.run_number}"
        self.create(job, 16, training=TRAINING)
        self.wait_running([(job, 16)])
        pods = self.admin.list("Pod", NAMESPACE, labels=f"{JOB_LABEL}={job}")
        uids = {pod["metadata"]["uid"] for pod in pods}
        watch = Watch(self.admin, "Pod", NAMESPACE, labels=f"{JOB_LABEL}={job}")
        time.sleep(QUIET_SECONDS)
        victim = pods[7]["metadata"]["name"]
        others = uids - {pods[7]["metadata"]["uid"]}
        self.hollow.end_pod(victim, NAMESPACE, exit_code=137, reason="OOMKilled")

        def moments():
            failed = successor = None
            for arrival, _, pod in list(watch.events):
                phase = pod["status"].get("phase")
                if pod["metadata"]["name"] == victim and phase == "Failed":
                    failed = failed or arrival
                if pod["metadata"]["uid"] not in uids and phase == "Running":
                    successor = successor or arrival
            return failed and successor and (failed, successor)

        failed, successor = wait_for(moments, 60, "the successor")
        kept = {pod["metadata"]["uid"]
                for pod in self.admin.list("Pod", NAMESPACE, labels=f"{JOB_LABEL}={job}")} & others
        watch.close()
        self.clean([(job, 16)])
        return {"replaced": successor - failed, "kept": len(kept)}

    def beside_foreign_pods(self, count):
        """D: resident memory, and processor time per watch event, beside pods of others."""
        before, cpu = self.program.resident_mib(), self.program.cpu_seconds()

        def make(index):
            node = self.hollow.names[index % NODES]
            pod = foreign_pod(f"other-{index}", node)
            self.admin.create(pod, NAMESPACE)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(make, range(count)))
        settled = -1.0
        while settled != self.program.cpu_seconds():
            settled = self.program.cpu_seconds()
            time.sleep(5)  # it is the quiet after the storm that is measured
        used = self.program.cpu_seconds() - cpu
        return {"before": before, "beside": self.program.resident_mib(), "CPU": used,
                "us per event": 1e6 * used / (count * EVENTS_PER_FOREIGN_POD)}

    def start_to_ready(self):
        self.operator.stop()
        start = time.monotonic()
        self.operator.start()
        self.program = self.operator.program
        return time.monotonic() - start

    def create(self, name, workers, **spec):
        body = training_job(name, workers, gpus=GPUS_PER_WORKER, **spec)
        if "training" in spec:
            del body["spec"]["roles"][0]["template"]  # its program
        self.admin.create(body, NAMESPACE)

    def wait_running(self, jobs):
        """Asks for one job after the other: reading all of them again and again is work for the
        API server, whose cores are the operator's."""
        for name, _ in jobs:
            wait_for(lambda name=name: is_true(self.admin.get("TrainingJob", name, NAMESPACE),
                                               "Running"),
                     CREATE_SECONDS_MAX, f"{name} to say that it runs")

    def clean(self, jobs):
        for name, _ in jobs:
            self.admin.delete("TrainingJob", name, NAMESPACE)
        wait_for(lambda: not self.admin.list("Pod", NAMESPACE, labels=JOB_LABEL), 120, "no pods")


def beside_jobset(bench, jobset, runs):
    """A again, in turns with JobSet. Its processor time is that of two controllers."""
    ours, theirs = [], []
    for number in range(runs):
        ours.append(bench.large_job())
        name = f"large-{number}"
        theirs.append(await_pods(bench.admin, jobset.label, LARGE,
                                 lambda name=name: jobset.create(name, LARGE), jobset.cpu_seconds))
        jobset.delete(name)
        wait_for(lambda: not bench.admin.list("Pod", NAMESPACE, labels=jobset.label),
                 CREATE_SECONDS_MAX, "no pods")
    for key in ("created", "running", "CPU until created"):
        ratios = sorted(one[key] / other[key] for one, other in zip(theirs, ours))
        for title, results in (("Lockstep", ours), ("JobSet", theirs)):
            print(f"{key:18} {title:9} " + " ".join(f"{one[key]:.2f}" for one in results) + " s")
        print(f"{'':18} JobSet / Lockstep, median: {ratios[len(ratios) // 2]:.2f}")


def room_for(workers):
    """GPUs of a node, so that all nodes together have room for so many workers."""
    return max(GPUS_PER_NODE, GPUS_PER_WORKER * -(-workers // NODES))


def stored_bytes(plane, kind, *path):
    """Of an object as etcd has it, managed fields and status included."""
    key = base64.b64encode("/".join(["/registry", kind, NAMESPACE, *path]).encode()).decode()
    request = urllib.request.Request(f"http://{plane.local_address}:{ETCD_PORT}/v3/kv/range",
                                     json.dumps({"key": key}).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return len(base64.b64decode(json.loads(response.read())["kvs"][0]["value"]))


def created_bytes(pod):
    """How long a pod is without what kubelets and field managers write about it."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    created = {"metadata": metadata, "spec": pod["spec"]}
    return len(json.dumps(created, separators=(",", ":")).encode())


def wiring_mistakes(pods, job, workers):
    """What is wrong with who the pods think they are; every index has to be there once."""
    indexes, mistakes = set(), []
    for pod in pods:
        name, spec = pod["metadata"]["name"], pod["spec"]
        known = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
        index = int(known["LOCKSTEP_POD"].removeprefix(f"{job}-worker-"))
        indexes.add(index)
        host = f"{job}-worker-{index}"
        if (name, spec["hostname"], spec["subdomain"]) != (host, host, job):
            mistakes.append(f"{name}: host {spec['hostname']}.{spec['subdomain']}")
        roles = json.loads(known["LOCKSTEP_CLUSTER"])["roles"]
        if list(roles) != ["worker"] or roles["worker"]["replicas"] != workers:
            mistakes.append(f"{name}: LOCKSTEP_CLUSTER {known['LOCKSTEP_CLUSTER']}")
    if indexes != set(range(workers)) or len(pods) != workers:
        mistakes.append(f"{len(pods)} pods, {len(indexes)} indexes")
    return mistakes


def one_job(bench, workers):
    """One job of so many workers: how long it takes, what it costs, and whether it is right."""
    name = f"of-{workers}"
    cpu = bench.program.cpu_seconds()
    result = await_pods(bench.admin, JOB_LABEL, workers, lambda: bench.create(name, workers),
                        bench.program.cpu_seconds)
    bench.wait_running([(name, workers)])
    result["CPU until running"] = bench.program.cpu_seconds() - cpu
    result["peak RSS"] = bench.program.peak_resident_mib()
    for key, value in result.items():
        print(f"{key}: {value:.2f}")
    pods = bench.admin.list("Pod", NAMESPACE, labels=f"{JOB_LABEL}={name}")
    sizes = sorted(stored_bytes(bench.plane, "pods", pod["metadata"]["name"])
                   for pod in pods[::max(1, len(pods) // SAMPLES)])
    print(f"pods as stored: {sizes[0]} to {sizes[-1]} bytes, {len(sizes)} looked at")
    sizes = sorted(map(created_bytes, pods))
    print(f"pods as created: {sizes[0]} to {sizes[-1]} bytes")
    print(f"job as stored: {stored_bytes(bench.plane, 'lockstep.dev/trainingjobs', name)} bytes")
    mistakes = wiring_mistakes(pods, name, workers)
    print(f"wiring: {len(mistakes)} mistakes" + "".join(f"\n   {each}" for each in mistakes[:9]))
    if mistakes:
        sys.exit(1)


def show(letter, title, results, key, unit="s"):
    values = sorted(result[key] for result in results)
    median = values[len(values) // 2]
    print(f"\n{letter}: {title}: " + " ".join(f"{value:.3f}" for value in values) + f" {unit}")
    for name, theirs in PEERS.get(letter, {}).items():
        print(f"   {name:16} {theirs:8.3f} {unit}   {theirs / median:6.1f} times ours")


def run(bench, options):
    print(f"{os.cpu_count()} cores shared by everything; {NODES} nodes of {GPUS_PER_NODE} GPUs; "
          f"{GPUS_PER_WORKER} per worker; load {os.getloadavg()[0]:.1f}")
    idle = bench.program.resident_mib()
    for letter, title, measure in (("A", "500 workers created", bench.large_job),
                                   ("B", "100 jobs of 5 created", bench.many_jobs)):
        results = [measure() for _ in range(options.runs)]
        show(letter, title, results, "created")
        for key in ("running", "CPU until created", "CPU until running", "peak RSS", "events"):
            print(f"   {key}: " + " ".join(f"{result[key]:.2f}" for result in results))
    results = [bench.replacement() for _ in range(options.runs)]
    show("C", "replacement running after the failure", results, "replaced")
    print(f"   of 15 others kept: {[result['kept'] for result in results]}")
    show("idle", "resident", [{"idle": idle}], "idle", "MiB")
    print(f"\nstart to ready: {bench.start_to_ready():.2f} s")
    beside = bench.beside_foreign_pods(options.foreign_pods)
    show("beside 10,000 pods", "resident", [beside], "beside", "MiB")
    print(f"   {beside['us per event']:.0f} us of processor time per watch event; "
          f"{beside['CPU']:.2f} s in all")
    print(f"start to ready: {bench.start_to_ready():.2f} s")


if __name__ == "__main__":
    OPTIONS = parse_arguments()
    load_harness(OPTIONS.bin)
    with ControlPlane() as the_plane:
        if OPTIONS.workers:
            one_job(make_bench(the_plane, room_for(OPTIONS.workers)), OPTIONS.workers)
        elif OPTIONS.jobset:
            from jobset import JobSet

            the_bench = make_bench(the_plane)
            beside_jobset(the_bench, JobSet(the_plane, NAMESPACE, GPUS_PER_WORKER), OPTIONS.runs)
        else:
            run(make_bench(the_plane), OPTIONS)
