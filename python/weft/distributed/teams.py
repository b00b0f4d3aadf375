"""Teams of GPUs: the memory through which they exchange data, and the order of their calls.

Each call of a kind has a number, the same on all ranks, to which flags are set. Calls use two halves of the
memory in turn. A rank writes to a peer's half for call n after its own kernel of call n - 1 has ended, which
has waited for what the peer sent in that call, after the peer's kernel of call n - 2 had ended: so nobody
reads this half any more, and no barrier is needed. Kernels of small products count the calls themselves
(`Counted`), so that graphs can repeat them.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from weft.distributed.devices import Devices, Memory
from weft.errors import WeftError, shown
from weft.launch.arrays import ArrayView
from weft.system import locks, upper
from weft.target import Target

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from weft import emulator

HALVES = 2
MOST_SLICES = 8  # of rows that a kernel sends
_STATE = 4  # numbers of the operand `team`
_STATES = 4096  # calls whose states are written at once
_SECONDS = 30.0
MOST_RANKS = 32  # kernels keep the addresses of each in a lane
_LARGE = 1 << 26  # bytes
_ARCH = "sm_90a"  # of emulated GPUs
_UNIT = 256  # bytes to which memory is rounded up


class Team:
    """The GPUs of a process group of PyTorch, all of one host, one for each process.

    `group` is a process group, by default all processes. `seconds` is how long a kernel waits for another
    GPU before it ends with an error. Without GPUs, or with `arch`, a chip as ptxas names it, tensors are on
    the CPU, and the first process emulates the GPUs of all ranks in each call. Raises WeftError for GPUs that
    can't access each other's memory.

    `name` is what the operators `torch.ops.weft` take as `team`: it has the group's name and size.
    """

    def __init__(
        self, group: "ProcessGroup | None" = None, *, seconds: float = _SECONDS, arch: str | None = None
    ) -> None:
        import torch

        check_seconds(seconds)
        if arch is not None:
            check_arch("weft.distributed.Team", arch)
        upper.team_operators()
        if arch is None and torch.cuda.is_available():
            from weft.distributed.cuda import CudaDevices

            self._set(CudaDevices(group), seconds)
        else:
            from weft.distributed.host import ProcessDevices

            self._set(ProcessDevices(group, arch or _ARCH), seconds)

    @classmethod
    def emulated(
        cls, world: "emulator.World", chip: str = "sm_90a", *, seconds: float = _SECONDS
    ) -> "list[Team]":
        """A team for each GPU of a world in the emulator. Calls take NumPy arrays; `world.run` runs them."""
        from weft.distributed.emulated import WorldDevices
        from weft.emulator import World

        if not isinstance(world, World):
            raise WeftError(
                f"weft.distributed.Team.emulated: world must be an emulator.World, got {shown(world)}"
            )
        check_arch("weft.distributed.Team.emulated", chip)
        return [cls.of(devices, seconds) for devices in WorldDevices.team(world, chip)]

    @classmethod
    def of(cls, devices: Any, seconds: float = _SECONDS) -> "Team":
        """A team of these devices: `Devices`, or `HostDevices`."""
        team = cls.__new__(cls)
        team._set(devices, seconds)
        return team

    def _set(self, devices: Any, seconds: float) -> None:
        check_seconds(seconds)
        if devices.size > MOST_RANKS:
            raise WeftError(f"a team must have at most {MOST_RANKS} ranks, got {devices.size}")
        self.devices: Devices = devices
        self.rank, self.size = devices.rank, devices.size
        # Inductor's cache keeps programs by the name, whose shapes depend on the number of ranks.
        name = f"{devices.name}:{self.size}"
        with _lock:
            count = _counts[name] = _counts.get(name, 0) + 1
            self.name = name if count == 1 else f"{name}:{count}"
            _teams[self.name] = self
        self.lock = locks.reentrant()
        self._limit = max(round(1000 * seconds), 1)
        self._exchanges: dict[str, Exchange] = {}
        self._counted: dict[str, Counted] = {}
        self._rows: Sequence[Memory] = ()
        self._barrier: Callable[[], None] | None = None
        self._has_graphs = False
        self.plans: dict[Hashable, Any] = {}
        self.known: dict[Hashable, Any] = {}
        """Plans by the keys of `Devices.key`, which are faster to make than a product."""
        self.kinds: Hashable = None
        """The key of the arrays of the last call."""

    def __reduce__(self) -> tuple[object, ...]:
        """By name: copies of a layer have the same team, and a saved one has the team of this name."""
        return named, (self.name,)

    def __repr__(self) -> str:
        return f"<Team {self.name}: rank {self.rank} of {self.size}>"

    def exchange(self, kind: str) -> "Exchange":
        """The memory for calls of a kind."""
        if kind not in self._exchanges:
            self._exchanges[kind] = self._new_exchange()
        return self._exchanges[kind]

    def _new_exchange(self) -> "Exchange":
        return Exchange(self.devices, self._limit)

    def counted(self, kind: str, data: int, flags: int) -> "Counted":
        """Memory for calls of a kind that kernels count, with at least so many bytes of data and flags in
        each half. All ranks call it together. Plans and graphs keep theirs when others need more.
        """
        memory, sizes = self._counted.get(kind), (data, flags)
        if memory is None or any(had < size for had, size in zip(memory.sizes, sizes, strict=True)):
            had = (0, 0) if memory is None else memory.sizes
            data, flags = (max(_rounded(size), least) for size, least in zip(sizes, had, strict=True))
            memory = self._counted[kind] = Counted.of(self.devices, (data, flags), self._limit)
        return memory

    def rows(self, size: int) -> Sequence[Memory]:
        """Memory of each rank, of at least so many bytes. All ranks call it together. Plans keep theirs when
        others need more.
        """
        if not self._rows or self._rows[0].size < size:
            self._rows = self.devices.shared(_rounded(size))
        return self._rows

    def begin(self, exchange: "Exchange") -> "Turn":
        """The next call whose number the host sets, after what must precede its copies.

        Once a CUDA graph has captured such a call, they begin with a barrier, since replays use the same half
        of memory again and again.
        """
        captured = self.devices.captures
        turn = exchange.next(captured)
        if captured or self._has_graphs:
            self._has_graphs = True
            if captured:  # else replays would find the flags of the replay before
                self.devices.caller().fill(turn.half.flags[self.rank], (turn.call - 1) % (1 << 32))
            self.barrier()()
        return turn

    def barrier(self) -> Callable[[], None]:
        """A barrier of all ranks, on the callers' streams. All ranks call it together for the first time."""
        if self._barrier is None:
            self._barrier = self.devices.barrier(self._limit)
        return self._barrier


