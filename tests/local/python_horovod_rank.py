"""One rank of tests of lockstep.horovod.torch: the arguments say what it does, one after the other.
It ends with 0 when all came out as it should."""

import atexit
import os
import signal
import sys
import time
import unittest

import torch

import lockstep
import lockstep.horovod.torch as hvd
from lockstep.horovod import process


class Rank(unittest.TestCase):
    """Assertions, and one part a method."""

    def setUp(self):
        hvd.init()

    def collectives(self):
        rank, size = hvd.rank(), hvd.size()
        self.assertEqual((rank, size), (int(os.environ["RANK"]), 3))
        each = [torch.arange(6.0).reshape(2, 3) + one for one in range(size)]
        for op, expected in ((hvd.Average, sum(each) / size), (hvd.Sum, sum(each)),
                             (hvd.Min, each[0]), (hvd.Max, each[-1]),
                             (hvd.Product, each[0] * each[1] * each[2])):
            torch.testing.assert_close(hvd.allreduce(each[rank], op=op), expected)
        handles = [hvd.allreduce_async(each[rank] * k, name=str(k), op=hvd.Sum)
                   for k in range(20)]
        for k, handle in enumerate(handles):
            torch.testing.assert_close(hvd.synchronize(handle), sum(each) * k)
            self.assertTrue(hvd.poll(handle))
        rows = hvd.allgather(torch.full((rank, 2), rank))
        self.assertEqual(rows.tolist(), [[1, 1], [2, 2], [2, 2]])
        self.assertEqual(hvd.broadcast(each[rank], 2).tolist(), each[2].tolist())
        received, counts = hvd.alltoall(torch.arange(6) + 10 * rank, splits=[1, 2, 3])
        self.assertEqual(counts.tolist(), [rank + 1] * 3)
        begin = [0, 1, 3][rank]
        self.assertEqual(received.tolist(), [10 * other + begin + k for other in range(3)
                                             for k in range(rank + 1)])
        self.assertEqual(hvd.allgather_object({"rank": rank}), [{"rank": r} for r in range(3)])
        self.assertEqual(hvd.broadcast_object([rank], 1), [1])
        hvd.barrier()

    def mismatch(self):
        with self.assertRaises(lockstep.Mismatch) as raised:
            hvd.allreduce(torch.zeros(3 + hvd.rank()), name="loss")
        self.assertRegex(str(raised.exception), r'rank 0 calls allreduce "loss" of float32 \[3\], '
                         r'Average, rank 1 calls allreduce "loss" of float32 \[4\]')

    def begun_mismatch(self):
        """What was begun does not hold up the end."""
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(torch.zeros(3), name="loss")
            with self.assertRaisesRegex(lockstep.Mismatch, 'rank 1 calls broadcast "loss"'):
                hvd.synchronize(handle)
        else:
            with self.assertRaisesRegex(lockstep.Mismatch, 'rank 0 calls allreduce "loss"'):
                hvd.broadcast(torch.zeros(3), 0, name="loss")

    def silent(self):
        """Rank 1 never calls."""
        if hvd.rank() == 1:
            time.sleep(6)
            os._exit(0)
        with self.assertRaises(SystemExit) as end:
            hvd.allreduce(torch.zeros(3), name="loss")
        self.assertEqual(end.exception.code, 75)

    def join(self):
        """Rank r has r + 1 batches."""
        model = torch.nn.Linear(2, 1)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(hvd.rank() + 1):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        self.assertEqual(hvd.join(), hvd.size() - 1)
        self.assertAlmostEqual(  # in its last step, with those that have as many
            model.bias.grad.item(), (hvd.size() - hvd.rank()) / hvd.size(), places=6)

    def leaves(self):
        """Rank 0 shuts down while the others work."""
        if hvd.rank() == 0:
            with self.assertRaisesRegex(lockstep.Mismatch, "rank 0 has shut down while rank 1"):
                hvd.shutdown()
            return
        with self.assertRaises(SystemExit) as end:
            hvd.allreduce(torch.zeros(3), name="loss")
        self.assertEqual(end.exception.code, 75)


def exit_early():
    """Rank 0 has fewer steps than the others."""
    hvd.init()
    for step in range(20):
        hvd.allreduce(torch.ones(4), name="gradient")
        if step == 10 and hvd.rank() == 0:
            sys.exit(0)


def hide_mismatch():
    """Ranks differ as only headers show, and the exit code says nothing of it."""
    hvd.init()
    try:
        hvd.broadcast(torch.zeros(2), 0, name=f"of rank {hvd.rank()}")
    except lockstep.Mismatch:
        os._exit(0)


def die_in_teardown():
    """As in the destructors of a library, which run when all ranks have shut down."""
    atexit.unregister(process._at_exit)
    if int(os.environ["RANK"]) == 0:
        atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    atexit.register(process._at_exit)
    hvd.init()
    print(f"process {os.getpid()} has begun", flush=True)
    hvd.allreduce(torch.ones(4), name="gradient")


if __name__ == "__main__":
    if sys.argv[1] == "die_in_teardown":
        die_in_teardown()
        sys.exit(0)
    if sys.argv[1] == "hide_mismatch":
        hide_mismatch()
    if sys.argv[1] == "exit_early":
        exit_early()
        sys.exit(0)
    parts = unittest.TestSuite(map(Rank, sys.argv[1:]))
    result = unittest.TextTestRunner(stream=sys.stderr, failfast=True).run(parts)
    sys.exit(0 if result.wasSuccessful() else 1)
