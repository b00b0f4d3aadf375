"""The emulator's entry point: a module, its launches, and their reports."""

import operator
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from weft.display.html import Html
from weft.emulator import parallel
from weft.emulator.arguments import (
    MOST_NUMBER,
    Buffers,
    Named,
    Progress,
    Unwritten,
    checked,
    parameters,
    whole_number,
)
from weft.emulator.compiled.tiers import chosen, tier_of
from weft.emulator.decoding.program import Program, layout
from weft.emulator.errors import Deadlock, Fault, PtxError
from weft.emulator.instructions import TABLE
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import LEVELS, WINDOWS, Segment, wrap
from weft.emulator.reading.parser import parse
from weft.emulator.reading.syntax import Function, SymbolValue, Variable
from weft.emulator.running.ctas import Dim3, Launch
from weft.emulator.running.totals import Totals
from weft.emulator.sanitizer import Finding, ignored_rules
from weft.emulator.sanitizer.findings import list_findings
from weft.emulator.watching.hooks import Hooks
from weft.emulator.watching.hooks import chosen as chosen_hooks
from weft.emulator.watching.observers import Observers
from weft.emulator.watching.stopped import Launched
from weft.emulator.watching.variables import SourceMap
from weft.emulator.waves import Waves
from weft.errors import WeftError, shown
from weft.isa.chips import CHIPS, can_run, unknown_chip
from weft.isa.launch_limits import MOST_THREADS, block_complaint, grid_complaint
from weft.isa.suggest import did_you_mean
from weft.system import locks
from weft.system.garbage import uncollected

_MAX_CLUSTER = 16
_MOST_COUNTERS = 16


@dataclass(frozen=True)
class Report:
    """What a launch executed.

    `instructions` counts warp instructions. `counters` has their numbers by opcode (`ld`, `mma.sync`, …) and
    the bytes accessed in each space (`bytes.global`, `bytes.shared`, …). `findings` are the sanitizer's,
    `printed` is the kernel's output.
    """

    instructions: int
    counters: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    printed: str = ""

    def __str__(self) -> str:
        count = len(self.findings)
        found = f"{count or 'no'} finding{'' if count == 1 else 's'}{':' * bool(count)}"
        lines = [f"{self.instructions:,} warp instructions, {found}"]
        kinds: dict[tuple[str, str], list[Finding]] = {}
        for each in self.findings:
            kinds.setdefault((each.rule, each.source or str(each.line)), []).append(each)
        for first, *others in kinds.values():
            lines.append(f"{first}, and {len(others)} like it at this line" if others else str(first))
        return "\n".join([*lines, *(["printed:", self.printed.rstrip()] if self.printed else [])])

    def _repr_html_(self) -> str:
        page = Html("emulated launch", f"{self.instructions:,} warp instructions")
        list_findings(page, self.findings)
        counters = sorted(self.counters.items(), key=lambda each: (-each[1], each[0]))
        if counters:
            page.table(["counter", "number"], [(name, f"{n:,}") for name, n in counters[:_MOST_COUNTERS]])
        if len(counters) > _MOST_COUNTERS:
            page.note(f"and {len(counters) - _MOST_COUNTERS} counters with smaller numbers")
        if self.printed:
            page.code(self.printed, "printed by the kernel")
        return page.text()


@dataclass(frozen=True)
class Shape:
    """What the options of a launch ask for, as `Module.launch` names them."""

    grid: Sequence[int] | int
    block: Sequence[int] | int | None
    cluster: Sequence[int] | int
    shared_bytes: int
    arithmetic: str = "hardware"
    dependent: bool = False


