"""The properties of a program that the sanitizer's rules depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Step
from weft.emulator.memory.access import LEVELS, WORLD_LEVELS
from weft.emulator.reading.types import Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.dataflow import (
    NOTHING,
    Watched,
    constant_loads,
    ignored_waits,
    matrix_loads,
    watched,
)
from weft.emulator.sanitizer.discards import Use, discarding, early
from weft.emulator.sanitizer.padding import needed_elements
from weft.emulator.sanitizer.register_pool import registers_at_entry
from weft.emulator.watch import Traffic

_COPIES = {f"cp.{unit}.bulk{tensor}" for unit in ("async", "reduce.async") for tensor in ("", ".tensor")}


@dataclass(frozen=True)
class Kernel:
    """The properties of a program that rules depend on.

    `calls`: it has functions. `tensor_fences`: which of tcgen05.fence::before_thread_sync and
    ::after_thread_sync it has; compilers that emit none order tensor memory by barriers alone. `levels`: the
    scopes of its accesses and fences that order others. `global_copies`: it has bulk copies, which may access
    global memory. `most_registers`: a thread's registers according to `.maxnreg`. `ignored_waits`: the lines
    of waits for mbarriers whose result nothing reads. `discarding`: the lines of loads that some lanes
    discard, and which lanes use them. `early`: the steps that compute what this depends on. `matrix_loads`:
    the instructions by which the `program` loads what may be followed: see `Undefined`. `needed`: the
    elements of loads that aren't just copied. `constant`: the lines of `ld.global.nc`. `watched`: the
    registers whose uses the program announces. `init_fences`: asynchronous units need a fence after the init
    of an mbarrier of their own CTA, too. `by_lane`: what a lane of a warp releases or acquires counts for the
    others only from the warp's next barrier on. `in_world`: several GPUs run.
    """

    calls: bool = False
    tensor_fences: frozenset[str] = frozenset()
    global_copies: bool = False
    levels: frozenset[int] = frozenset(LEVELS.values())
    most_registers: int | None = None
    ignored_waits: frozenset[int] = frozenset()
    discarding: Mapping[int, Use] = field(default_factory=dict)
    early: tuple[Step, ...] = ()
    matrix_loads: Mapping[int, Traffic] = field(default_factory=dict)
    program: Program | None = None
    needed: Mapping[int, Bools] = field(default_factory=dict)
    constant: frozenset[int] = frozenset()
    watched: Watched = NOTHING
    init_fences: bool = False
    by_lane: bool = False
    in_world: bool = False

    @classmethod
    def of(cls, program: Program, *, strict: bool = False) -> "Kernel":
        """The properties of a program; `strict`: also what PTX requires and hardware is known not to need."""
        opcodes = {opcode for block in program.blocks for opcode in block.opcodes}
        copies = bool(opcodes & _COPIES)
        tensor = any(opcode.startswith("tcgen05.alloc") for opcode in opcodes)
        fences_inits = strict or any(code.fences_inits for code in program.codes.values())
        fences = frozenset(
            kind
            for kind in ("before", "after")
            if (strict and tensor) or f"tcgen05.fence::{kind}_thread_sync" in opcodes
        )
        registers_to_watch = watched(program)
        if strict:
            registers_to_watch = replace(registers_to_watch, loads_are_waited_for=True)
        levels = frozenset(level for code in program.codes.values() for level in code.levels)
        return cls(
            len(program.codes) > 1,
            fences,
            copies,
            levels,
            registers_at_entry(program),
            ignored_waits(program),
            discarding(program),
            early(program),
            matrix_loads(program),
            program,
            needed_elements(program),
            constant_loads(program),
            registers_to_watch,
            fences_inits and (copies or tensor),
            strict,
            program.scopes is WORLD_LEVELS,
        )

    def begin(self, wave: Wave) -> None:
        """Computes registers that no thread changes before the wave does."""
        for step in self.early:
            step(Lanes(wave, None, None, wave.warps))


ANY_KERNEL = Kernel()
"""The properties of a program of which nothing is known."""
