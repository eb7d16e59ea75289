"""How far a program is that works together by another library. Trainers tell it as Kubeflow's do,
without a word of ours in them: the pod takes the request that Hugging Face's Trainer and Kubeflow's
SDK send. Other programs have lockstep.Reporter."""

import re
import unittest

from harness import LocalTest, command_manifest
from python_case import python_words

# Rank 0 posts as transformers does, by urllib with a new connection each time. A step takes 0.25 s.
PROGRAM = """\
import datetime, json, os, sys, time, urllib.error, urllib.request
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read().strip()

def post(status, token=token):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    body = json.dumps({"trainerStatus": {"lastUpdatedTime": now, **status}}).encode()
    request = urllib.request.Request(url, data=body, method="POST", headers={
        "Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read() == body
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["kind"] == "Status"

def metrics(**values):
    return {"metrics": [{"name": name, "value": str(value)} for name, value in values.items()]}

until = sys.argv[1]
if os.environ["RANK"] == "0":
    assert post({"progressPercentage": 0, **metrics(total_steps=10000)}) == (200, True)
    assert post({"progressPercentage": 101}) == (422, True)
    assert post({"progressPercentage": 99}, token="wrong") == (403, True)
    step = 9000
    while not os.path.exists(until):
        step += 1
        told = metrics(loss=0.5, current_step=step, total_steps=10000, learning_rate=5e-05)
        assert post({"progressPercentage": 90, "estimatedRemainingSeconds": 1, **told})[0] == 200
        time.sleep(0.25)
    print("told up to", step)
while not os.path.exists(until):
    time.sleep(0.05)
"""


class TrainerStatus(LocalTest):
    def setUp(self):
        super().setUp()
        self.program = self.scratch / "program.py"
        self.program.write_text(PROGRAM)
        self.until = self.scratch / "may-end"

    def test_its_steps_loss_and_time_left_are_those_of_the_job(self):
        started = self.start(
            command_manifest(["python3", str(self.program), str(self.until)], name="tune"))
        process, directory, _ = started
        # Told of every few seconds; by then steps have been timed.
        lines = []
        while not any("eta" in line for line in lines):
            lines.append(process.stdout.readline())
            self.assertTrue(lines[-1], "".join(lines))
        self.until.touch()
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        told = re.search(r"step (\d+)/10000  loss 0\.5000  eta (\d+) min", lines[-1])
        self.assertIsNotNone(told, lines[-1])
        self.assertGreater(int(told[1]), 9000)
        # The trainer says 1 s at each step; 1,000 steps are left of which each takes 0.25 s.
        self.assertGreaterEqual(int(told[2]), 1)
        last = int(re.search(r"told up to (\d+)", run.pod_log("tune-worker-0"))[1])
        self.assertEqual((run.summary["steps"], run.summary["stepsTotal"]), (last, 10000))
        self.assertEqual(run.summary["loss"], 0.5)

    def test_a_place_that_the_program_names_itself_is_left_to_it(self):
        run = self.run_job(command_manifest(["sh", "-c", "env"], name="own").replace(
            "image: local", "image: local\n          env:\n"
            "          - {name: KUBEFLOW_TRAINER_SERVER_URL, value: \"https://elsewhere\"}"))
        log = run.pod_log("own-worker-0")
        self.assertIn("KUBEFLOW_TRAINER_SERVER_URL=https://elsewhere\n", log)
        self.assertNotIn("KUBEFLOW_TRAINER_SERVER_TOKEN", log)


REPORTS = """\
import time
import lockstep
reporter = lockstep.Reporter()
reporter.report(lockstep.Progress(100, steps_total=1000, loss=0.9))
time.sleep(0.5)
reporter.report(lockstep.Progress(1000, steps_total=1000, loss=0.1))
"""


class Reports(LocalTest):
    def test_the_last_one_before_the_end_is_told(self):
        program = self.scratch / "reports.py"
        program.write_text(REPORTS)
        run = self.run_job(command_manifest(python_words(program), workers=1))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual((run.summary["steps"], run.summary["loss"]), (1000, 0.1), run.output)


if __name__ == "__main__":
    unittest.main()
