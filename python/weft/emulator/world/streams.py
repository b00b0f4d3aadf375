"""The streams of a GPU, to which the host adds work."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from weft.emulator.arguments import parameters, whole_number
from weft.emulator.launch import Module, Shape
from weft.emulator.memory.segments import WORLD_LEVELS, Segment
from weft.emulator.sanitizer import Findings, GlobalMemory
from weft.emulator.world.engine import Engine
from weft.emulator.world.launched import How, Running
from weft.emulator.world.memory import OfRank, WorldMemory, checked
from weft.emulator.world.operations import Event, Operation
from weft.errors import WeftError, shown

_MOST_FLAG = (1 << 32) - 1
_FLAG_BYTES = 4
_Part = tuple[Segment, int, int]
"""Bytes of a buffer: the first one, and their number."""


class Stream:
    """A stream of one GPU. Its operations run one after the other, in the order in which they were added.

    Nothing runs before `World.run`. Arrays are NumPy's. An array that isn't shared belongs to the GPU that
    uses it first.
    """

    def __init__(self, rank: int, number: int, memory: WorldMemory) -> None:
        self.rank, self.name = rank, f"stream {number} of rank {rank}"
        self._memory = memory
        self.operations: deque[Operation] = deque()
        """The operations that have not begun."""

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.operations)} operations>"

    def launch(
        self,
        module: Module,
        kernel: str,
        *,
        grid: Sequence[int] | int = 1,
        block: Sequence[int] | int | None = None,
        args: Sequence[object] = (),
        cluster: Sequence[int] | int = 1,
        shared_bytes: int = 0,
        arithmetic: str = "hardware",
        chip: str | None = None,
    ) -> None:
        """Adds a launch. The arguments are those of `Module.launch`, and the errors. Raises WeftError for a
        module with global variables that kernels may write: their memory must be an argument.
        """
        if not isinstance(module, Module):
            raise WeftError(f"module must be a Module, got {shown(module)}")
        written = [segment.name for segment in module.device.segments if segment.of_others]
        if written:
            raise WeftError(
                f"a module with the global variable {written[0]} can't run on several GPUs: pass its memory "
                "as an argument"
            )
        size = whole_number("shared_bytes", shared_bytes)
        shape = Shape(grid, block, cluster, size, arithmetic)
        program, launch = module.prepared(kernel, shape, chip, WORLD_LEVELS)
        space = parameters(program, args, OfRank(self._memory, self.rank), kernel)

        def start(how: How, known: GlobalMemory, ignored: frozenset[str]) -> Running:
            user = f"kernel '{kernel}' on rank {self.rank}"
            device = self._memory.device(self.rank, user, module.device)
            device.params = Segment("param", 0, space, writable=False)
            device.map_workspace()
            return Running(program, launch, device, how, Findings(module.text, ignored), known, self)

        self.operations.append(Operation(start=start))

    def copy(self, to: object, source: object) -> None:
        """Adds a copy between contiguous arrays of the same number of bytes, as cudaMemcpyAsync makes it.

        A copy of 4 or 8 aligned bytes may signal a kernel that what precedes it in the stream has completed.
        CUDA's documentation doesn't promise this, but programs rely on it.
        """
        target, begin, size = self._part(to, "to", writes=True)
        segment, first, count = self._part(source, "source")
        if size != count:
            raise WeftError(f"a copy must be between arrays of the same size, got {count} and {size} bytes")
        self.operations.append(Operation(lambda engine: engine.copy(target, begin, segment, first, size)))

    def write(self, flag: object, value: int) -> None:
        """Adds a write to a flag, the first 4 bytes of an array, after which all that precedes is visible to
        the system, as cuStreamWriteValue32 makes it.
        """
        segment, begin = self._flag(flag, writes=True)
        data = whole_number("value", value, _MOST_FLAG).to_bytes(_FLAG_BYTES, "little")
        self.operations.append(Operation(lambda engine: engine.write(segment, begin, data)))

    def wait_value(self, flag: object, value: int) -> None:
        """Adds a wait until `flag - value`, of 32 bits with a sign, isn't negative, as cuStreamWaitValue32
        waits with CU_STREAM_WAIT_VALUE_GEQ.
        """
        segment, begin = self._flag(flag)
        value = whole_number("value", value, _MOST_FLAG)

        def waits() -> str:
            now = int(segment.data[begin:][:_FLAG_BYTES].view(np.uint32)[0])
            if (now - value) % (1 << 32) < 1 << 31:
                return ""
            return f"for the flag at 0x{segment.base + begin:x} to be at least {value}; it is {now}"

        acquire = lambda engine: engine.acquire((segment.base, begin))  # noqa: E731
        self.operations.append(Operation(acquire, waits=waits))

    def record(self) -> Event:
        """Adds an event, for which other streams can wait, and returns it."""
        event = Event(self.name)

        def record(engine: Engine) -> None:
            engine.release(event)
            event.recorded = True

        self.operations.append(Operation(record))
        return event

    def wait(self, event: Event) -> None:
        """Adds a wait for an event."""
        if not isinstance(event, Event):
            raise WeftError(f"event must be what Stream.record returns, got {shown(event)}")
        waits = lambda: "" if event.recorded else f"for an event of {event.stream}"  # noqa: E731
        self.operations.append(Operation(lambda engine: engine.acquire(event), waits=waits))

    def _flag(self, array: object, *, writes: bool = False) -> tuple[Segment, int]:
        segment, begin, size = self._part(array, "flag", writes=writes)
        if size < _FLAG_BYTES or begin % _FLAG_BYTES:
            raise WeftError(f"flag must have at least 4 aligned bytes, got {shown(array)}")
        return segment, begin

    def _part(self, array: object, what: str, *, writes: bool = False) -> _Part:
        given = checked(array, what)
        if not given.flags.c_contiguous:
            raise WeftError(f"{what} must be contiguous, got strides {given.strides}")
        if writes and not given.flags.writeable:
            raise WeftError(f"{what} is read-only")
        buffer = self._memory.buffer(given, self.rank)
        return buffer.segment, buffer.offset(given), given.nbytes
