"""A real API server, `lockstep validate` and the operator agree about generated manifests.

    LOCKSTEP_MANIFESTS=100000 python3 -B tests/kubernetes/manifests_test.py

What the API server takes the operator must be able to read as it is stored, and `validate` takes
it, too; what the API server refuses `validate` refuses. The manifests are made from the schemas of
the definitions (manifest_generator.py). LOCKSTEP_MANIFESTS is their number,
LOCKSTEP_MANIFESTS_SEED the number of the first walk, LOCKSTEP_MANIFESTS_OUT a prefix of files for
all disagreements, by kind."""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import threading
import unittest

from client import ApiError, path_of
from kubernetes_case import KubernetesCase, main
from manifest_generator import Walk, foreign_pods, text_of
from tools import BIN, REPOSITORY

COUNT = int(os.environ.get("LOCKSTEP_MANIFESTS", "2000"))
FIRST_SEED = int(os.environ.get("LOCKSTEP_MANIFESTS_SEED", "0"))
STEPS = 50  # of one walk
THREADS = 4
DECODE_MICROS_MAX = 10_000  # of the operator's thread, which all jobs share
SHOWN_MAX = 12  # disagreements that a failure tells
EXAMPLES = sorted((REPOSITORY / "crds" / "examples").glob("valid/*.yaml"))

# What the API server takes and the operator does not: words of its problem, and why the definition
# cannot say it. A new job of this kind fails, and a job that is edited into one is Stalled; both
# name the problem.
ONLY_OPERATOR = {
    r"layers\[\d+\].*: (Dense reads a flat input|\w+ reads \[height, width, channels\]|a window of|"
    r"the network's output is|missing, expected a whole number, or two|makes \[|has output shape|"
    r"brings the model to)":
        "what a layer makes of its input's shape is more than a rule can compute",
    r"(kernelSize|poolSize|strides): ":
        "a number or a list has no type, so that no rule can see it",
    r"warm: found, but it cannot be used with this command":
        "a pattern over words of any length costs more than the API server allows",
    r"env: MASTER_PORT is": "templates cannot be compared with each other within the cost limit",
    r"labelSelector: does not select the pods of role":
        "labels of templates, and those that the operator adds, are not seen by one rule",
    r"bytes found, expected at most \d+.*: Linux cannot start a program":
        "a rule counts characters, and one of them may take several bytes",
    r"supervise: false found, but TF_CONFIG for":
        "the length of the namespace is not known to rules",
}

# The same of `lockstep validate` alone: the operator reads it.
ONLY_VALIDATE = {
    r"a zero byte found in this text": "no rule sees every text of a template",
    r"^not valid JSON at .*: unexpected '\"":
        "half a character, \\ud800, which the server replaces before it stores the job",
}

# What the API server refuses and `lockstep validate` takes: words of the refusal, what the manifest
# holds, and why.
ONLY_SERVER = {
    r"expected int, got float64|accessor error: .* is of the type float64|"
    r"expected XIntOrString value to be either a string or integer|"
    r"must be of type integer(,string)?: \"number\"": (
        r"[:,\[]-?(\d+\.0+|\d+(\.\d+)?[eE]\d+)[],}]",
        "a whole number written as 2.0 or 1e3: kubectl sends it as 2 or 1000, which is taken"),
    r"expected a whole number for each resource with a domain": (
        r"\d[EP]i?\"|\d\.\d+[KMGTEP]i?\"",
        "isInteger() of Kubernetes calls no number whole that is so large, or has a point"),
    r"metadata\.(labels|annotations)": (
        r"\":null", "a label that is null is an empty one to the server, and none to `validate`"),
}

QUEUES = [
    {"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue", "metadata": {"name": "vision"},
     "spec": spec}
    for spec in (
        {}, {"parent": "all", "weight": 2, "ordering": "FairShare", "namespaces": ["a", "b"]},
        {"nominal": {"nvidia.com/gpu": 16, "cpu": "500m", "memory": "64Gi"},
         "borrowingLimit": {"nvidia.com/gpu": "8"}, "lendingLimit": {"nvidia.com/gpu": 4},
         "preemption": {"withinQueue": "LowerPriority", "acrossQueues": "Borrowed"},
         "minRuntimeSeconds": 60, "maxRuntimeSeconds": 3600},
    )
]


