"""What a worker may do, and whom it obeys. That pods and operator start at all in namespaces that
enforce the level "restricted" is shown by every test beside this one."""

import json
import unittest

from product import ProductCase  # lets us import from other folders
from training import BESIDE_OTHERS

SIGNATURE = "X-Lockstep-Signature"


class SecurityTest(ProductCase):
    def test_workers_hold_no_token_and_refuse_forged_replayed_and_old_messages(self):
        training = self.train(epochs=100, role=BESIDE_OTHERS)
        training.wait_steps()
        self.assert_no_tokens(training)
        worker = training.pods()["worker-1"]
        uid = training.job()["metadata"]["uid"]

        def message(counter, **changes):
            stop = {"jobUid": uid, "attempt": 0, "counter": counter, "kind": "peer_gone",
                    "rank": 0, "epoch": 0, "incarnation": 0}
            return json.dumps({**stop, **changes}).encode()

        def post(body, signature=None):
            signature = training.sign(body) if signature is None else signature
            return training.ask(worker, "/control", body, {SIGNATURE: signature})[0]

        good = message(1000)  # it says what all know already
        self.assertEqual(post(message(999), "0" * 64), 401, "forged")
        self.assertEqual(post(message(999), training.sign(good)), 401, "another's signature")
        self.assertEqual(post(good), 200)
        self.assertEqual(post(good), 409, "replayed")
        self.assertEqual(post(message(999)), 409, "old")
        self.assertEqual(post(message(1001, jobUid="another")), 409, "of another job")
        self.assertEqual(post(b"{}"), 400)
        counted = {
            verdict: training.metric(
                worker, f'lockstep_control_messages_total{{verdict="{verdict}"}}')
            for verdict in ("accepted", "forged", "stale", "malformed")
        }
        self.assertEqual(counted, {"accepted": 1, "forged": 2, "stale": 3, "malformed": 1})
        self.assertEqual(training.ask(worker, "/status")[0], 401, "without the token")
        training.wait_steps()

    def assert_no_tokens(self, training):
        """Of the API server."""
        for pod in training.pods().values():
            self.assertEqual(pod["spec"]["automountServiceAccountToken"], False)
            self.assertFalse([each for each in pod["spec"]["volumes"] if "projected" in each])


if __name__ == "__main__":
    unittest.main()
