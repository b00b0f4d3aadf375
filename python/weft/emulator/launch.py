"""The emulator's front door: a module, its launches, and what a launch reports."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.emulator.arguments import Buffers, parameters
from weft.emulator.errors import PtxError
from weft.emulator.machine import Machine, Totals
from weft.emulator.memory import WINDOWS, Device, Segment, wrap
from weft.emulator.parser import parse
from weft.emulator.program import Program, layout
from weft.emulator.syntax import SymbolValue, Variable
from weft.emulator.wave import Dim3, Launch, Wave
from weft.errors import WeftError

Progress = Callable[[int, int], None]
_WAVE_WARPS = 64
_MAX_THREADS = 1024
_MAX_SHARED = 228 * 1024
_MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Report:
    """What a launch executed.

    `instructions` counts warp instructions. `counters` has them by opcode (`ld`, `mma.sync`, …) and the bytes
    that went through each space (`bytes.global`, `bytes.shared`, …).
    """

    instructions: int
    counters: Mapping[str, int] = field(default_factory=dict)


class Module:
    """A PTX module. Its global variables keep their values from launch to launch. Raises PtxError."""

    def __init__(self, ptx: str) -> None:
        self._tree = parse(ptx)
        self._device = Device()
        self._programs: dict[str, Program] = {}
        self._map_variables()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(f.name for f in self._tree.functions.values() if f.is_entry)

    @property
    def target(self) -> str:
        """The chip that the module is for, such as sm_90a."""
        return self._tree.target

    def launch(
        self,
        kernel: str,
        *,
        grid: Sequence[int] | int = 1,
        block: Sequence[int] | int = 1,
        args: Sequence[object] = (),
        shared_bytes: int = 0,
        seed: int | None = None,
        arithmetic: str = "hardware",
        max_instructions: int | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Runs a kernel over a grid and returns when all of it is done.

        An ndarray argument is a device buffer, updated in place; numbers take the parameter's type; bytes
        fill a by-value parameter. `seed` makes warps take turns at random, `arithmetic="exact"` makes matrix
        instructions add in float32 without the hardware's truncation. Raises PtxError for instructions that
        aren't supported, Fault, Deadlock, and WeftError for a launch that doesn't fit the kernel.
        """
        program = self._program(kernel)
        dynamic = program.shared_dynamic - program.shared_static + shared_bytes if shared_bytes else 0
        total = program.shared_static + dynamic
        launch = Launch(_dims(grid), _dims(block), total, dynamic, arithmetic)
        _check(launch, kernel, self._tree.functions[kernel].directives)
        device = self._device.copy()
        buffers = Buffers(device)
        device.params = Segment("param", 0, parameters(program, args, buffers, kernel), writable=False)
        totals = Totals(len(program.blocks), max_instructions)
        try:
            with np.errstate(all="ignore"):
                _run(program, launch, device, totals, seed, progress)
        finally:
            buffers.write_back()
        return Report(totals.instructions, _counters(program, totals))

    def _program(self, kernel: str) -> Program:
        if kernel not in self._programs:
            entry = self._tree.functions.get(kernel)
            if entry is None or not entry.is_entry:
                raise WeftError(
                    f"the module has no kernel '{kernel}': it has {', '.join(self.kernels) or 'none'}"
                )
            self._programs[kernel] = Program(self._tree, entry)
        return self._programs[kernel]

    def _map_variables(self) -> None:
        constants = [v for v in self._tree.variables if v.space == "const"]
        self._device.const = Segment("const", 0, np.zeros(layout(constants, 0), np.uint8), writable=False)
        variables = [v for v in self._tree.variables if v.space == "global"]
        for variable in variables:
            data = np.zeros(variable.size, np.uint8)
            variable.offset = self._device.map(f"'{variable.name}'", data)
        for variable in constants:
            self._initialise(variable, self._device.const.data[variable.offset :])
        for variable in variables:
            segment = self._device.find(variable.offset)
            assert segment is not None
            self._initialise(variable, segment.data)

    def _initialise(self, variable: Variable, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        for at, value in variable.init:
            written = self._symbol(value) if isinstance(value, SymbolValue) else value
            data[at : at + len(written)] = np.frombuffer(written, np.uint8)

    def _symbol(self, value: SymbolValue) -> bytes:
        entity = self._tree.scope.find(value.name)
        if not isinstance(entity, Variable):
            raise PtxError(f"'{value.name}' has no address here", *value.place)
        base = WINDOWS.get(entity.space, 0) if value.generic else 0
        return int(wrap(entity.offset + value.offset + base)).to_bytes(8, "little")[: value.size]


def _run(
    program: Program,
    launch: Launch,
    device: Device,
    totals: Totals,
    seed: int | None,
    progress: Progress | None,
) -> None:
    """Runs waves of CTAs. A wave that polls through its turn lets later ones in: it may wait for them."""
    together = max(1, _WAVE_WARPS // launch.warps)
    begun = done = 0
    live: deque[tuple[Machine, Wave]] = deque()
    while live or begun < launch.total_ctas:
        if not live or (begun < launch.total_ctas and len(live) < _MAX_WAVES):
            last = min(begun + together, launch.total_ctas)
            wave = Wave(launch, program.slots, device, range(begun, last))
            live.appendleft((Machine(wave, program, totals, seed), wave))
            begun = last
        machine, wave = live[0]
        if machine.run():
            live.popleft()
            for space, count in wave.memory.bytes.items():
                totals.bytes[space] = totals.bytes.get(space, 0) + count
            done += len(wave.cta_numbers)
            if progress is not None:
                progress(done, launch.total_ctas)
        else:
            live.rotate(-1)


def _dims(dims: Sequence[int] | int) -> Dim3:
    values = (dims,) if isinstance(dims, int) else tuple(int(d) for d in dims)
    if not 1 <= len(values) <= 3:
        raise WeftError(f"a grid or block has one to three dimensions, got {len(values)}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _check(launch: Launch, kernel: str, directives: Mapping[str, tuple[int, ...]]) -> None:
    """Refuses what a driver refuses."""
    if launch.arithmetic not in ("hardware", "exact"):
        raise WeftError(f"arithmetic is 'hardware' or 'exact', got '{launch.arithmetic}'")
    if min(launch.block) < 1 or launch.threads > _MAX_THREADS:
        raise WeftError(f"a block has 1 to {_MAX_THREADS} threads, got {launch.block}")
    if any(not 1 <= n <= most for n, most in zip(launch.grid, _MAX_GRID, strict=True)):
        raise WeftError(f"a grid has 1 to {_MAX_GRID} blocks, got {launch.grid}")
    if launch.shared_bytes > _MAX_SHARED:
        raise WeftError(
            f"kernel '{kernel}' needs {launch.shared_bytes} bytes of shared memory, a block has {_MAX_SHARED}"
        )
    required = (*directives.get("reqntid", ()), 1, 1)[:3] if "reqntid" in directives else launch.block
    if required != launch.block:
        raise WeftError(f"kernel '{kernel}' requires blocks of {required}, got {launch.block}")
    most = 1
    for extent in directives.get("maxntid", (_MAX_THREADS,)):
        most *= extent
    if launch.threads > most:
        raise WeftError(f"kernel '{kernel}' allows {most} threads in a block, got {launch.threads}")


def _counters(program: Program, totals: Totals) -> dict[str, int]:
    counters: dict[str, int] = {}
    for block, runs in zip(program.blocks, totals.runs, strict=True):
        if runs:
            for opcode in block.opcodes:
                counters[opcode] = counters.get(opcode, 0) + runs
    return dict(sorted(counters.items())) | {f"bytes.{space}": n for space, n in sorted(totals.bytes.items())}


_MAX_WAVES = 64