def check_arch(name: str, arch: object) -> None:
    """Raises WeftError for anything but a chip, as ptxas names it."""
    if not isinstance(arch, str):
        raise WeftError(f"{name}: arch must be a chip such as 'sm_90a', got {shown(arch)}")
    Target.of(arch)


def check_seconds(seconds: object) -> None:
    """Raises WeftError for a time that kernels can't wait."""
    if not isinstance(seconds, int | float) or not 0 < seconds < 2**31 / 1000:
        raise WeftError(f"seconds must be above 0 and below {2**31 // 1000}, got {shown(seconds)}")


def _rounded(size: int) -> int:
    """A size from which memory rarely needs to grow: a power of two, or a multiple of the largest one."""
    return 1 << (size - 1).bit_length() if size < _LARGE else -(-size // _LARGE) * _LARGE


def _addresses(devices: Devices, memory: Sequence[Memory], data: int) -> Memory:
    """The addresses of the data of each rank, and of the flags after so many bytes of it: i64."""
    starts = np.array([devices.address(each) for each in memory], np.int64)
    return devices.constant(np.stack([starts, starts + data], axis=-1))


@dataclass(frozen=True)
class Counted:
    """Memory for calls that kernels count themselves, so that a graph can repeat them: a kernel uses the half
    that the number of its call selects. `sizes` are the bytes of data and flags in a half.
    """

    ranks: int
    sizes: tuple[int, int]
    data: Memory
    flags: Memory
    peers: Memory
    """The addresses of data and flags of each rank: i64."""
    state: Memory

    @staticmethod
    def of(devices: Devices, sizes: tuple[int, int], limit: int) -> "Counted":
        """Allocates it. All ranks call it together."""
        data, flags = (HALVES * size for size in sizes)
        memory = devices.shared(data + flags)
        peers = _addresses(devices, memory, data)
        state = devices.constant(np.array([devices.rank, 1, limit, *[0] * (1 + MOST_SLICES)], np.int32))
        own = memory[devices.rank]
        return Counted(devices.size, sizes, own.part(0, data), own.part(data, flags), peers, state)

    @property
    def operands(self) -> tuple[Memory, Memory, Memory, Memory]:
        """The memory, as arguments of a kernel."""
        return self.data, self.flags, self.peers, self.state

    def views(self) -> list[ArrayView]:
        """The addresses and the state, for a kernel."""
        return [self.peers.view((self.ranks, 2), "i64"), self.state.view((_STATE + MOST_SLICES,), "i32")]


_lock = locks.lock()
_teams: WeakValueDictionary[str, Team] = WeakValueDictionary()
_counts: dict[str, int] = {}


def named(name: str) -> Team:
    """The team of a name. Raises WeftError if there is none."""
    team = _teams.get(name)
    if team is None:
        names = ", ".join(map(repr, sorted(_teams))) or "none"
        raise WeftError(
            f"team must be the name of a weft.distributed.Team that is in use, such as Team(group).name; "
            f"got {shown(name)}, and there are {names}"
        )
    return team


@dataclass(frozen=True, eq=False)
class Half:
    """A half of the memory of an exchange, on each GPU, by rank."""

    data: Sequence[Memory]
    flags: Sequence[Memory]
    peers: Memory
    """The addresses of `data` and `flags` of each rank: i64."""
    routes: dict[object, list[Any]] = field(default_factory=dict)
    """The copies of each plan."""

    @staticmethod
    def of(devices: Devices, memory: Sequence[Memory], data: int) -> "Half":
        """Memory of each GPU: so many bytes of data, and flags."""
        of_data = [each.part(0, data) for each in memory]
        of_flags = [each.part(data, each.size - data) for each in memory]
        return Half(of_data, of_flags, _addresses(devices, memory, data))


class Turn(NamedTuple):
    """A call: its half of the memory, and its state, the operand `team` of the kernel."""

    half: Half
    state: Memory
    call: int

    @property
    def number(self) -> Memory:
        """The number of the call, as flags have it."""
        return self.state.part(4, 4)


class Exchange:
    """Memory of all GPUs for calls of one kind, in two halves, and the calls' numbers."""

    def __init__(self, devices: Devices, limit: int) -> None:
        self._devices, self._limit = devices, limit
        self._calls = 0
        self._sizes: tuple[int, ...] = (0, 0)
        self._halves: list[Half] = []
        self._states: list[Memory] = []
        self._captured: list[Turn] = []

    def reserve(self, data: int, flags: int) -> None:
        """Makes room for calls with so many bytes of data and of flags. All ranks call it together."""
        sizes = [-(-size // _UNIT) * _UNIT for size in (data, flags)]
        if all(had >= size for had, size in zip(self._sizes, sizes, strict=True)):
            return
        data, flags = self._sizes = tuple(map(max, self._sizes, sizes))
        size = data + flags
        memory = self._devices.shared(HALVES * size)
        self._halves = [
            Half.of(self._devices, [each.part(number * size, size) for each in memory], data)
            for number in range(HALVES)
        ]

    def next(self, captured: bool) -> Turn:
        """The next call. Those that a graph captures all have the number and half of the last one that isn't
        captured, and begin with a barrier (`Team.begin`).
        """
        if not captured:
            if self._calls % _STATES == 0:
                # Kernels of earlier calls may still read the states before.
                first = self._calls + 1
                states = np.zeros((_STATES, _STATE), np.uint32)
                states[:, 0], states[:, 2] = self._devices.rank, self._limit
                states[:, 1] = (np.arange(first, first + _STATES) % (1 << 32)).astype(np.uint32)
                self._states = [*self._states[-1:], self._devices.constant(states.view(np.int32))]
            self._calls += 1
        last = self._calls - 1
        state = self._states[-1].part(4 * _STATE * (last % _STATES), 4 * _STATE)
        turn = Turn(self._halves[last % HALVES], state, self._calls)
        if captured:
            self._captured.append(turn)  # whose memory the graph's replays use
        return turn
