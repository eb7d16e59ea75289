"""One rank of tests of lockstep.horovod.tensorflow: the first argument says what it does. It ends
with 0 when all came out as it should."""

import os
import sys
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import lockstep
import lockstep.horovod.tensorflow as hvd
import lockstep.horovod.tensorflow.keras as hvd_keras


def own(rank):
    return tf.reshape(tf.range(6, dtype=tf.float32), [2, 3]) + float(rank + 1)


class Rank(unittest.TestCase):
    """Assertions, and one part a method."""

    def setUp(self):
        hvd.init()

    def same(self, found, expected):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)

    def collectives(self):
        rank, size = hvd.rank(), hvd.size()
        self.assertEqual((rank, size), (int(os.environ["RANK"]), 3))
        each = [own(one) for one in range(size)]

        def all_of_them():
            rows = tf.fill([rank, 2], float(rank))
            exchanged, counts = hvd.alltoall(tf.range(6) + 10 * rank, splits=[1, 2, 3])
            small = hvd.allreduce(each[rank], compression=hvd.Compression.fp16)
            hvd.barrier()
            return (
                [hvd.allreduce(each[rank], op=op) for op in
                 (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)],
                hvd.grouped_allreduce(
                    [each[rank], tf.constant([rank]), each[rank] * 2], op=hvd.Sum),
                small, hvd.allgather(rows), hvd.broadcast(each[rank], 2), exchanged, counts,
                hvd.reducescatter(tf.reshape(tf.range(8.0), [4, 2]) + rank, op=hvd.Sum),
                hvd.allreduce(tf.cast(each[rank], tf.bfloat16), op=hvd.Sum))
        for run in (all_of_them, tf.function(all_of_them)):
            reduced, grouped, small, rows, sent, exchanged, counts, scattered, brain = run()
            for found, expected in zip(reduced, (
                    sum(each) / size, sum(each), each[0], each[-1], each[0] * each[1] * each[2])):
                self.same(found, expected)
            for found, expected in zip(grouped, (sum(each), [3], sum(each) * 2)):
                self.same(found, expected)
            self.assertEqual((small.dtype, brain.dtype), (tf.float32, tf.bfloat16))
            np.testing.assert_allclose(small, sum(each) / size, rtol=2e-3)
            np.testing.assert_allclose(tf.cast(brain, tf.float32), sum(each), rtol=2e-2)
            self.same(rows, [[1, 1], [2, 2], [2, 2]])
            self.same(sent, each[2])
            begin = [0, 1, 3][rank]
            self.same(exchanged, [10 * other + begin + k for other in range(3)
                                  for k in range(rank + 1)])
            self.same(counts, [rank + 1] * 3)
            whole = np.arange(8.0).reshape(4, 2) * 3 + 3
            self.same(scattered, [whole[:2], whole[2:3], whole[3:]][rank])
        self.assertEqual(hvd.allgather_object({"rank": rank}), [{"rank": r} for r in range(3)])
        self.assertEqual(hvd.broadcast_object([rank], 1), [1])
        self.assertEqual((int(hvd.size_op()), int(hvd.rank_op())), (3, rank))

    def gradients(self):
        """They go back as Horovod has it."""
        rank, size = hvd.rank(), hvd.size()

        def through(call):
            def run():
                given = own(rank)
                with tf.GradientTape() as tape:
                    tape.watch(given)
                    # Another weight on each rank.
                    result = tf.reduce_sum(call(given)) * (rank + 1.0)
                return tape.gradient(result, given)
            eager, compiled = run(), tf.function(run)()
            self.same(eager, compiled)
            return eager
        mean, total = (size + 1) / 2, size * (size + 1) / 2
        ones = np.ones((2, 3))
        self.same(through(hvd.allreduce), ones * mean)
        self.same(through(lambda x: hvd.allreduce(x, op=hvd.Sum)), ones * total)
        self.same(through(hvd.allgather), ones * mean)
        self.same(through(lambda x: hvd.broadcast(x, 1)), ones * mean if rank == 1 else ones * 0)
        rows = np.array([[r // (2 // size) + 1.0] * 3 for r in range(2)])
        self.same(through(hvd.alltoall), rows)
        self.same(through(lambda x: hvd.reducescatter(x, op=hvd.Average)), rows)
        self.same(through(lambda x: hvd.reducescatter(x, op=hvd.Sum)), rows * size)
        self.same(through(lambda x: hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)[1]),
                  ones * total * 2)

    def sparse(self):
        """Rank r has one row, at place r."""
        rank, size = hvd.rank(), hvd.size()
        variable = tf.Variable(tf.zeros([4, 2]))

        def gradient(**named):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(variable, [rank])) * (rank + 1.0)
            return hvd.DistributedGradientTape(tape, **named).gradient(loss, [variable])[0]
        expected = np.zeros((4, 2))
        for one in range(size):
            expected[one] = (one + 1) / size
        for run in (gradient, tf.function(gradient)):
            found = run()
            self.assertIsInstance(found, tf.IndexedSlices)
            self.same(tf.convert_to_tensor(found), expected)
            dense = run(sparse_as_dense=True)
            self.assertNotIsInstance(dense, tf.IndexedSlices)
            self.same(dense, expected)
        for found in (hvd.allreduce(tf.IndexedSlices(own(rank), [0, 1], [4, 3]), op=hvd.Sum),):
            self.assertEqual(found.values.shape[0], 2 * size)

    def order(self):
        """Calls of a function come in the order in which they are written, whatever could start
        first, in branches and loops as well."""
        rank = hvd.rank()

        @tf.function
        def many(flag, times):
            slow = tf.reduce_sum(tf.linalg.matmul(tf.ones([300, 300]), tf.ones([300, 300])))
            first = hvd.allreduce(slow * 0 + rank, name="slow", op=hvd.Sum)
            second = hvd.allreduce(tf.constant(1.0), name="quick", op=hvd.Sum)
            if flag:
                third = hvd.allreduce(tf.constant(2.0), name="branch", op=hvd.Sum)
            else:
                third = hvd.allreduce(tf.constant(3.0), name="other branch", op=hvd.Sum)
            total = tf.constant(0.0)
            for _ in tf.range(times):
                total += hvd.allreduce(tf.constant(1.0), name="loop", op=hvd.Sum)
            return first, second, third, total
        for repeat in range(20):
            found = [float(one) for one in many(tf.constant(repeat % 2 == 0), tf.constant(3))]
            size = float(hvd.size())
            self.assertEqual(found, [sum(range(hvd.size())), size,
                                     (2 if repeat % 2 == 0 else 3) * size, 3 * size])

    def mismatch(self):
        """An error of all ranks, in TensorFlow's words around ours where a function is run."""
        @tf.function
        def within():
            return hvd.allreduce(tf.zeros(3 + hvd.rank()), name="loss")
        with self.assertRaises(tf.errors.OpError) as raised:
            within()
        words = (r'rank 0 calls allreduce "loss" of float32 \[3\], Average, rank 1 calls allreduce '
                 r'"loss" of float32 \[4\]')
        self.assertRegex(str(raised.exception), words)
        with self.assertRaisesRegex(lockstep.Mismatch, "after an earlier error: " + words):
            hvd.barrier()

    def leaves(self):
        """Rank 0 ends while the others are in a function."""
        if hvd.rank() == 0:
            hvd.shutdown()
            return

        @tf.function
        def within():
            return hvd.allreduce(tf.zeros(3), name="loss")
        within()

    def join(self):
        """Rank r has r + 1 batches."""
        for step in range(hvd.rank() + 1):
            self.same(hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name=str(step)),
                      [hvd.size() - step])
        self.assertEqual(hvd.join(), hvd.size() - 1)

    def strings(self):
        """They are refused by call and type, eagerly and within a function."""
        tensor = tf.constant(["a", "bc"])
        scalar = tf.Variable("abc")
        sparse = tf.IndexedSlices(tensor, [0, 1], [4])
        for words, call in (
            ("x: broadcast of string", lambda: hvd.broadcast(tensor, 0, name="x")),
            ("^broadcast of string", lambda: hvd_keras.broadcast("abc", 0)),
            ("^allgather of string", lambda: hvd.allgather(tensor)),
            ("^alltoall of string", lambda: hvd.alltoall(tensor)),
            ("^broadcast_variables of string", lambda: hvd.broadcast_variables([scalar], 0)),
            ("allreduce: Average of string", lambda: hvd.allreduce(tensor)),
            ("x: Sum of string", lambda: hvd.allreduce(sparse, op=hvd.Sum, name="x")),
            ("Sum of string", lambda: hvd.grouped_allreduce([tensor], op=hvd.Sum)),
            ("Sum of string", lambda: hvd.reducescatter(tensor, op=hvd.Sum)),
        ):
            words += " found, expected numbers( or bool)?: for other objects use broadcast_object"
            for run in (call, tf.function(call, autograph=False)):
                with self.subTest(words), self.assertRaisesRegex(lockstep.InvalidArgument, words):
                    run()

    def refusals(self):
        optimizer = tf.keras.optimizers.SGD(0.1)
        tensor = tf.zeros([2, 2])
        for words, call in (
            ("op: Adasum found", lambda: hvd.allreduce(tensor, op=hvd.Adasum)),
            ("process_set: 3 found", lambda: hvd.allreduce(tensor, process_set=3)),
            ("device_dense: '/gpu:0' found", lambda: hvd.allreduce(tensor, device_dense="/gpu:0")),
            ("x: Average of int32 found", lambda: hvd.allreduce(tf.constant([1]), name="x")),
            ("root_rank 7 found", lambda: hvd.broadcast(tensor, 7)),
            ("broadcast_global_variables: .* call broadcast_variables",
             lambda: hvd.broadcast_global_variables(0)),
            ("broadcast_global_variables: .*BroadcastGlobalVariablesCallback",
             lambda: hvd_keras.broadcast_global_variables(0)),
            ("num_groups, groups: 2", lambda: hvd.DistributedOptimizer(optimizer, num_groups=2)),
            ("op: Min found", lambda: hvd.DistributedOptimizer(optimizer, op=hvd.Min)),
            ("backward_passes_per_step: 0", lambda: hvd.DistributedOptimizer(
                optimizer, backward_passes_per_step=0)),
            ("optimizer: str found", lambda: hvd.DistributedOptimizer("adam")),
            ("scale_local_gradients: False", lambda: hvd.DistributedGradientTape(
                None, scale_local_gradients=False)),
            ("optimizer: a DistributedOptimizer", lambda: hvd.DistributedOptimizer(
                hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)))),
        ):
            with self.subTest(words), self.assertRaisesRegex(lockstep.InvalidArgument, words):
                call()
        with self.assertRaisesRegex(AttributeError, "SyncBatchNormalization of Horovod"):
            hvd.SyncBatchNormalization  # noqa: B018
        self.assertFalse(hvd.nccl_built())
        for name in hvd.__all__:
            self.assertTrue(hasattr(hvd, name), name)


if __name__ == "__main__":
    if sys.argv[1] == "leaves":
        Rank.setUp(None)
        Rank.leaves(None)
        sys.exit(0)
    result = unittest.TextTestRunner(stream=sys.stderr).run(Rank(sys.argv[1]))
    sys.exit(0 if result.wasSuccessful() else 1)
