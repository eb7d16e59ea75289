"""Racks of a cluster: a gang stands in as few as can hold it, and ranks are numbered along them."""

from jobs import JobCase, is_running, training_job
from kubernetes_case import main

LEVEL = "example.com/rack"
RACKS = 4


class TopologyTest(JobCase):
    """32 GPUs on 16 nodes in four racks. Neighbours by name are never of one rack."""

    nodes, gpus = 16, 2
    operator_flags = (f"--topology-levels={LEVEL}",)

    @classmethod
    def start_more(cls):
        super().start_more()
        cls.racks = {name: f"r{number % RACKS}" for number, name in enumerate(cls.hollow.names)}
        for name, rack in cls.racks.items():
            cls.admin.patch("Node", name, {"metadata": {"labels": {LEVEL: rack}}})

    def racks_by_rank(self, name, workers):
        self.wait_running(name, workers)
        placement = self.job(name)["status"]["placement"]
        self.assertEqual([each["index"] for each in placement], list(range(workers)))
        return [self.racks[each["node"]] for each in placement]

    def hops(self, racks):
        """How often the ring of these ranks goes from one rack to another."""
        return sum(one != other for one, other in zip(racks, racks[1:] + racks[:1]))

    def assert_shortest_ring(self, racks, rack_count):
        self.assertEqual(len(set(racks)), rack_count, racks)
        self.assertEqual(self.hops(racks), rack_count if rack_count > 1 else 0, racks)

    def test_gangs_stand_in_as_few_racks_as_hold_them_and_rings_are_short(self):
        self.create_job("one", 8, scheduling={"topology": {"required": LEVEL}})
        self.assert_shortest_ring(self.racks_by_rank("one", 8), 1)
        self.create_job("three", 20)
        self.assert_shortest_ring(self.racks_by_rank("three", 20), 3)
        self.create_job("rest", 4, scheduling={"topology": {"required": LEVEL}})
        self.assert_shortest_ring(self.racks_by_rank("rest", 4), 1)

    def test_templates_may_ask_for_one_pod_a_node_or_for_one_rack(self):
        """C15 of the third review; kube-scheduler sees the rules in the pods, too."""
        def rule(job, kind, key):
            term = {"topologyKey": key,
                    "labelSelector": {"matchLabels": {"lockstep.dev/job": job}}}
            return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

        self.create_job(
            "apart", 3, pod_spec=rule("apart", "podAntiAffinity", "kubernetes.io/hostname"))
        pods = self.wait_running("apart", 3)
        self.assertEqual(len({pod["spec"]["nodeName"] for pod in pods}), 3)
        self.create_job("together", 4, pod_spec=rule("together", "podAffinity", LEVEL))
        self.assert_shortest_ring(self.racks_by_rank("together", 4), 1)
        self.create_job(
            "too-many", 17, pod_spec=rule("too-many", "podAntiAffinity", "kubernetes.io/hostname"))
        self.wait_waiting("too-many", "17", "16")

    def test_a_rack_that_is_required_is_waited_for(self):
        for number in range(RACKS):
            self.create_job(f"five-{number}", 5, scheduling={"topology": {"required": LEVEL}})
            self.assert_shortest_ring(self.racks_by_rank(f"five-{number}", 5), 1)
        self.create_job("narrow", 6, scheduling={"topology": {"required": LEVEL}})
        self.wait_waiting("narrow", f"needs 6 worker pods in one {LEVEL}; the one with most room, ",
                          ", has room for 3")
        self.end_job("five-2")
        self.assert_shortest_ring(self.racks_by_rank("narrow", 6), 1)

    def test_a_successor_is_placed_though_the_others_node_has_lost_its_rack(self):
        job = training_job("pair", 1, gpus=2, scheduling={"topology": {"required": LEVEL}})
        [worker] = job["spec"]["roles"]
        job["spec"]["roles"].append({**worker, "name": "evaluator"})
        self.admin.create(job, self.namespace)
        self.wait_running("pair", 2)
        node = {each["role"]: each["node"] for each in self.job("pair")["status"]["placement"]}
        rack = self.racks[node["worker"]]
        self.admin.patch("Node", node["worker"], {"metadata": {"labels": {LEVEL: None}}})
        self.addCleanup(self.admin.patch, "Node", node["worker"],
                        {"metadata": {"labels": {LEVEL: rack}}})
        self.hollow.end_pod("pair-evaluator-0", self.namespace, exit_code=137)
        self.wait_for(
            lambda: [pod for pod in self.pods("pair") if is_running(pod)
                     and pod["metadata"]["name"] == "pair-evaluator-0-r1"], 60,
            "the evaluator's successor to run"
        )


if __name__ == "__main__":
    main()
