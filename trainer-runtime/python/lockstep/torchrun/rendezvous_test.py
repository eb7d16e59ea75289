"""A torchrun's part in the meetings, with a session that is played."""

import contextlib
import io
import os
import signal
import threading
import unittest
import unittest.mock

from lockstep.errors import Finished, MeetAgain, Mismatch, Status
from lockstep.session import Meeting
from lockstep.torchrun import rendezvous
from lockstep.torchrun.rendezvous import Rendezvous

PATIENCE = 60.0


class FakeSession:
    """Of a job of one pod. What is in `errors` is raised by the calls of that name, one each."""

    def __init__(self, **errors):
        self.errors = errors
        self.epoch = 0
        self.loss = threading.Event()
        self.aborted = threading.Event()

    def _raise(self, name):
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def meet(self, has_state, step):
        self._raise("meet")
        self.epoch += 1
        return Meeting(self.epoch, 0, 1, None, ())

    def broadcast(self, array, root):
        self._raise("broadcast")

    def finish(self, timeout):
        self._raise("finish")

    def await_loss(self, epoch, timeout):
        return MeetAgain("rank 1 is lost: closed") if self.loss.wait(0.01) else None

    def abort(self, reason):
        self.aborted.set()

    def close(self):
        self.epoch = -1


class Meetings(unittest.TestCase):
    def setUp(self):
        variables = unittest.mock.patch.dict(
            os.environ, LOCKSTEP_HOST="127.0.0.1", LOCKSTEP_PROCESSES="2")
        variables.start()
        self.addCleanup(variables.stop)
        self.told = io.StringIO()
        quiet = contextlib.redirect_stderr(self.told)
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def rendezvous(self, **errors):
        one = Rendezvous("run")
        one._session = FakeSession(**errors)
        self.addCleanup(one.shutdown)
        return one

    def test_workers_find_a_new_store_in_each(self):
        one = self.rendezvous()
        with unittest.mock.patch.object(rendezvous, "_SHARES_STORE", True):
            for _ in range(2):
                one.next_rendezvous()
                client = rendezvous._dist.TCPStore("127.0.0.1", one._store.port, is_master=False,
                                                   wait_for_workers=False)
                self.assertEqual(client.add("starts", 1), 1)
        self.assertEqual(one.num_nodes_waiting(), 0)

    def test_a_loss_asks_torchrun_to_come_again(self):
        one = self.rendezvous()
        one.next_rendezvous()
        one._session.loss.set()
        self.assertTrue(one.await_loss(PATIENCE))
        self.assertEqual(one.num_nodes_waiting(), 1)
        self.assertIn("rank 2 is lost: closed", self.told.getvalue())  # as the job counts
        one._session.loss.clear()
        one.next_rendezvous()
        self.assertEqual(one.num_nodes_waiting(), 0)

    def test_a_loss_before_all_know_the_store_leads_to_another_meeting(self):
        lost = MeetAgain("rank 1 is lost: closed")
        one = self.rendezvous(broadcast=[lost, lost])
        one.next_rendezvous()
        self.assertEqual(one._session.epoch, 3)
        with self.assertRaises(SystemExit) as end:
            self.rendezvous(broadcast=[lost] * 100).next_rendezvous()
        self.assertEqual(end.exception.code, 75)

    def test_what_cannot_be_answered_ends_torchrun_with_its_code_and_the_jobs_ranks(self):
        for error, code in (
                (MeetAgain("rank 1 at a:1 did not come", Status.TIMEOUT), 75),
                (Finished("all other ranks have finished"), 0),
                (Mismatch("rank 1 has a different plan than rank 0"), 1)):
            with self.assertRaises(SystemExit) as end:
                self.rendezvous(meet=[error]).next_rendezvous()
            self.assertEqual(end.exception.code, code)
        self.assertIn("rank 2 at a:1 did not come\n", self.told.getvalue())
        self.assertIn("rank 2 has a different plan than rank 0\n", self.told.getvalue())

    def test_done_once_all_are_and_not_after_a_loss(self):
        self.assertTrue(self.rendezvous().finish())
        one = self.rendezvous(finish=[MeetAgain("rank 1 is lost: closed")])
        self.assertFalse(one.finish())
        self.assertEqual(one.num_nodes_waiting(), 1)

    def test_a_signal_is_handled_while_torchrun_waits_and_ends_the_call(self):
        class Stopped(Exception):
            pass

        def stop(number, frame):
            raise Stopped

        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, stop))
        one = self.rendezvous()

        def meet(has_state, step):
            os.kill(os.getpid(), signal.SIGTERM)
            one._session.aborted.wait(PATIENCE)
            raise MeetAgain("aborted", Status.ABORTED)

        one._session.meet = meet
        with self.assertRaises(Stopped):
            one.next_rendezvous()
        self.assertTrue(one._session.aborted.is_set())


class Addresses(unittest.TestCase):
    def own_address(self, host, found):
        results = [(None, None, None, None, (address, 0)) for address in found]
        with unittest.mock.patch.dict(os.environ, LOCKSTEP_HOST=host), \
                unittest.mock.patch("socket.getaddrinfo", lambda *_, **__: results):
            return rendezvous._own_address()

    def test_a_name_may_lead_to_an_older_pod_so_the_number_is_told(self):
        name = "job-worker-0.job.team.svc"
        for host, found, expected in (
                ("127.4.5.6", ["10.0.0.7"], "127.4.5.6"),
                (name, ["127.0.1.1", "10.0.0.7"], "10.0.0.7"),
                (name, ["fe80::1%eth0"], "fe80::1%eth0"),
                (name, ["127.0.1.1"], name)):
            self.assertEqual(self.own_address(host, found), expected)


if __name__ == "__main__":
    unittest.main()