class Decoder:
    """The decoders of `lockstep validate` and of the operator, in a process of their own."""

    def __init__(self):
        self._process = subprocess.Popen(
            [BIN / "lockstep_test_decode_documents"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def ask(self, text, stored):
        """(problems, microseconds). Raises RuntimeError where the decoder has crashed."""
        try:
            self._process.stdin.write(json.dumps({"text": text, "stored": stored}) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            code = self._process.poll()
            raise RuntimeError(f"the decoder ended with {code} at {text}") from error
        return answer["problems"], answer["micros"]


class Findings:
    """What walks have found, from all threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self.counts = collections.Counter()
        self.disagreements = {}  # by kind: the number of them, and the first one
        self.excused = collections.Counter()
        self.slowest = (0, "")

    def count(self, what):
        with self._lock:
            self.counts[what] += 1

    def excuse(self, words):
        with self._lock:
            self.excused[words] += 1

    def disagree(self, seed, step, what, answer, text):
        kind = f"{what}: " + re.sub(r'"(\\.|[^"\\])*"|[-+.\w]*[\d][-+.\w]*', "_", answer)[:300]
        with self._lock:
            count, first = self.disagreements.get(kind, (0, ""))
            first = first or f"walk {seed}, step {step}\n  {answer}\n  {text}"
            self.disagreements[kind] = count + 1, first

    def told(self):
        """The disagreements, each kind once, the most frequent first."""
        ranked = sorted(self.disagreements.items(), key=lambda one: -one[1][0])
        return [f"{count} x {kind}\n  first in {first}" for kind, (count, first) in ranked]

    def took(self, micros, text):
        with self._lock:
            self.slowest = max(self.slowest, (micros, text))


class ManifestsTest(KubernetesCase):
    options = {"controllers": False}

    @classmethod
    def start_more(cls):
        cls.schemas = {"Pod": foreign_pods(cls.admin.request("GET", "/openapi/v3/api/v1"))}
        for kind, plural in (("TrainingJob", "trainingjobs"), ("TrainingQueue", "trainingqueues")):
            definition = cls.admin.get("CustomResourceDefinition", f"{plural}.lockstep.dev")
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"]["properties"].update({
                "generateName": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            })
            cls.schemas[kind] = schema
        listed = json.loads(cls.plane.kubectl(
            "create", "--dry-run=client", "-o", "json",
            *[word for path in EXAMPLES for word in ("-f", path)],
        ).replace("}\n{", "},{").join("[]"))
        documents = [item for one in listed for item in one.get("items", [one])]
        for document in documents:
            document["metadata"].pop("namespace", None)
        cls.bases = {"TrainingJob": documents, "TrainingQueue": QUEUES}

    def server_refusal(self, kind, text, validation):
        """(None, the text of what would be stored), or (why not, None)."""
        try:
            stored = self.admin.request(
                "POST", path_of(kind, "default"), text,
                query={"dryRun": "All", "fieldValidation": validation})
            return None, json.dumps(stored)
        except ApiError as refused:
            self.assertLess(refused.code, 500, f"{refused} for {text}")
            return str(refused), None

    def walk(self, seed, kind, steps, findings):
        walk = Walk(seed, self.bases[kind], self.schemas)
        decoder = Decoder()
        try:
            for step in range(steps):
                text = text_of(walk.step())
                if self.compare(kind, text, decoder, findings, (seed, step)):
                    walk.accepted()
        finally:
            decoder.close()

    def compare(self, kind, text, decoder, findings, place):
        """Whether the API server takes it, and nobody has found anything wrong with it."""
        refusal, stored = self.server_refusal(kind, text, "Strict")
        problems, _ = decoder.ask(text, stored=False)
        if refusal is None:
            findings.count("taken")
            self.judge_problems(problems, "validate refuses", text, findings, place,
                                {**ONLY_OPERATOR, **ONLY_VALIDATE})
        else:
            findings.count("refused")
            if not problems:
                self.judge_refusal(refusal, text, findings, place)
            if "strict decoding error" in refusal:
                # Without Strict unknown fields are dropped, and the rest is stored.
                _, stored = self.server_refusal(kind, text, "Ignore")
        if stored is not None:
            problems, micros = decoder.ask(stored, stored=True)
            findings.took(micros, stored)
            self.judge_problems(problems, "THE OPERATOR CANNOT READ", text, findings, place,
                                ONLY_OPERATOR)
        return refusal is None and not problems

    def judge_problems(self, problems, what, text, findings, place, excuses):
        unexcused = []
        for problem in problems:
            words = next((words for words in excuses if re.search(words, problem)), None)
            if words is None:
                unexcused.append(problem)
            else:
                findings.excuse(words)
        for problem in unexcused:
            findings.disagree(*place, f"{what} what the API server takes", problem, text)

    def judge_refusal(self, refusal, text, findings, place):
        words = next((words for words in ONLY_SERVER if re.search(words, refusal)), None)
        if words is not None and not re.search(ONLY_SERVER[words][0], text):
            words = None
        if words is None:
            findings.disagree(*place, "validate takes what the API server refuses", refusal, text)
        else:
            findings.excuse(words)

    def run_walks(self, kind, count):
        findings = Findings()
        seeds = range(FIRST_SEED, FIRST_SEED + -(-count // STEPS))
        pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        try:
            for run in [pool.submit(self.walk, seed, kind, STEPS, findings) for seed in seeds]:
                run.result()
        finally:
            pool.shutdown(cancel_futures=True)
        print(f"{kind}: {dict(findings.counts)}, slowest decode {findings.slowest[0]:.0f} us, "
              f"excused: {dict(findings.excused)}")
        if os.environ.get("LOCKSTEP_MANIFESTS_OUT"):
            with open(os.environ["LOCKSTEP_MANIFESTS_OUT"] + kind, "w", encoding="utf-8") as out:
                out.write("\n".join(findings.told()))
        told = findings.told()
        self.assertEqual(told, [], f"{len(told)} kinds:\n" + "\n".join(told[:SHOWN_MAX]))
        if "LOCKSTEP_MANIFESTS" in os.environ:  # a run that measures
            self.assertLess(findings.slowest[0], DECODE_MICROS_MAX, findings.slowest[1])
        self.assertGreater(findings.counts["taken"], count / 10)
        self.assertGreater(findings.counts["refused"], count / 10)

    def test_all_agree_about_jobs(self):
        self.run_walks("TrainingJob", COUNT)

    def test_all_agree_about_queues(self):
        self.run_walks("TrainingQueue", COUNT // 4)


if __name__ == "__main__":
    main()
