"""Every alert fires in its case and nowhere else; every alert has its part of the runbook."""

import json
import pathlib
import re
import tempfile
import unittest

from monitoring import ALERTS, REPOSITORY, RUNBOOK, alert_names, promtool, require_tools

LEADER = 'leader_election_master_status{name="lockstep-operator",namespace="o",lease="l",pod="%s"}'
SECOND = LEADER.replace('lease="l"', 'lease="l2"')  # another release in the namespace
ELSEWHERE = LEADER.replace('namespace="o"', 'namespace="p"')
LEADS = {LEADER % "a": "1x1440"}
JOB = ('namespace="team",lockstep_dev_job="mnist",lockstep_dev_role="worker",'
       'lockstep_dev_index="%d",pod="mnist-worker-%d"')
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def of_rank(metric, rank=0, more=""):
    return f"{metric}{{{JOB % (rank, rank)}{more}}}"


def of_operator(metric, labels=""):
    return f'{metric}{{namespace="o",pod="a"{labels}}}'


def rounds(at_half, at_one, beyond):
    return {of_operator("lockstep_round_seconds_bucket", f',le="{le}"'): f"0+{count}x60"
            for le, count in (("0.5", at_half), ("1", at_one), ("+Inf", beyond))}


def queue(name, oldest="0x200", started=None, waiting="0x200", nominal="8x200", used="8x200"):
    """What the operator tells of a queue; `started` is None of one with queues below it."""
    label = f',queue="{name}"'
    gpus = label + ',resource="nvidia.com/gpu"'
    return {of_operator("lockstep_queue_oldest_wait_seconds", label): oldest,
            of_operator("lockstep_queue_waiting_jobs", label): waiting,
            of_operator("lockstep_queue_nominal", gpus): nominal,
            of_operator("lockstep_queue_used", gpus): used,
            **({of_operator("lockstep_gang_wait_seconds_count", label): started} if started
               else {})}


def compute(*rates, role="worker"):
    """Seconds of computing a minute, of 60 steps, by rank; the last rank has the role."""
    series = {}
    for rank, seconds in enumerate(rates):
        phase = ',phase="compute"'
        of_sum = of_rank("lockstep_step_phase_seconds_sum", rank, phase)
        of_count = of_rank("lockstep_step_phase_seconds_count", rank, phase)
        if rank == len(rates) - 1:
            of_sum, of_count = (each.replace('role="worker"', f'role="{role}"')
                                for each in (of_sum, of_count))
        series.update({of_sum: f"0+{seconds}x60", of_count: "0+60x60"})
    return series


def skips(count):
    return {of_rank("lockstep_steps_skipped_total"): f"0+{count}x60",
            of_rank("lockstep_step_seconds_count"): "0+10x60"}


def recoveries(first, second="0x60"):
    return {of_rank("lockstep_recoveries_total", 0, ',cause="peer_closed"'): first,
            of_rank("lockstep_recoveries_total", 0, ',cause="peer_silent"'): second,
            of_rank("lockstep_recoveries_total", 1, ',cause="peer_closed"'): "0x60"}


def steps(first, second):
    return {of_rank("lockstep_training_step", 0): first,
            of_rank("lockstep_training_step", 1): second}


