"""What names in expressions mean at a stop: variables, registers, coordinates and arrays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.emulator.reading.syntax import Array
from weft.emulator.watching.stopped import Cta, Stopped
from weft.emulator.watching.variables import Variable, Variables
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools.debugger import matrices, source_files
from weft.tools.debugger.expressions import Tile, Value

COORDINATES = ("cta", "warp", "lane", "thread", "tid", "grid", "block", "cluster")
_CONVERSIONS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8}
_CONVERSIONS |= {f"{kind}{bits}": bits for kind in "us" for bits in (8, 16, 32, 64)}
_MOST = 16


@dataclass(frozen=True)
class Threads:
    """Some threads of a stopped wave: a row and a lane for each. All of them are of one CTA."""

    stopped: Stopped
    rows: npt.NDArray[np.intp]
    lanes: npt.NDArray[np.intp]

    @classmethod
    def one(cls, stopped: Stopped, row: int, lane: int) -> "Threads":
        """A single thread."""
        return cls(stopped, np.array([row]), np.array([lane]))

    @classmethod
    def warp(cls, stopped: Stopped, row: int, lanes: npt.NDArray[np.bool_] | None = None) -> "Threads":
        """The lanes of a warp, by default all."""
        chosen = np.arange(32) if lanes is None else np.flatnonzero(lanes)
        return cls(stopped, np.full(len(chosen), row), chosen)


class Unavailable(WeftError):
    """A variable of the kernel has no value where threads are."""


class ThreadNames:
    """Names for some threads: see `expressions.Names`. `arrays` are those of the launch."""

    def __init__(self, threads: Threads, variables: Variables, arrays: Mapping[str, Array]) -> None:
        self._threads, self._stopped = threads, threads.stopped
        self._all, self._arrays = variables, arrays
        self.known = visible(variables, self._stopped)

    def has(self, name: str) -> bool:
        special = name in COORDINATES or name in self._arrays or name.startswith("%")
        return special or name in self.known

    def value(self, name: str) -> Value:
        if name in COORDINATES:
            return self._coordinate(name)
        if name.startswith("%"):
            bits, size = self.bits(name)
            kind = self._stopped.registers()[name].type.name
            if kind == "pred":
                return bits.astype(np.bool_)
            if kind in ("f16", "f32", "f64", "bf16", "tf32"):
                return matrices.typed(bits, kind)
            return bits if size > 64 else matrices.typed(bits, f"{'u' if kind[0] == 'u' else 's'}{size}")
        if name in self.known:
            return self._variable(self.known[name])
        if name in self._arrays:
            return Tile(matrices.of_array(self._arrays[name]), f"array {name}")
        raise self._unknown(name)

    def call(self, function: str, value: Value) -> Value:
        if function == "abs":
            if isinstance(value, tuple | Tile):
                raise WeftError("abs takes a number")
            positive: Value = np.abs(value)
            return positive
        if function not in _CONVERSIONS:
            known = [*_CONVERSIONS, "abs"]
            raise WeftError(
                f"no function '{function}': there are {', '.join(known)}{did_you_mean(function, known)}"
            )
        if isinstance(value, tuple | Tile):
            raise WeftError(f"{function} takes the bits of a number")
        bits, size = np.asarray(value), _CONVERSIONS[function]
        if bits.dtype.kind == "f":  # those of f32 or, for 64 bits, of f64
            wide = bits.astype(np.float64 if size == 64 else np.float32)
            return matrices.typed(wide.view(np.uint64 if size == 64 else np.uint32), function)
        return matrices.typed(bits.astype(np.int64).view(np.uint64), function)

    def bits(self, name: str) -> tuple[Array, int]:
        """The bits of a register in each thread, and their number."""
        whole = self._stopped.register(name)
        size = self._stopped.registers()[name].type.bits
        return whole[self._threads.rows, self._threads.lanes], size

    def _coordinate(self, name: str) -> Value:
        wave, rows, lanes = self._stopped.wave, self._threads.rows, self._threads.lanes
        if name == "warp":
            return wave.warp_of_row[rows]
        if name == "lane":
            return lanes
        if name == "thread":
            return wave.warp_of_row[rows] * 32 + lanes
        launch = wave.launch
        if name in ("grid", "block", "cluster"):
            return tuple(getattr(launch, name))
        parts = wave.ctaid[rows, 0] if name == "cta" else wave.tid[rows, lanes]
        return tuple(parts[:, axis] for axis in range(3))

    def _variable(self, variable: Variable) -> Value:
        if variable.kind == "constant":
            if variable.text in ("True", "False"):
                return variable.text == "True"
            try:
                return int(variable.text)
            except ValueError:
                return float(variable.text)
        if variable.kind == "pending":
            raise Unavailable(f"'{variable.name}' is {variable.text}: matrix d shows the sums so far")
        held = [self._stopped.wave.regs[slot] for slot in variable.slots]
        if variable.kind == "scalar":
            own = held[0][self._threads.rows, self._threads.lanes]
            return matrices.typed(own, variable.dtype)
        row = int(self._threads.rows[0])
        if variable.kind == "fragment":
            it = variable
            return matrices.fragment(self._stopped.wave, row, it.name, held, it.layout, it.shape, it.dtype)
        address = int(held[0][row, int(self._threads.lanes[0])])
        return self._buffer(variable, address, row)

    def _buffer(self, variable: Variable, address: int, row: int) -> Tile:
        cta, kind = int(self._stopped.wave.cta_of_row[row]), matrices.type_named(variable.dtype)
        if variable.kind == "tensor":
            cells = self._stopped.tensor_memory(cta)
            found = matrices.from_tensor(cells, variable.layout, variable.shape, kind, address)
            where = matrices.at_tensor(address)
        else:
            data = self._stopped.shared(cta)[address:]
            found = matrices.from_bytes(data, variable.layout, variable.shape, kind)
            where = f"shared memory at 0x{address:x}"
        size = matrices.size_of(variable.shape)
        return Tile(found, f"{variable.name}: {size} {kind} in {where}, layout {variable.layout}")

    def _unknown(self, name: str) -> WeftError:
        listed = [*self.known, *(each for each in self._arrays if each not in self.known)]
        elsewhere = {each.name: each.line for each in self._all.all}
        parts = sorted(each for each in self.known if each.startswith((f"{name}.", f"{name}[")))
        if parts:
            return WeftError(f"'{name}' has parts: print {' or '.join(parts[:_MOST])}")
        there = (
            f"there are {', '.join(listed[:_MOST])}{', …' if len(listed) > _MOST else ''}" if listed else ""
        )
        there = there or "there are no variables here: print registers, such as %r1"
        if name in elsewhere:
            return Unavailable(
                f"'{name}' has no value here: it isn't assigned yet, or its register is reused; {there}"
            )
        return WeftError(f"no variable '{name}' here: {there}{did_you_mean(name, [*listed, *COORDINATES])}")


def visible(variables: Variables, stopped: Stopped) -> dict[str, Variable]:
    """The variables that have values at a stop, by name: those of the function that threads are in, then
    those of the kernel; those of other functions as `function.name`.
    """
    found = variables.at(stopped.position)
    source = stopped.source
    here = source_files.function_at(source.file, source.line) if source is not None else None
    own = here.name if here is not None else stopped.function
    named: dict[str, Variable] = {}
    for (function, name), variable in found.items():
        if function == own or (function == stopped.function and (own, name) not in found):
            named[name] = variable
        else:
            named[f"{function}.{name}"] = variable
    return dict(sorted(named.items(), key=lambda item: item[1].line))


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    every = sorted(names)
    return ", ".join(every[:_MOST]) + (", …" if len(every) > _MOST else "")


def range_of(ctas: Sequence[Cta]) -> str:
    """The first and the last one of some CTAs."""
    return f"{ctas[0]}" if len(ctas) == 1 else f"{ctas[0]} to {ctas[-1]}"
