"""The system functions that kernels call and no module defines: vprintf, malloc, free and __assertfail."""

import re
import struct
from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step
from weft.emulator.errors import Fault, PtxError
from weft.emulator.memory.spaces import Memory
from weft.emulator.reading.syntax import TYPES, Array, Name, Operand, Register, Variable
from weft.emulator.running.lanes import Lanes

Read = Callable[[Lanes], Array]
_MAX_TEXT = 1 << 16
_FORMAT = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)


class _Caller:
    """A call of a system function: its arguments and its result, in registers or in the frame."""

    def __init__(self, op: Op, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
        self.op, self.arguments, self.results = op, arguments, results

    def argument(self, number: int, bits: int) -> Read:
        op, kind = self.op, TYPES[f"b{bits}"]
        if number >= len(self.arguments):
            op.fail(f"expects at least {number + 1} arguments")
        operand = self.arguments[number]
        entity = op.entity(operand) if isinstance(operand, Name) else None
        if not isinstance(entity, Variable):
            slot = op.source(operand, kind)
            return lambda lanes: lanes.read(slot)
        if not op.in_frame(entity) or entity.size * 8 < bits:
            op.fail(f"'{entity.name}' is not an argument of {bits} bits", operand.location)
        frame, offset, line = op.code.frame, np.uint64(entity.offset), op.line

        def read(lanes: Lanes) -> Array:
            memory = lanes.wave.memory
            return memory.load(lanes, "local", lanes.read(frame) + offset, kind.bytes, line)

        return read

    def result(self, bits: int) -> Callable[[Lanes, Array], None]:
        op, kind = self.op, TYPES[f"b{bits}"]
        if not self.results:
            return lambda lanes, value: None
        operand = self.results[0]
        entity = op.entity(operand) if isinstance(operand, Name) else None
        if isinstance(entity, Register):
            slot = op.destination(operand, kind)
            return lambda lanes, value: lanes.write(slot, value)
        if not isinstance(entity, Variable) or not op.in_frame(entity) or entity.size * 8 < bits:
            op.fail(f"needs a result of {bits} bits", operand.location)
        frame, offset, line = op.code.frame, np.uint64(entity.offset), op.line

        def write(lanes: Lanes, value: Array) -> None:
            memory = lanes.wave.memory
            memory.store(lanes, "local", lanes.read(frame) + offset, value, kind.bytes, line)

        return write


def _bytes(memory: Memory, lanes: Lanes, address: int, count: int, line: int) -> bytes:
    """Bytes at a generic address, loaded by the one thread of `lanes`."""
    read = bytearray()
    for at in range(count):
        addresses = np.full((lanes.warps, 32), address + at, np.uint64)
        value = memory.load(lanes, "generic", addresses, 1, line)
        read.append(int(value[lanes.enabled()][0]))
    return bytes(read)


def _text(memory: Memory, lanes: Lanes, address: int, line: int) -> str:
    """The string at a generic address, up to its zero."""
    read = bytearray()
    while len(read) < _MAX_TEXT:
        (byte,) = _bytes(memory, lanes, address + len(read), 1, line)
        if not byte:
            break
        read.append(byte)
    return read.decode("utf-8", "replace")


def _vprintf(op: Op, caller: _Caller) -> Step:
    template, values = caller.argument(0, 64), caller.argument(1, 64)
    result, line = caller.result(32), op.line

    def run(lanes: Lanes) -> None:
        formats, lists = template(lanes), values(lanes)
        counts = np.zeros(formats.shape, np.uint32)
        memory = lanes.wave.memory
        for one, at, _ in lanes.singles():
            text = _text(memory, one, int(formats[at]), line)
            formatter = _Formatter(memory, one, int(lists[at]), line)
            memory.device.printed.append(_FORMAT.sub(formatter.replace, text))
            counts[at] = formatter.count
        result(lanes, counts)

    return run


class _Formatter:
    """Formats one thread's values, which follow each other at `address`, each aligned to its size."""

    def __init__(self, memory: Memory, lanes: Lanes, address: int, line: int) -> None:
        self.memory, self.lanes, self.address, self.line = memory, lanes, address, line
        self.offset = self.count = 0

    def value(self, size: int) -> bytes:
        begin = -(-self.offset // size) * size
        self.offset = begin + size
        return _bytes(self.memory, self.lanes, self.address + begin, size, self.line)

    def replace(self, match: re.Match[str]) -> str:
        kind = match["kind"]
        if kind == "%":
            return "%"
        self.count += 1
        width, precision = (
            match[part] if match[part] != "*" else str(int.from_bytes(self.value(4), "little", signed=True))
            for part in ("width", "precision")
        )
        dot = "" if precision is None else f".{precision}"
        spec = f"%{match['flags']}{width or ''}{dot}"
        size = 8 if match["length"] in ("l", "ll", "j", "z", "t") else 4
        if kind in "eEfFgG":
            (number,) = struct.unpack("<d", self.value(8))
            return str(f"{spec}{kind}" % number)
        if kind in "aA":
            (number,) = struct.unpack("<d", self.value(8))
            return str(f"{spec.partition('.')[0]}s" % float(number).hex())
        if kind == "s":
            address = int.from_bytes(self.value(8), "little")
            return str(f"{spec}s" % _text(self.memory, self.lanes, address, self.line))
        if kind == "p":
            return str(f"{spec}s" % hex(int.from_bytes(self.value(8), "little")))
        integer = int.from_bytes(self.value(size), "little", signed=kind in "di")
        if kind == "c":
            return str(f"{spec}s" % chr(integer & 255))
        return str(f"{spec}{'d' if kind in 'iu' else kind}" % integer)


def _malloc(op: Op, caller: _Caller) -> Step:
    size, result = caller.argument(0, 64), caller.result(64)

    def run(lanes: Lanes) -> None:
        device, sizes = lanes.wave.memory.device, size(lanes)
        addresses = np.zeros(sizes.shape, np.uint64)
        for at, _ in lanes.places():
            addresses[at] = device.allocate(int(sizes[at]))
        result(lanes, addresses)

    return run


def _free(op: Op, caller: _Caller) -> Step:
    address, line = caller.argument(0, 64), op.line

    def run(lanes: Lanes) -> None:
        addresses = address(lanes)
        for place, row in lanes.places():
            at = int(addresses[place])
            if at and not lanes.wave.memory.device.release(at):
                thread = lanes.wave.thread(row, place[1])
                raise Fault(f"free of 0x{at:x}, which malloc did not return", line, thread, at)

    return run


def _assertfail(op: Op, caller: _Caller) -> Step:
    message, file, number = caller.argument(0, 64), caller.argument(1, 64), caller.argument(2, 32)
    line = op.line

    def run(lanes: Lanes) -> None:
        one, at, _ = next(lanes.singles())
        texts = [_text(lanes.wave.memory, one, int(t(lanes)[at]), line) for t in (message, file)]
        what = f"assertion '{texts[0]}' failed at {texts[1]}:{number(lanes)[at]}"
        raise Fault(what, line, one.first())

    return run


_SYSTEM: dict[str, Callable[[Op, _Caller], Step]] = {
    "vprintf": _vprintf,
    "malloc": _malloc,
    "free": _free,
    "__assertfail": _assertfail,
    "__assert_fail": _assertfail,
}


def system_call(op: Op, name: str, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> Step:
    """A call of a function without a body. PtxError if it is not a system function."""
    if name not in _SYSTEM:
        raise PtxError(
            f"{op.opcode}: '{name}' has no body and is not a system function", *op.instruction.location
        )
    return _SYSTEM[name](op, _Caller(op, arguments, results))
