"""Jobs that do not fit together, on nodes with devices: 4 on each of two."""

import unittest

from product import ProductCase  # lets us import from other folders
from jobs import condition, is_running
from processes import wait_for
from training import BESIDE_OTHERS, Training


class DeviceTest(ProductCase):
    def test_jobs_of_5_5_and_3_devices_share_8_and_no_device_is_given_twice(self):
        before = len(self.handed_out())
        self.start_command("first", 5, gpus=1)
        self.wait_running("first", 5)
        self.start_command("second", 5, gpus=1)
        self.wait_waiting("second", "needs 5 GPUs, 3 free")
        self.start_command("third", 3, gpus=1)  # it does not stand in the way of the second
        self.wait_running("third", 3)
        self.assertEqual(self.pods("second"), [])
        given = self.handed_out()[before:]  # none of it was given back yet
        self.assertEqual((len(given), len(set(given))), (8, 8), given)
        self.admin.delete("TrainingJob", "first", self.namespace)
        self.wait_running("second", 5)
        held = [device for pod in self.pods("third")
                for device in self.product.node_of(pod).devices_of(pod)]
        given = self.handed_out()[before + 8:]
        self.assertEqual(len(given), 5)
        self.assertEqual(len(set(given + held)), 8, (given, held))

    def test_what_runtimes_see_is_compared_with_what_was_planned(self):
        training = Training(self.product, self.namespace)
        training.start(role={"replicas": 2, "gpus": 1, **BESIDE_OTHERS}, epochs=300)

        def judged():
            found = condition(training.job(), "GPUAssignment")
            return found and found[0]

        wait_for(judged, 120, "GPUAssignment to be true")
        seen = [device for place in training.job()["status"]["placement"]
                for device in place.get("devices", [])]
        self.assertEqual(sorted(seen), sorted(self.handed_out()[-2:]))

    def test_a_node_that_refuses_pods_comes_last(self):
        refusing, other = self.product.home_and_away()
        refusing.refuse_allocations()
        self.addCleanup(refusing.refuse_allocations, False)
        self.set_schedulable(other, False)
        self.addCleanup(self.set_schedulable, other, True)
        self.start_command("refused", 2, gpus=1)
        self.wait_waiting("refused", "PodRefused", refusing.name, "Allocate failed")
        self.assertEqual(self.suspects("refused"), [refusing.name])
        self.set_schedulable(other, True)
        self.wait_running("refused", 2)
        self.assertEqual({pod["spec"]["nodeName"] for pod in self.pods("refused")}, {other.name})
        status = self.admin.get("TrainingJob", "refused", self.namespace)["status"]
        self.assertEqual((status.get("restartCount", 0), status.get("incidents", [])), (0, []))

    def suspects(self, name):
        status = self.admin.get("TrainingJob", name, self.namespace)["status"]
        return [each["node"] for each in status.get("suspectNodes", [])]

    def handed_out(self):
        """Devices in the order in which the device plugins handed them out, by their own record."""
        entries = [entry for node in self.cluster.nodes for entry in node.allocation_log()]
        entries.sort(key=lambda entry: entry["time"])
        return [device for entry in entries for device in entry["devices"]]

    def pods(self, name):
        return self.admin.list("Pod", self.namespace, labels=f"lockstep.dev/job={name}")

    def wait_running(self, name, count):
        def run():
            pods = self.pods(name)
            return len(pods) == count and all(map(is_running, pods))

        wait_for(run, 60, f"{name} to run")

    def wait_waiting(self, name, *words):
        training = Training(self.product, self.namespace, name)

        def says():
            found = condition(training.job(), "Scheduled")
            return found and not found[0] and all(word in " ".join(found[1:]) for word in words)

        training.wait(says, 30, f"{name} to wait because of {words}")


if __name__ == "__main__":
    unittest.main()
