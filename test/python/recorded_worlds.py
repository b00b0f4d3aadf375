"""Recorded products over several GPUs, run in the emulator's World: what tests of them have in common."""

from dataclasses import dataclass, replace

import numpy as np

from weft.distributed.devices import Memory
from weft.distributed.recorded import RecordedTeam
from weft.distributed.xla_call import TeamCall
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.sequence import CALLER, OTHER, Copy, Launch, Number, Record, Wait
from weft.multiply.product import Product


@dataclass(frozen=True)
class Prepared:
    """A launch of the emulator. The views have made-up addresses."""

    kernel: object
    views: tuple


class WorldPeers:
    """The GPUs of a World, as `weft.distributed.peers.PeerGpus`."""

    chip = "sm_90a"

    def __init__(self, world):
        self.world, self.ordinals, self.kept = world, tuple(range(world.ranks)), []

    def zeros(self, rank, size):
        made = np.zeros(size, np.uint8)
        self.world.share(made, rank)
        return self._kept(rank, made)

    def constant(self, rank, numbers):
        return self._kept(rank, numbers.copy())

    def _kept(self, rank, made):
        self.kept.append(made)
        return Memory(made.ctypes.data, made.nbytes, "cpu", rank, None)

    def mapped(self, memory):
        return self.world.address(self.memory(memory.address, 1))

    def memory(self, address, size, more=()):
        """Bytes of what ranks have allocated, or of another array."""
        for each in (*self.kept, *more):
            begin = address - each.ctypes.data
            if 0 <= begin < each.nbytes:
                return each.reshape(-1).view(np.uint8)[begin : begin + size]
        raise AssertionError(f"no memory at {address:#x}")

    def prepared(self, kernel, views):
        return Prepared(kernel, tuple(views))


class Rank:
    """A GPU of a World that queues recordings, as host.c does."""

    def __init__(self, peers, rank):
        self.peers = peers
        self.streams = {each: peers.world.stream(rank) for each in (CALLER, OTHER)}
        self.events, self.calls, self.kept = {}, {}, []

    def queue(self, recording, given):
        """Queues a call with arrays: the operands, then the result."""
        counter, number = recording.counter, 0
        if counter is not None:
            number = self.calls[counter] = self.calls.get(counter, 0) + 1
        self.kept += given
        for step in recording.steps[number % len(recording.steps)]:
            self._step(step, given, number)

    def _step(self, step, given, number):
        starts = [each.ctypes.data for each in given]

        def at(where):
            return where.begin + (0 if where.number is None else starts[where.number])

        match step:
            case Launch(prepared, operands):
                left = map(at, operands)
                views = [
                    replace(view, address=next(left)) if isinstance(view, ArrayView) else view
                    for view in prepared.views
                ]
                prepared.kernel.emulate_on(self.streams[CALLER], *views)
            case Copy(stream, to, source, size):
                to, source = (self.peers.memory(at(each), size, given) for each in (to, source))
                self.streams[stream].copy(to, source)
            case Number(to):
                self.streams[CALLER].write(self.peers.memory(at(to), 4), number)
            case Record(stream):
                self.events[stream] = self.streams[stream].record()
            case Wait(stream, awaited):
                self.streams[stream].wait(self.events[awaited])


def call(name, *given, roles=(), transpose_b=True, activation=None, partials=None, schedule=None):
    """A product of arrays like these."""
    described = tuple((each.shape, arrays.mlir_type(each.dtype)) for each in given)
    product = Product(roles, activation, partials, transpose_b=transpose_b, schedule=schedule)
    return TeamCall(name, described, product.checked())


class Ranks:
    """The GPUs of a World as one team."""

    def __init__(self, world):
        peers = WorldPeers(world)
        self.ranks = [Rank(peers, rank) for rank in range(world.ranks)]
        self.team = RecordedTeam.together(peers, 30.0)

    def recorded(self, product):
        """What each rank queues for a product."""
        plans = [product.planned(each) for each in self.team]
        return [
            each.record(plan, product.arrays("cpu", each.rank))
            for each, plan in zip(self.team, plans, strict=True)
        ]

    def queue(self, recordings, operands, shape):
        """Queues a call of all ranks, by rank. Returns the results."""
        results = [np.zeros(shape, given[0].dtype) for given in operands]
        each = zip(self.ranks, recordings, operands, results, strict=True)
        for rank, recording, given, result in each:
            rank.queue(recording, [*given, result])
        return results