# Alert: what is, the series (a value a minute), and whether it fires at that minute.
CASES = {
    "LockstepNoLeader": [
        ("nobody leads", {LEADER % "a": "0x60", LEADER % "b": "0x60"}, 5, True),
        ("nobody is scraped", {LEADER % "a": "_x60"}, 5, True),
        ("only the operator of another namespace is scraped",
         {LEADER % "a": "1x10 _x60", ELSEWHERE % "a": "1x80"}, 20, True),
        ("of two releases in one namespace one leads",
         {LEADER % "a": "0x60", SECOND % "a": "1x60"}, 5, True),
        ("both lead", {LEADER % "a": "1x60", SECOND % "a": "1x60"}, 5, False),
        ("one of two leads", {LEADER % "a": "0x60", LEADER % "b": "1x60"}, 5, False),
        ("a handover", {LEADER % "a": "1x10 0x60", LEADER % "b": "0x11 1x60"}, 12, False),
    ],
    "LockstepLeaseFlaps": [
        ("the lease goes to and fro", {LEADER % "a": "1 0 1 0 1x60", LEADER % "b": "0 1 0 1 0x60"},
         30, True),
        ("each of four releases has two handovers",
         {LEADER.replace('lease="l"', f'lease="{lease}"') % "a": "1 0 1x60" for lease in "klmn"},
         30, False),
        ("three handovers", {LEADER % "a": "1 0 1 0x60", LEADER % "b": "0 1 0 1x60"}, 30, False),
    ],
    "LockstepRoundSlow": [
        ("one in ten above half a second", rounds(90, 100, 100), 30, True),
        ("all above a second", rounds(0, 0, 100), 30, True),
        ("one in a thousand", rounds(999, 1000, 1000), 30, False),
    ],
    "LockstepPodsNotHeard": [
        ("pods go on refusing", {of_operator("lockstep_status_refused_total"): "0+1x60"}, 25, True),
        ("they did for a moment", {of_operator("lockstep_status_refused_total"): "0x5 3x60"}, 25,
         False),
    ],
    "LockstepJobStalled": [
        ("a job is unreadable", {of_operator("lockstep_jobs", ',state="Stalled"'): "1x60"}, 20,
         True),
        ("others run", {of_operator("lockstep_jobs", ',state="Stalled"'): "0x60",
                        of_operator("lockstep_jobs", ',state="Running"'): "5x60"}, 20, False),
    ],
    "LockstepQueueStandsStill": [
        ("nothing starts", queue("vision", oldest="0+60x200", started="3x200", waiting="2x200"),
         140, True),
        ("the first gang has started", queue("vision", oldest="0+60x200", waiting="2x200",
                                             started="0x100 1x100"), 140, False),
        ("the queues below it serve", queue("research", oldest="0+60x200", waiting="2x200"), 140,
         False),
    ],
    "LockstepQuotaIdleWhileJobsWait": [
        ("half of it is unused", queue("vision", waiting="1x60", used="4x60"), 40, True),
        ("nobody waits", queue("vision", used="4x60"), 40, False),
        ("it is used up", queue("vision", waiting="1x60", used="12x60"), 40, False),
    ],
    "LockstepGangsCannotStart": [
        ("one a minute", {of_operator("lockstep_gang_rollbacks_total", ',reason="PodRefused"'):
                          "0+1x60"}, 20, True),
        ("four in all", {of_operator("lockstep_gang_rollbacks_total", ',reason="PodRefused"'):
                         "0 1 2 3 4x60"}, 20, False),
    ],
    "LockstepRestartLoop": [
        ("a rank a minute", recoveries("0+1x60"), 20, True),
        ("of two causes", recoveries("0x5 2x60", "0x9 2x60"), 20, True),
        ("two in all", recoveries("0x5 1x60", "0x9 1x60"), 20, False),
        ("of commands", {of_operator("lockstep_restarts_total", ',cause="oom"'): "0+1x60"}, 40,
         True),
        ("a node's loss", {of_operator("lockstep_restarts_total", ',cause="node_lost"'):
                           "0x5 16x60"}, 20, False),
    ],
    "LockstepTrainingStandsStill": [
        ("no rank steps", steps("0+10x10 100x60", "0+10x10 100x60"), 45, True),
        ("one of them does", steps("0+10x10 100x60", "0+10x60"), 45, False),
        ("it has not begun", steps("0x60", "0x60"), 45, False),
    ],
    "LockstepStraggler": [
        ("one rank takes twice as long", compute(6, 6, 6, 12), 30, True),
        ("one takes a fifth longer", compute(6, 6, 6, 7.2), 30, False),
        ("the evaluator takes its time", compute(6, 6, 6, 12, role="evaluator"), 30, False),
    ],
    "LockstepCheckpointFails": [
        ("one failed", {of_rank("lockstep_checkpoint_failures_total"): "0x5 1x60"}, 10, True),
        ("none did", {of_rank("lockstep_checkpoint_failures_total"): "0x60"}, 10, False),
    ],
    "LockstepFloat16Skips": [
        ("three in five steps", skips(6), 30, True),
        ("three in ten", skips(3), 30, False),
    ],
    "LockstepForgedControl": [
        ("one message", {of_rank("lockstep_control_messages_total", 0, ',verdict="forged"'):
                         "0x5 1x60"}, 7, True),
        ("old ones", {of_rank("lockstep_control_messages_total", 0, ',verdict="forged"'): "0x60",
                      of_rank("lockstep_control_messages_total", 0, ',verdict="stale"'): "0+1x60"},
         7, False),
    ],
    "LockstepGpuIdle": [
        ("both GPUs idle", {of_rank("lockstep_gpu_busy_ratio", 0, ',uuid="a"'): "0.01x80",
                            of_rank("lockstep_gpu_busy_ratio", 0, ',uuid="b"'): "0x80"}, 40, True),
        ("one of them works", {of_rank("lockstep_gpu_busy_ratio", 0, ',uuid="a"'): "0.9x80",
                               of_rank("lockstep_gpu_busy_ratio", 0, ',uuid="b"'): "0x80"}, 40,
         False),
    ],
}

