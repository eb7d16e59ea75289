"""What a process counts of the steps of its optimizers."""

import array
import os
import tempfile
import unittest
import unittest.mock

from lockstep_hang import steps


class Optimizer:
    """As torch's keep their state: by parameter."""

    def __init__(self, **state):
        self.state = {"weight": state} if state else {}


class Counted(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile()
        self.addCleanup(self.file.close)
        self.file.write(bytes(48))
        self.file.flush()
        self.environment = {steps.VARIABLE: self.file.name}

    def counter(self, **environment):
        patch = unittest.mock.patch.dict(os.environ, {**self.environment, **environment})
        patch.start()
        self.addCleanup(patch.stop)
        return steps.Counter()

    def told(self, place=0):
        """Count and step of a process."""
        with open(self.file.name, "rb") as file:
            numbers = array.array("q", file.read())
        return list(numbers[3 * place:3 * place + 2])

    def test_steps_from_the_first_on(self):
        counter, optimizer = self.counter(), Optimizer()
        for step in range(1, 4):
            counter.note(optimizer)
            self.assertEqual(self.told(), [step, step])

    def test_optimizer_that_counts_knows_where_its_checkpoint_was(self):
        counter, optimizer = self.counter(LOCKSTEP_ATTEMPT="2"), Optimizer(step=301.0)
        counter.note(optimizer)
        counter.note(optimizer)
        self.assertEqual(self.told(), [2, 302])

    def test_another_one_does_not_after_a_restart(self):
        for environment in ({"LOCKSTEP_ATTEMPT": "1"}, {"LOCKSTEP_INCARNATION": "1"}):
            with self.subTest(environment):
                self.setUp()
                self.counter(**environment).note(Optimizer())
                self.assertEqual(self.told(), [1, steps.UNKNOWN])

    def test_nor_after_another_process_of_the_pod(self):
        numbers = array.array("q", [5, 5, 2 ** 30, 0, 0, 0])  # such a process there is never
        with open(self.file.name, "r+b") as file:
            file.write(numbers.tobytes())
        self.counter().note(Optimizer())
        self.assertEqual(self.told(), [6, steps.UNKNOWN])

    def test_of_several_optimizers_the_one_with_most_steps_stands_for_the_training(self):
        counter, critic, actor = self.counter(), Optimizer(), Optimizer()
        for optimizer in (critic, critic, actor, critic, actor):
            counter.note(optimizer)
        self.assertEqual(self.told(), [5, 3])

    def test_each_process_of_a_pod_has_its_place(self):
        self.counter(LOCKSTEP_LOCAL_RANK="1", LOCAL_RANK="1").note(Optimizer())
        self.assertEqual(self.told(0), [0, 0])
        self.assertEqual(self.told(1), [1, 1])

    def test_of_torchruns_workers_the_first_counts(self):
        self.counter(LOCKSTEP_LOCAL_RANK="0", LOCAL_RANK="1").note(Optimizer())
        self.assertEqual(self.told(), [0, 0])
        self.counter(LOCKSTEP_LOCAL_RANK="0", LOCAL_RANK="0").note(Optimizer())
        self.assertEqual(self.told(), [1, 1])

    def test_process_beside_the_one_that_counts_does_not(self):
        parent = os.getppid()
        numbers = array.array("q", [5, 5, parent, 0, 0, 0])
        with open(self.file.name, "r+b") as file:
            file.write(numbers.tobytes())
        self.counter().note(Optimizer())
        self.assertEqual(self.told(), [5, 5])

    def test_fork_counts_for_itself(self):
        counter, optimizer = self.counter(), Optimizer()
        counter.note(optimizer)
        child = os.fork()
        if child == 0:
            counter.note(optimizer)  # its parent counts
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(self.told(), [1, 1])

    def test_nothing_without_a_file(self):
        for path in ("", "/nowhere/at/all"):
            with self.subTest(path), unittest.mock.patch.dict(
                    os.environ, {steps.VARIABLE: path}):
                steps._note(Optimizer(), (), {})


if __name__ == "__main__":
    unittest.main()
