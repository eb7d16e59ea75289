"""Ranks that are threads of this process, for tests of whatever holds arrays."""

import threading


class FakeExchange:
    """What they hand each other. `stack` makes one array of all that ranks hold, a copy."""

    def __init__(self, size, stack):
        self.size = size
        self.stack = stack
        self.barrier = threading.Barrier(size, timeout=120)
        self.shared = [None] * size

    def exchange(self, rank, array):
        """What all ranks hold."""
        self.shared[rank] = array
        self.barrier.wait()
        found = self.stack(self.shared)
        self.barrier.wait()
        return found


def in_threads(size, work):
    """Runs `work(rank)` on each; returns what they return or raise, by rank."""
    found = [None] * size

    def run(rank):
        try:
            found[rank] = work(rank)
        except (Exception, SystemExit) as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def where_nobody_fails(found):
    """What `in_threads` has found; raises what one has raised."""
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found