# A day of a cluster that works: jobs come and go, a rank is lost now and then, queues are used up.
DAY = {
    **LEADS,
    **{key: "0+60x1440" for key in rounds(60, 60, 60)},
    of_operator("lockstep_status_refused_total"): "0x700 2x740",
    of_operator("lockstep_jobs", ',state="Stalled"'): "0x1440",
    of_operator("lockstep_jobs", ',state="Running"'): "6x1440",
    **queue("vision", oldest="0+60x100 0+60x60 0x1280", started="0x90 1x60 2+0x1290",
            waiting="1x160 0x1280", nominal="8x1440", used="8x1440"),
    of_operator("lockstep_gang_rollbacks_total", ',reason="PodRefused"'): "0x300 1x600 2x540",
    of_operator("lockstep_restarts_total", ',cause="oom"'): "0x300 1x600 2x540",
    **recoveries("0x400 1x1040", "0x900 1x540"),
    **steps("0+100x1440", "0+100x1440"),
    **{key: value.replace("x60", "x1440") for key, value in compute(6, 6.1, 6.3, 6.6).items()},
    **{key: value.replace("x60", "x1440") for key, value in skips(0).items()},
    of_rank("lockstep_checkpoint_failures_total"): "0x1440",
    of_rank("lockstep_control_messages_total", 0, ',verdict="forged"'): "0x1440",
    of_rank("lockstep_control_messages_total", 0, ',verdict="accepted"'): "0x400 1x1040",
    of_rank("lockstep_gpu_busy_ratio", 0, ',uuid="a"'): "0.85x1440",
}

# What people read, where words depend on labels.
READ = [
    ({LEADER % "a": "0x60"}, 5, "LockstepNoLeader",
     {"namespace": "o", "lease": "l", "severity": "critical"},
     {"summary": "No Lockstep operator leads by the lease o/l: no job starts, restarts or ends",
      "description": "For 2 minutes no replica has led, or Prometheus has scraped no replica."}),
    (recoveries("0+1x60"), 40, "LockstepRestartLoop",
     {"namespace": "team", "lockstep_dev_job": "mnist", "severity": "warning"},
     {"summary": "Job team/mnist loses ranks again and again",
      "description": "30 times within 30 minutes."}),
    ({of_operator("lockstep_restarts_total", ',cause="oom"'): "0+1x60"}, 40, "LockstepRestartLoop",
     {"namespace": "o", "cause": "oom", "severity": "warning"},
     {"summary": "Pods and gangs restart again and again: oom",
      "description": "30 times within 30 minutes."}),
]


def samples(series):
    return [{"series": name, "values": values} for name, values in {**LEADS, **series}.items()]


def firing(alert, minute, count):
    return {"expr": FIRING, "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": count}] * (count > 0)}


class AlertsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require_tools("promtool")

    def assert_rules(self, *tests):
        """Runs promtool's own tests of rules; they are JSON, which is YAML."""
        with tempfile.TemporaryDirectory(prefix="lockstep-alerts-") as folder:
            file = pathlib.Path(folder) / "test.yaml"
            file.write_text(json.dumps({
                "rule_files": [str(ALERTS)], "evaluation_interval": "1m",
                "tests": [{"interval": "1m", **test} for test in tests]}))
            code, said = promtool("test", "rules", file)
        self.assertEqual(code, 0, said)

    def test_rules_are_sound(self):
        code, said = promtool("check", "rules", "--lint-fatal", ALERTS)
        self.assertEqual(code, 0, said)
        self.assertIn("SUCCESS: 16 rules found", said)  # one of them is recorded

    def test_every_alert_fires_in_its_case_and_no_other_does(self):
        self.assertEqual(list(CASES), alert_names())
        for alert, cases in CASES.items():
            self.assertEqual({each[-1] for each in cases}, {True, False}, alert)
            for name, series, minute, fires in cases:
                with self.subTest(alert, case=name):
                    self.assert_rules({"input_series": samples(series),
                                       "promql_expr_test": [firing(alert, minute, int(fires))]})

    def test_a_quiet_day_is_silent(self):
        self.assert_rules({"input_series": samples(DAY), "promql_expr_test": [
            firing("", minute, 0) for minute in range(0, 1440, 5)]})

    def test_words_go_by_labels(self):
        for series, minute, alert, labels, annotations in READ:
            with self.subTest(annotations["summary"]):
                self.assert_rules({"input_series": samples(series), "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": [
                        {"exp_labels": labels, "exp_annotations": annotations}]}]})


class RunbookTest(unittest.TestCase):
    def test_every_alert_has_its_part(self):
        text = (REPOSITORY / RUNBOOK).read_text()
        parts = dict(re.findall(r"^## (Lockstep\w+)\n(.*?)(?=^## |\Z)", text,
                                re.MULTILINE | re.DOTALL))
        self.assertEqual(list(parts), alert_names())
        for name, part in parts.items():
            with self.subTest(name):
                for word in ("**Means:**", "**Look at:**", "**Do:**"):
                    self.assertEqual(part.count(word), 1, word)


if __name__ == "__main__":
    unittest.main(verbosity=2)
