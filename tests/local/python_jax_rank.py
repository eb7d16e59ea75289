"""One rank of the tests of lockstep.jax: the first argument says what it does. It ends with 0 when
all came out as it should."""

import sys
import unittest
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import lockstep
import lockstep.jax
import lockstep.numpy

PATIENCE = 30.0
SHORT = 1.0


class Rank(unittest.TestCase):
    """Assertions, and one part a method."""

    def opened(self, timeout=PATIENCE):
        session = lockstep.numpy.open()
        session.meet(has_state=False, step=0, timeout=PATIENCE)
        return session, lockstep.jax.Collectives(session, timeout)

    def leave(self, session):
        session.finish(PATIENCE)
        session.close()

    def collectives(self):
        """Compiled or not, of each type; the numbers are such that sums are exact."""
        session, calls = self.opened()
        ranks = np.arange(session.size)
        for kind in ("uint8", "int32", "float16", "float32"):
            own = jnp.arange(6, dtype=kind).reshape(2, 3) + session.rank
            every = np.stack([np.arange(6).reshape(2, 3) + rank for rank in ranks])
            for wrap in (lambda work: work, jax.jit):
                same = np.testing.assert_array_equal
                same(wrap(calls.all_reduce)(own), every.sum(axis=0))
                same(wrap(lambda x: calls.all_reduce(x, "max"))(own), every.max(axis=0))
                same(wrap(lambda x: calls.broadcast(x, 1))(own), every[1])
                same(wrap(calls.all_gather)(own), every)
                self.assertEqual(wrap(calls.all_reduce)(own).dtype.name, kind)
        scalar = jax.jit(lambda x: calls.all_reduce(x, "mean"))(jnp.float32(session.rank))
        self.assertEqual((scalar.shape, float(scalar)), ((), ranks.mean()))
        tree = jax.jit(calls.all_reduce_tree)({"a": jnp.ones(2), "b": [jnp.ones(()), jnp.ones(3)]})
        self.assertEqual([float(leaf.sum()) / session.size for leaf in jax.tree.leaves(tree)],
                         [2, 1, 3])
        # In a loop of the compiler's, and a call whose result nobody uses is made all the same.
        looped = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: calls.all_reduce(y), x))
        self.assertEqual(float(looped(jnp.float32(1))), session.size ** 3)
        large = jax.jit(calls.all_reduce)(jnp.ones(1 << 22))
        self.assertEqual(float(large.sum()), session.size * 2 ** 22)
        unused = jax.jit(lambda x: (calls.all_reduce(x), x)[1])
        with mock.patch.object(session, "all_reduce", wraps=session.all_reduce) as made:
            jax.block_until_ready(unused(jnp.ones(3)))
            jax.effects_barrier()
        self.assertEqual(made.call_count, 1)
        self.leave(session)

    def unsigned(self):
        """uint32 from the middle of its range on, and PRNG keys of both kinds."""
        session, calls = self.opened()
        own = jnp.array([1, 2**31 + 5, 2**32 - 1], jnp.uint32) + jnp.uint32(session.rank)
        every = np.stack([np.array([1, 2**31 + 5, 2**32 - 1], np.uint32) + np.uint32(rank)
                          for rank in range(session.size)])
        keys = [jax.random.fold_in(jax.random.key(7), rank) for rank in range(session.size)]
        for wrap in (lambda work: work, jax.jit):
            for op, expected in (("sum", every.sum(0, np.uint32)), ("min", every.min(0)),
                                 ("max", every.max(0))):
                found = wrap(lambda x, op=op: calls.all_reduce(x, op))(own)
                self.assertEqual((found.dtype.name, found.tolist()),
                                 ("uint32", expected.tolist()), op)
            np.testing.assert_array_equal(wrap(calls.all_gather)(own), every)
            scalar = wrap(lambda x: calls.all_reduce(x, "max"))(own[1])
            self.assertEqual((scalar.shape, int(scalar)), ((), int(every[:, 1].max())))
            state = {"key": keys[session.rank], "raw": jax.random.PRNGKey(session.rank)}
            taken = wrap(lambda tree: jax.tree.map(lambda leaf: calls.broadcast(leaf, 1), tree))(
                state)
            self.assertEqual(float(jax.random.normal(taken["key"])),
                             float(jax.random.normal(keys[1])))
            self.assertEqual(taken["raw"].tolist(), jax.random.PRNGKey(1).tolist())
            self.assertEqual(wrap(calls.all_gather)(keys[session.rank]).shape, (session.size,))
            least = wrap(lambda tree: calls.all_reduce_tree(tree, "min"))(state)
            self.assertEqual(least["key"].dtype, keys[0].dtype)
        self.leave(session)

    def arguments(self):
        session, calls = self.opened()
        for call, words in (
                (lambda: calls.all_reduce(jnp.ones(2, jnp.bfloat16)), "dtype bfloat16 found"),
                (lambda: calls.all_reduce(jnp.ones(2, bool)), "dtype bool found"),
                (lambda: calls.all_reduce(jnp.ones(2, int), "mean"), "a mean of int"),
                (lambda: calls.all_reduce(jnp.ones(2), "product"), "op: 'product' found")):
            with self.assertRaises(lockstep.InvalidArgument) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(Exception):
            jax.block_until_ready(calls.broadcast(jnp.ones(2), 9))
        with self.assertRaisesRegex(lockstep.InvalidArgument, "root: there is no rank 9"):
            calls.check()
        calls.check()
        self.leave(session)

    def mismatch(self):
        """Ranks of different shapes are told so, and go on after a meeting with the same code."""
        session, calls = self.opened()
        compiled = jax.jit(calls.all_reduce)
        with self.assertRaises(Exception):
            jax.block_until_ready(compiled(jnp.ones(2 + session.rank)))
        with self.assertRaisesRegex(lockstep.Mismatch, "rank"):
            calls.check()
        session.meet(has_state=False, step=0, timeout=PATIENCE)
        self.assertEqual(compiled(jnp.ones(4)).tolist(), [session.size] * 4)
        self.leave(session)


if __name__ == "__main__":
    case = Rank(sys.argv[1])
    outcome = unittest.TextTestRunner(stream=sys.stderr).run(case)
    sys.exit(0 if outcome.wasSuccessful() else 1)
