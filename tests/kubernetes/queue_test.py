"""Shares of a cluster: what a queue may hold binds its jobs, and what they wait for is said."""

from client import ApiError
from hollow_nodes import GPU
from jobs import JobCase
from kubernetes_case import main


def queue(name, gpus, **spec):
    return {"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue", "metadata": {"name": name},
            "spec": {"nominal": {GPU: gpus}, **spec}}


class QueueTest(JobCase):
    """Eight GPUs on two nodes, shared by two queues."""

    nodes, gpus = 2, 4

    def make_queue(self, *arguments, **spec):
        made = self.admin.create(queue(*arguments, **spec))
        self.addCleanup(self.admin.delete, "TrainingQueue", made["metadata"]["name"])

    def test_a_queue_holds_its_share_and_what_others_leave_unused(self):
        self.make_queue("vision", 4, borrowingLimit={GPU: 2})
        self.make_queue("speech", 4, lendingLimit={GPU: 2})
        self.create_job("first", 4, scheduling={"queue": "vision"})
        self.wait_running("first", 4)
        self.create_job("second", 2, scheduling={"queue": "vision"})
        self.wait_running("second", 2)
        self.create_job("third", 1, scheduling={"queue": "vision"})
        self.wait_waiting(
            "third", "queue vision would be 3 GPUs over its nominal 4, and may borrow 2"
        )
        self.create_job("fourth", 2, scheduling={"queue": "speech"})
        self.wait_running("fourth", 2)

        self.end_job("first")
        self.wait_running("third", 1)

    def test_a_job_waits_for_the_queue_that_it_names(self):
        self.create_job("early", 1, scheduling={"queue": "late"})
        self.wait_waiting("early", "queue late does not exist")
        self.create_job("other", 1)
        self.wait_running("other", 1)
        self.make_queue("late", 1)
        self.wait_running("early", 1)

    def test_the_server_refuses_what_nobody_could_mean(self):
        mistakes = {
            "Team-A": {},
            "loop": {"parent": "loop"},
            "negative": {"borrowingLimit": {GPU: -1}},
            "word": {"lendingLimit": {GPU: "many"}},
            "light": {"weight": 0},
            "random": {"ordering": "Random"},
        }
        for name, spec in mistakes.items():
            with self.subTest(name), self.assertRaises(ApiError) as refused:
                self.admin.create(queue(name, 1, **spec))
            self.assertIn(refused.exception.code, (400, 422))
        shown = self.plane.kubectl("get", "tq")
        self.assertNotIn("loop", shown)


if __name__ == "__main__":
    main()
