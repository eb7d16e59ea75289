"""`lockstep-replay` on traces small enough to work out by hand."""

import json
import pathlib
import tempfile
import unittest

from replay_program import report, run

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,16000,65536,2,T4
n1,32000,65536,4,V100
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,8000,1024,1,1000,
p1,8000,1024,1,1000,V100
p2,4000,1024,1,500,
p3,4000,1024,1,500,
"""
JOBS = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 00:00:00,100.0,16,1600.0,a
2017-10-09 00:00:10,50.0,8,400.0,a
2017-10-09 00:00:20,70.0,1,70.0,b
"""
NODE = {"name": "n1", "allocatable": {"gpus": 4}}
GANG = {"name": "default/a", "since": 1,
        "gang": {"classes": [{"name": "w", "pods": ["w-0"], "request": {"gpus": 3}}]}}


def round_log(*lines):
    """Lines of a round log, each with its sum: FNV-1a over all so far."""
    text, total = "", 0xcbf29ce484222325
    for line in lines:
        line = json.dumps(line)
        for byte in line.encode():
            total = (total ^ byte) * 0x100000001b3 % 2**64
        text += f"{total:016x} {line}\n"
    return text


def one_round(*decisions):
    return round_log({"lockstepRoundLog": {"version": 3}}, {"nodeSeen": {"node": NODE}},
                     {"gangSubmitted": {"request": GANG}},
                     {"round": {"now": 2, "options": {}, "decisions": decisions}},
                     {"end": {"why": "stopped"}})


class ReplayCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def file(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def test_numbers_that_are_none_are_refused_with_what_was_expected(self):
        nodes, pods = self.file("nodes.csv", NODES), self.file("pods.csv", PODS)
        openb = ("openb", "--nodes", nodes, "--pods", pods)
        for option, value, expected in (("--tune", "nan", "a number"),
                                        ("--first-seed", "-1", "a whole number from 0"),
                                        ("--first-seed", "9" * 23, "a whole number from 0"),
                                        ("--policy", "best", "worth")):
            exit_code, _, complaint = run(*openb, option, value)
            self.assertEqual(exit_code, 2, complaint)
            self.assertIn(option, complaint)
            self.assertIn(expected, complaint)

    def test_openb_tells_what_was_allocated(self):
        nodes, pods = self.file("nodes.csv", NODES), self.file("pods.csv", PODS)
        for policy in ("worth", "fgd", "best-fit"):
            told = report("openb", "--nodes", nodes, "--pods", pods, "--seeds", 3, "--tune", 0.5,
                          "--policy", policy)
            self.assertEqual(told["policy"], policy)
            self.assertEqual((told["nodes"], told["gpus"]), (2, 6))
            self.assertEqual([one["seed"] for one in told["seeds"]], [42, 43, 44])
            for one in told["seeds"]:  # the four pods ask for 3 of 6 GPUs, and all fit
                self.assertEqual((one["pods"], one["failed"]), (4, 0))
                self.assertEqual(one["allocationPercent"], 50)
                self.assertGreaterEqual(one["milliseconds"], 0)
            self.assertEqual(told["meanAllocationPercent"], 50)
            self.assertGreater(told["peakResidentBytes"], 1_000_000)

    def test_philly_tells_how_long_jobs_waited(self):
        trace = self.file("jobs.csv", JOBS)
        told = report("philly", "--trace", trace, "--gpus", 16, "--estimates", "U1-5")
        self.assertEqual(told["jobs"], 3)
        waits = told["waitSecondsByGpus"]
        self.assertEqual(waits["16 and more"],
                         {"jobs": 1, "mean": 0, "p90": 0, "p99": 0, "max": 0})
        self.assertEqual(waits["8-15"]["max"], 90)  # both start when the first has ended
        self.assertEqual(waits["1"]["max"], 80)
        self.assertEqual(waits["2-7"]["jobs"], 0)
        self.assertEqual(waits["all"]["jobs"], 3)
        self.assertAlmostEqual(waits["all"]["mean"], (0 + 90 + 80) / 3, places=3)

    def test_same_arguments_give_the_same_answer(self):
        trace = self.file("jobs.csv", JOBS)
        told = [report("philly", "--trace", trace, "--gpus", 16)["waitSecondsByGpus"]
                for _ in range(2)]
        self.assertEqual(told[0], told[1])

    def test_standard_input_is_a_file(self):
        told = report("philly", "--trace", "/dev/stdin", "--gpus", 16, stdin=JOBS)
        self.assertEqual(told["jobs"], 3)

    def test_shape_tells_how_soon_it_was_decided(self):
        told = report("shape", "kai-gang", "--runs", 3)
        self.assertEqual((told["shape"], told["runs"], told["pods"]), ("kai-gang", 3, 400))
        self.assertGreater(told["medianCpuMilliseconds"], 0)
        self.assertGreater(told["podsPerCpuSecond"], 0)
        self.assertIsNone(told["p99CpuMilliseconds"])
        self.assertIsNone(report("shape", "nine-racks", "--runs", 1)["podsPerCpuSecond"])

    def test_log_is_decided_again(self):
        told = report("log", self.file("rounds.log", one_round("start default/a w-0@n1")))
        self.assertEqual((told["rounds"], told["events"], told["decisions"]), (1, 2, 1))
        self.assertIsNone(told["firstDifference"])
        self.assertEqual(told["end"], "stopped")
        self.assertGreaterEqual(told["milliseconds"], 0)
        self.assertGreater(told["peakResidentBytes"], 1_000_000)

    def test_log_of_another_decision_is_told_with_both_texts(self):
        log = self.file("rounds.log", one_round("start default/a w-0@n2"))
        exit_code, output, complaint = run("log", log)
        self.assertEqual((exit_code, complaint), (3, ""))
        self.assertEqual(json.loads(output)["firstDifference"],
                         {"line": 4, "round": 1, "decision": 1,
                          "recorded": "start default/a w-0@n2",
                          "decided": "start default/a w-0@n1"})

    def test_what_if_is_answered_after_a_round(self):
        waiting = dict(GANG, name="default/b", since=2)
        log = self.file("rounds.log", round_log(
            {"lockstepRoundLog": {"version": 3}}, {"nodeSeen": {"node": NODE}},
            {"gangHolds": {"request": GANG,
                           "usage": [["n1", {"resources": {"gpus": 3}, "pods": 1}]]}},
            {"gangSubmitted": {"request": waiting}},
            {"round": {"now": 2, "options": {}, "decisions": [
                "refuse default/b (Gpu): needs 3 GPUs, 1 free on 1 node",
                "position default/b 1"]}}))
        told = report("log", log, "--what-if", "default/b", "--at-round", 1)["whatIf"]
        self.assertEqual(told["waitsAs"], "needs 3 GPUs, 1 free on 1 node")
        self.assertEqual((told["position"], told["startsAt"], told["nodeByPod"]), (1, None, {}))
        told = report("log", log, "--what-if", "default/b", "--nodes-like", "n1=1")["whatIf"]
        self.assertEqual(told["nodeByPod"], {"w-0": "n1+1"})
        self.assertEqual((told["waitsAs"], told["startsAt"]), (None, "1970-01-01T00:00:00.002Z"))
        told = report("log", log, "--what-if", "default/b", "--drain", "n1", "--queue", "none",
                      "--priority", 5, "--replicas", "w=2")["whatIf"]
        self.assertEqual((told["waitsAs"], told["displaced"]),
                         ("queue none does not exist", ["default/a"]))
        for words, complaint in (
                (("--what-if", "default/c"), "gang default/c does not exist"),
                (("--what-if", "default/b", "--at-round", 2), "--at-round: 2 found, the log has 1"),
                (("--what-if", "default/b", "--nodes-like", "n9=1"), "node n9 does not exist"),
                (("--what-if", "default/b", "--replicas", "w"), '--replicas: "w" found, expected'),
                (("--what-if", "default/b", "--replicas", "w=1", "--replicas", "w=2"), "once"),
                (("--what-if", "nope"), '--what-if: "nope" found, expected NAMESPACE/JOB'),
                (("--what-if", "a/b/c"), "expected NAMESPACE/JOB"),
                (("--what-if", "default/b", "--priority", 1000000001), "1000000001 not in range"),
                (("--what-if", "default/b", "--queue", "Foo"),
                 '--queue: "Foo" found, expected the name of a queue'),
                (("--queue", "a"), "--what-if")):
            self.assert_refused(("log", log, *words), complaint)

    def test_log_that_is_broken_is_refused_by_its_line(self):
        whole = one_round("start default/a w-0@n1")
        log = self.file("rounds.log", whole.replace('"gpus": 3', '"gpus": 2'))
        self.assert_refused(("log", log), f"{log}:3: the checksum does not match")
        log = self.file("rounds.log", whole[:-3])
        self.assert_refused(("log", log), f"{log}:5: cut off after ")
        log = self.file("rounds.log", round_log({"lockstepRoundLog": {"version": 3}},
                                                {"gangSubmitted": {"request": {"nmae": "a"}}}))
        self.assert_refused(("log", log), f"{log}:2: gangSubmitted.request.nmae: unknown field")
        none = self.scratch / "none.log"
        self.assert_refused(("log", none), str(none))

    def assert_refused(self, words, complaint):
        exit_code, output, told = run(*words)
        self.assertEqual((exit_code, output), (2, ""), told)
        self.assertIn(complaint, told)

    def test_bad_input_is_named_by_file_line_and_field(self):
        nodes = self.file("nodes.csv", NODES)
        pods = self.file("pods.csv", PODS.replace("p2,4000", "p2,4k"))
        self.assert_refused(("openb", "--nodes", nodes, "--pods", pods),
                            f'{pods}:4: cpu_milli: "4k" found, expected a whole number from 0 to')
        trace = self.file("jobs.csv", JOBS.replace("00:00:20", "24:00:20"))
        self.assert_refused(("philly", "--trace", trace, "--gpus", 16),
                            f'{trace}:4: timestamp: "2017-10-09 24:00:20" found, expected a time')
        trace = self.file("jobs.csv", JOBS)
        self.assert_refused(("philly", "--trace", trace, "--gpus", 8),
                            f'{trace}:2: num_gpus: "16" found, expected a whole number from 1 to 8')
        trace = self.file("jobs.csv", JOBS.replace("num_gpus", "gpus"))
        self.assert_refused(("philly", "--trace", trace), f'{trace}:1: no column "num_gpus"')
        none = self.scratch / "none.csv"
        self.assert_refused(("philly", "--trace", none), str(none))

    def test_bad_options_are_refused(self):
        trace = self.file("jobs.csv", JOBS)
        self.assert_refused(("philly", "--trace", trace, "--gpus", 12), "--gpus: 12 found")
        self.assert_refused(("philly", "--trace", trace, "--estimates", "U5-1"), "--estimates")
        self.assert_refused(("openb", "--nodes", "n", "--pods", "p", "--policy", "none"),
                            "--policy")
        self.assert_refused(("shape", "none"), "kai-gang")
        self.assert_refused(("shape", "kai-gang", "--runs", 0), "--runs")
        self.assert_refused((), "subcommand")


if __name__ == "__main__":
    unittest.main()