class Module:
    """A PTX module. Its global variables keep their values from launch to launch. Raises PtxError."""

    def __init__(self, ptx: str) -> None:
        if not isinstance(ptx, str):
            raise WeftError(f"ptx must be text, got {type(ptx).__name__}")
        with uncollected():  # a fifth of the time
            self._tree = parse(ptx)
        self._text = ptx
        self._device = Device()
        self._programs: dict[tuple[object, ...], Program] = {}
        # Decoding gives the tree's registers and variables their numbers.
        self._decoding = locks.reentrant()
        self._map_variables()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(f.name for f in self._tree.functions.values() if f.is_entry and f.body is not None)

    def parameter_bytes(self, kernel: str) -> list[int]:
        """The sizes of a kernel's parameters."""
        return [each.size for each in self._program(kernel, self.target).params]

    @property
    def text(self) -> str:
        """The PTX."""
        return self._text

    @property
    def device(self) -> Device:
        """The memory of the module's variables."""
        return self._device

    @property
    def target(self) -> str:
        """The chip that the module is for, such as sm_90a."""
        return self._tree.target

    def launch(
        self,
        kernel: str,
        *,
        grid: Sequence[int] | int = 1,
        block: Sequence[int] | int | None = None,
        args: Sequence[object] = (),
        cluster: Sequence[int] | int = 1,
        shared_bytes: int = 0,
        sanitize: bool = True,
        seed: int | None = None,
        arithmetic: str = "hardware",
        trace: str | os.PathLike[str] | None = None,
        max_instructions: int | None = None,
        dependent: bool = False,
        progress: Progress | None = None,
        chip: str | None = None,
        ignore: Sequence[str] = (),
        max_seconds: float | None = None,
        strict: bool = False,
        threads: int | None = None,
        compiled: bool | None = None,
        hooks: Hooks | None = None,
    ) -> Report:
        """Runs a kernel over a grid, and returns when all of it has completed.

        - `grid`, `block`, `cluster`, `shared_bytes`: the dimensions, and dynamic shared memory. `block` is by
          default the one that the kernel requires (`.reqntid`), or one thread.
        - `args`: an ndarray is a buffer in global memory, updated in place. A number is converted to the type
          of its parameter. bytes fill a parameter by value.
        - `chip`: the GPU as which the kernel runs, with its sums and limits, such as "sm_90a" for PTX for
          sm_80; by default the module's target.
        - `arithmetic="exact"`: matrix instructions add in double precision and round once.
        - `dependent`: a programmatic dependent launch, which may run while the previous launch does. The
          sanitizer reports accesses to global memory before griddepcontrol.wait.

        The sanitizer:

        - `sanitize=False` switches it off. `ignore` names rules that are not reported.
        - `strict` also reports code that relies on the hardware where PTX requires more, as other compilers'
          code does. With a seed, single lanes run ahead of their warps.
        - `seed`: warps run in random order, and asynchronous operations complete at random.

        Limits and what is watched:

        - `max_instructions`: the launch ends with Fault after this number of warp instructions. By default
          there is no limit: an endless loop that changes something never ends.
        - `max_seconds`: the launch ends with TimeLimit after this time.
        - `progress` is called with the number of CTAs that have ended, and of all.
        - `trace`: the file for a timeline. `hooks`: functions that the launch calls.

        Speed:

        - `threads`: the CPU cores that a long launch may use; by default all, if this process has one thread.
          CTAs run in parallel if that can't change anything: none communicates with others, and the sanitizer
          finds nothing. Otherwise, and with 1, they run in a fixed order in this process.
        - `compiled`: True compiles everything before the first instruction, False nothing; by default, code
          that runs often is compiled.

        Raises PtxError for unsupported instructions, Fault, Deadlock, and WeftError for a launch that doesn't
        fit the kernel.
        """
        seed = None if seed is None else whole_number("seed", seed)
        limit = None if max_instructions is None else whole_number("max_instructions", max_instructions)
        shared_bytes = whole_number("shared_bytes", shared_bytes)
        sanitize, dependent = _flag("sanitize", sanitize), _flag("dependent", dependent)
        strict = _flag("strict", strict)
        compiled = chosen(None if compiled is None else _flag("compiled", compiled))
        limits = checked(progress, max_seconds, threads)
        ignored = ignored_rules(ignore)
        if trace is not None and not isinstance(trace, str | os.PathLike):
            raise WeftError(f"trace must be a path, got {shown(trace)}")
        shape = Shape(grid, block, cluster, shared_bytes, arithmetic, dependent=dependent)
        program, launch = self.prepared(kernel, shape, chip)
        device = self._device.copy()
        buffers = Buffers(device)
        device.params = Segment("param", 0, parameters(program, args, buffers, kernel), writable=False)
        device.map_workspace()
        totals = Totals(len(program.blocks), limit, limits.max_seconds)
        begun: list[Observers] = []
        hooks = chosen_hooks(hooks)
        if hooks is not None:
            hooks.begin(_launched(kernel, self._text, program, launch, args))

        def start() -> tuple[Waves, Observers]:
            with uncollected():
                observers = Observers(self._text, program, launch, sanitize, trace, ignored, strict=strict)
            begun.append(observers)
            watch = observers.watch if seed is not None else observers.sanitizer
            running = observers.program
            waves = Waves(running, launch, device, totals, watch, limits.progress, seed, strict)
            waves.compiler = tier_of(running, compiled)
            waves.compiled = compiled
            waves.trace_of = observers.trace if seed is None else None
            if hooks is not None:
                waves.hooks = hooks
                observers.tell(hooks.found)
            return waves, observers

        try:
            with np.errstate(all="ignore"):
                observers = parallel.run(start, limits.threads if hooks is None else 1)
        except (Fault, Deadlock) as error:
            error.findings, error.printed = begun[-1].ended(error), "".join(device.printed)
            raise
        finally:
            buffers.write_back()
            if begun:
                begun[-1].close()
            if hooks is not None:
                hooks.end()
        counters = counters_of(program, totals) | observers.counters()
        return Report(totals.instructions, counters, observers.findings(), "".join(device.printed))

    def prepared(
        self, kernel: str, shape: "Shape", chip: str | None = None, scopes: Mapping[str, int] = LEVELS
    ) -> tuple[Program, Launch]:
        """A kernel's program and a launch of it. Raises WeftError if the launch doesn't fit the kernel."""
        if chip is None:
            own = CHIPS.get(self.target)
            chips = [own] if own is not None and own.variant else CHIPS.values()
            room = max(each.shared_bytes for each in chips)
        else:
            if not (isinstance(chip, str) and chip in CHIPS):
                raise WeftError(f"chip {unknown_chip(chip if isinstance(chip, str) else shown(chip))}")
            if not can_run(chip, self.target):
                raise WeftError(f"chip must be one that runs PTX for {self.target}, got {chip}")
            room = CHIPS[chip].shared_bytes
        program = self._program(kernel, chip or self.target, scopes)
        dynamic = program.shared_dynamic - program.shared_static + shape.shared_bytes
        dynamic = dynamic if shape.shared_bytes else 0
        directives = self._tree.functions[kernel].directives
        clusters, explicit = _cluster(_dims("cluster", shape.cluster), kernel, directives)
        blocks = _dims("grid", shape.grid)
        if "blocksareclusters" in directives:
            blocks = blocks[0] * clusters[0], blocks[1] * clusters[1], blocks[2] * clusters[2]
        block = _dims("block", directives.get("reqntid", 1) if shape.block is None else shape.block)
        launch = Launch(
            blocks,
            block,
            program.shared_static + dynamic,
            dynamic,
            shape.arithmetic,
            clusters,
            explicit,
            shape.dependent,
            program.has_dynamic_shared and not dynamic,
        )
        _check(launch, kernel, directives, room)
        return program, launch

    def _program(self, kernel: str, chip: str, scopes: Mapping[str, int] = LEVELS) -> Program:
        if not isinstance(kernel, str):
            raise WeftError(f"kernel must be a name, got {shown(kernel)}")
        key = kernel, chip, tuple(scopes.items())
        if (known := self._programs.get(key)) is not None:
            return known
        entry = self._tree.functions.get(kernel)
        if entry is None or kernel not in self.kernels:
            raise WeftError(
                f"the module has no kernel '{kernel}': it has {', '.join(self.kernels) or 'none'}"
                f"{did_you_mean(kernel, self.kernels)}"
            )
        with self._decoding, uncollected():
            if key not in self._programs:
                self._programs[key] = Program(self._tree, entry, chip, TABLE, scopes)
            return self._programs[key]

    def _map_variables(self) -> None:
        constants = [v for v in self._tree.variables if v.space == "const"]
        self._device.const = Segment("const", 0, np.zeros(layout(constants, 0), np.uint8), writable=False)
        variables = [v for v in self._tree.variables if v.space == "global"]
        for variable in variables:
            data = np.zeros(variable.size, np.uint8)
            # Variables with an initial value are tables or texts, which kernels read.
            variable.offset = self._device.map(f"'{variable.name}'", data, of_others=not variable.init)
        for variable in constants:
            self._initialize(variable, self._device.const.data[variable.offset :])
        for variable in variables:
            segment = self._device.find(variable.offset)
            assert segment is not None
            self._initialize(variable, segment.data)

    def _initialize(self, variable: Variable, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        for at, value in variable.init:
            if isinstance(value, SymbolValue):
                entity = self._tree.scope.find(value.name)
                if isinstance(entity, Function):
                    address = entity.address + value.offset
                elif isinstance(entity, Variable):
                    base = WINDOWS.get(entity.space, 0) if value.generic else 0
                    address = entity.offset + value.offset + base
                else:
                    raise PtxError(f"'{value.name}' has no address here", *value.location)
                octets = int(wrap(address)).to_bytes(8, "little")
                written = octets[value.skip : value.skip + value.size]
            else:
                written = value
            data[at : at + len(written)] = np.frombuffer(written, np.uint8)


def _launched(kernel: str, text: str, program: Program, launch: Launch, args: Sequence[object]) -> Launched:
    """What hooks are told of a launch."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for parameter, arg in zip(program.params, args, strict=True):
        name = arg.name if isinstance(arg, Named) else parameter.name.removeprefix(f"{kernel}_")
        array = arg.array if isinstance(arg, Named | Unwritten) else arg
        if isinstance(array, np.ndarray) and not any(array is each for each in arrays.values()):
            arrays.setdefault(name, array)
    return Launched(kernel, text, program, launch, SourceMap.of(text, program), arrays)


def _dims(what: str, dims: object) -> Dim3:
    """A grid, block or cluster of one to three dimensions."""
    try:
        values = tuple(map(operator.index, dims if isinstance(dims, list | tuple | np.ndarray) else (dims,)))
    except TypeError:
        values = ()
    if not 1 <= len(values) <= 3 or any(abs(n) > MOST_NUMBER for n in values):
        raise WeftError(f"{what} must be one to three whole numbers, got {shown(dims)}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _cluster(cluster: Dim3, kernel: str, directives: Mapping[str, tuple[int, ...]]) -> tuple[Dim3, bool]:
    """The cluster's extent, from the launch or the kernel, and whether one of them asks for a cluster."""
    fixed = directives.get("reqnctapercluster")
    if fixed:
        required = _dims("cluster", fixed)
        if cluster not in ((1, 1, 1), required):
            raise WeftError(f"kernel '{kernel}': cluster must be {required}, got {cluster}")
        cluster = required
    size = cluster[0] * cluster[1] * cluster[2]
    most = min([_MAX_CLUSTER, *directives.get("maxclusterrank", ())])
    if min(cluster) < 1 or size > most:
        raise WeftError(f"kernel '{kernel}': cluster must have 1..{most} blocks, got {cluster}")
    return cluster, size > 1 or bool(fixed) or "explicitcluster" in directives


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise WeftError(f"{what} must be True or False, got {shown(value)}")
    return bool(value)


def _check(launch: Launch, kernel: str, directives: Mapping[str, tuple[int, ...]], room: int) -> None:
    """Rejects what a driver rejects; `room` is the shared memory that a block can have."""
    if any(g % c for g, c in zip(launch.grid, launch.cluster, strict=True)):
        raise WeftError(
            f"grid must be a multiple of cluster {launch.cluster} in each dimension, got {launch.grid}"
        )
    if not (isinstance(launch.arithmetic, str) and launch.arithmetic in ("hardware", "exact")):
        raise WeftError(f"arithmetic must be 'hardware' or 'exact', got {shown(launch.arithmetic)}")
    if complaint := block_complaint(launch.block) or grid_complaint(launch.grid):
        raise WeftError(f"kernel '{kernel}': {complaint}")
    if launch.shared_bytes > room:
        raise WeftError(
            f"kernel '{kernel}' needs {launch.shared_bytes} bytes of shared memory, but a block has {room}"
        )
    required = (*directives.get("reqntid", ()), 1, 1)[:3] if "reqntid" in directives else launch.block
    if required != launch.block:
        raise WeftError(f"kernel '{kernel}': block must be {required}, got {launch.block}")
    most = prod(directives.get("maxntid", (MOST_THREADS,)))
    if launch.threads > most:
        raise WeftError(f"kernel '{kernel}': block must have at most {most} threads, got {launch.threads}")


def counters_of(program: Program, totals: Totals) -> dict[str, int]:
    counters = Counter[str]()
    for block, runs in zip(program.blocks, totals.runs, strict=True):
        for opcode in block.opcodes if runs else ():
            counters[opcode] += runs
    return dict(sorted(counters.items())) | {f"bytes.{space}": n for space, n in sorted(totals.bytes.items())}
