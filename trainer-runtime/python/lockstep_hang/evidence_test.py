"""What a process says of its collectives, by a record as torch makes it."""

import json
import os
import socket
import unittest
import unittest.mock

import lockstep_hang

MEMBERS = {"0": ("default_pg", [0, 1]), "1": ("undefined", [0, 1]), "2": ("dp", [0])}


def entry(number, state="completed", group="0", record=0, **changes):
    return {"process_group": [group, ""], "collective_seq_id": number, "state": state,
            "profiling_name": "nccl:all_reduce", "record_id": record, "is_p2p": False,
            "retired": False, **changes}


class Groups(unittest.TestCase):
    def groups(self, *entries):
        found = lockstep_hang.groups_of({"entries": list(entries)}, MEMBERS)
        return {group["name"]: (group["called"], group["waitsIn"], group["operation"])
                for group in found}

    def test_the_oldest_that_is_not_completed_is_waited_in(self):
        self.assertEqual(
            self.groups(entry(1), entry(2, "started", profiling_name="gloo:broadcast"),
                        entry(3, "scheduled")),
            {"group default_pg": (3, 2, "broadcast"), "group 1": (0, 0, ""),
             "group dp": (0, 0, "")})

    def test_groups_in_which_it_waits_come_first(self):
        self.assertEqual(list(self.groups(entry(1), entry(1, "scheduled", group="1", record=1))),
                         ["group 1", "group default_pg", "group dp"])

    def test_what_is_done_is_not_waited_in(self):
        self.assertEqual(
            self.groups(entry(4), entry(5, "scheduled", retired=True))["group default_pg"],
            (5, 0, "all_reduce"))

    def test_sends_are_a_group_of_one_rank(self):
        sends = [entry(0, state, record=record, is_p2p=True, profiling_name="gloo:recv 0<-1")
                 for record, state in ((0, "completed"), (1, "started"), (2, "scheduled"))]
        found = lockstep_hang.groups_of({"entries": sends}, MEMBERS, rank=3)[0]
        self.assertEqual(found, {"id": "sends-3", "name": "sends of rank 3", "called": 3,
                                 "waitsIn": 2, "operation": "recv 0<-1", "used": 3})

    def test_a_group_made_anew_under_its_old_name_counts_from_1_again(self):
        self.assertEqual(
            self.groups(entry(29, record=0), entry(30, "started", record=1), entry(1, record=2),
                        entry(2, "started", record=3))["group default_pg"],
            (2, 2, "all_reduce"))

    def test_of_many_groups_those_used_last_are_told(self):
        members = {str(number): (f"g{number}", [0, 1]) for number in range(100)}
        entries = [entry(1, group=str(number), record=number) for number in range(100)]
        found = lockstep_hang.groups_of({"entries": entries}, members)
        self.assertEqual([group["name"] for group in found[:2]], ["group g99", "group g98"])

    def test_a_group_that_the_record_may_have_forgotten_is_left_out(self):
        self.assertEqual(list(self.groups(entry(3000, record=2000))), ["group default_pg"])
        self.assertEqual(self.groups(), {})

    def test_groups_of_other_ranks_differ_though_their_names_are_equal(self):
        ids = {lockstep_hang.groups_of({"entries": [entry(1)]}, {"0": ("dp", ranks)})[0]["id"]
               for ranks in ([0, 1], [2, 3])}
        self.assertEqual(len(ids), 2)


def ask_here(client, name):
    client.connect(name)  # here, too: the answer says where this thread is at that moment
    return client.recv(4096)


class Answers(unittest.TestCase):
    def ask(self, wait):
        """The evidence of this process whose main thread is in `wait`."""
        with unittest.mock.patch.dict(os.environ, {lockstep_hang.VARIABLE: "lockstep-unit",
                                                   "RANK": "3"}):
            lockstep_hang.answer_requests()
            lockstep_hang.answer_requests()  # once is enough
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                return json.loads(wait(client, f"\0lockstep-unit-{os.getpid()}"))

    def test_who_is_in_a_call_of_torch_waits_there(self):
        """As in `recv` and `new_group`, of which the recorder of gloo knows nothing."""
        parts = {}
        words = "def recv(client, name):\n  client.connect(name)\n  return client.recv(4096)\n"
        exec(compile(words, "/x/site-packages/torch/distributed/distributed_c10d.py", "exec"),
             parts)
        with unittest.mock.patch.multiple(lockstep_hang, _members=lambda: MEMBERS,
                                          _recorded=lambda: {"entries": [entry(1)]}):
            waits = self.ask(lambda client, name: parts["recv"](client, name))
            plain = self.ask(ask_here)
        self.assertEqual(waits["groups"][0]["operation"], "recv")
        self.assertEqual([group["waitsIn"] for group in waits["groups"]], [1, 0, 0, 0])
        self.assertEqual([group["waitsIn"] for group in plain["groups"]], [0, 0, 0])

    def test_outside_of_a_watched_job_nothing_listens(self):
        with unittest.mock.patch.object(lockstep_hang.threading, "Thread") as thread:
            lockstep_hang.answer_requests()
        thread.assert_not_called()

    def test_it_answers_without_torch(self):
        evidence = self.ask(ask_here)
        self.assertEqual((evidence["rank"], evidence["groups"]), (3, []))
        self.assertRegex(evidence["place"], r"^ask_here \(evidence_test")


if __name__ == "__main__":
    unittest.main()
