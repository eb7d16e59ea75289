"""Which GPUs of its pod each process of a command sees, over the double of NVIDIA's management
library, and what a program finds there that picks its own as it does under other launchers."""

import json
import sys
import unittest

from harness import BIN
from runtime_pods import RuntimePodsTest

LIBRARY = BIN / "liblockstep_test_nvml.so"
COUNT = 8

# In another order than on the bus.
DEVICES = [f"GPU-{7 - i}@00000000:{0x10 + 7 - i:02X}:00.0" for i in range(COUNT)]
IN_BUS_ORDER = [f"GPU-{i}" for i in range(COUNT)]

# What CUDA lists to a process, and which device each way of choosing one takes: by LOCAL_RANK as
# under torchrun, and by the local rank of Horovod's launcher.
PROGRAM = """
import json, os
seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
def pick(variable):
    index = int(os.environ[variable])
    return seen[index] if index < len(seen) else "invalid device ordinal"
print(json.dumps({"rank": int(os.environ["RANK"]), "seen": seen,
                  "order": os.environ.get("CUDA_DEVICE_ORDER"),
                  "torch": pick("LOCAL_RANK"), "horovod": pick("HOROVOD_LOCAL_RANK")}))
"""


class GpuVisibility(RuntimePodsTest):
    def see(self, processes, visibility=None, devices=None, **variables):
        """What each process prints, by local rank."""
        self.assertTrue(LIBRARY.exists(), "build the target lockstep_test_nvml")
        link = self.scratch / "libnvidia-ml.so.1"
        if not link.exists():
            link.symlink_to(LIBRARY)
        variables |= {"LD_LIBRARY_PATH": str(self.scratch),
                      "LOCKSTEP_TEST_NVML_DEVICES": ",".join(devices or DEVICES)}
        if visibility:
            variables["LOCKSTEP_GPU_VISIBILITY"] = visibility
        pod, = self.run_pods([sys.executable, "-c", PROGRAM], processes=processes,
                             arguments=["--no-prefix"], variables=variables)
        self.assertEqual(pod.exit_code, 0, pod.output)
        said = sorted((json.loads(line) for line in pod.output.splitlines() if line[0] == "{"),
                      key=lambda one: one["rank"])
        self.assertEqual([one["rank"] for one in said], list(range(processes)), pod.output)
        return said

    def test_program_that_picks_by_local_rank_finds_its_own(self):
        said = self.see(COUNT)
        self.assertEqual([one["torch"] for one in said], IN_BUS_ORDER)
        self.assertEqual([one["horovod"] for one in said], IN_BUS_ORDER)
        for one in said:
            self.assertEqual(one["seen"], IN_BUS_ORDER)
            self.assertEqual(one["order"], "PCI_BUS_ID")
        self.assertEqual(self.see(COUNT, "All"), said)

    def test_one_on_request(self):
        self.assertEqual([one["seen"] for one in self.see(COUNT, "One")],
                         [[name] for name in IN_BUS_ORDER])

    def test_processes_that_share_a_gpu_see_it_alone(self):
        said = self.see(3, devices=DEVICES[-2:])
        self.assertEqual([one["seen"] for one in said], [["GPU-0"], ["GPU-1"], ["GPU-0"]])

    def test_choice_of_the_image_stays(self):
        said = self.see(2, "One", CUDA_VISIBLE_DEVICES="5,6")
        self.assertEqual([one["torch"] for one in said], ["5", "6"])
        self.assertEqual(said[0]["order"], None)


if __name__ == "__main__":
    unittest.main(verbosity=2)
