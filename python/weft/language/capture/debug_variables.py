"""Tells a debugger which registers hold the variables of a kernel: by comments in its PTX.

`// weft.variable f.x|fragment|f32|64x64|S[…]|%r1 %r2` means: from here on, as long as nothing else is written
to these registers, they hold `x` of function `f`. Comments execute nothing, but the compiler can't remove
what a comment names, and may order instructions differently.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import is_fragment, is_free
from weft.ir import callers
from weft.language.capture import trace
from weft.language.capture.python_objects import LIBRARIES
from weft.language.capture.tracing_state import keeps_variables
from weft.language.operations.products import Pending
from weft.language.values.buffers import Buffer
from weft.language.values.dtypes import NUMBERS, DType
from weft.language.values.fragments import Fragment
from weft.language.values.rings import Ring
from weft.language.values.scalars import Loaded, Scalar, dtype_of
from weft.language.values.stages import Slot
from weft.mlir import arith, ir, llvm, operations, vector
from weft.passes import assign_layouts
from weft.passes.builders import emit

MARK = "weft.variable"
_WORD = 32
_MOST_MEMBERS = 16
_ADDRESSES = {"shared": "shared", "tmem": "tensor"}


@contextmanager
def named() -> Iterator[None]:
    """In the block, each variable of the user's functions is named when it gets another value, if variables
    are kept.
    """
    if not keeps_variables():
        yield
        return
    before, watcher = sys.gettrace(), _Watcher()
    sys.settrace(watcher.called)
    try:
        yield
    finally:
        sys.settrace(before)


class _Watcher:
    """Follows the user's functions line by line."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, object]] = {}
        self._lines: dict[int, int] = {}

    def called(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Python calls this for each new frame."""
        if not _is_users(frame.f_code.co_filename):
            return None
        self._known[id(frame)], self._lines[id(frame)] = {}, frame.f_code.co_firstlineno
        return self._line

    def _line(self, frame: FrameType, event: str, argument: object) -> Callable[..., object]:
        if event not in ("line", "return"):
            return self._line
        variables, function = self._known[id(frame)], frame.f_code.co_name
        changed = {
            name: value
            for name, value in frame.f_locals.items()
            if not name.startswith("_") and (name not in variables or variables[name] is not value)
        }
        if changed:
            variables.update(changed)
            sys.settrace(None)  # what names variables isn't to be followed itself
            try:
                file = frame.f_code.co_filename.encode("utf-8", "backslashreplace").decode()
                # The line that has been executed, not the next one.
                with ir.Location.file(file, self._lines[id(frame)], 0):
                    for name, value in changed.items():
                        name_value(f"{function}.{name}", value)
            finally:
                sys.settrace(self.called)
        self._lines[id(frame)] = frame.f_lineno
        if event == "return":
            del self._known[id(frame)], self._lines[id(frame)]
        return self._line


@cache
def _is_users(file: str) -> bool:
    """Whether a file is of the user's own code, not of a library."""
    return not (callers.is_hidden(file) or file.startswith(("<", *LIBRARIES)))


def name_value(name: str, value: object) -> None:
    """Builds the comment that names a value, if a debugger can show it and it can be used here."""
    if type(value) in NUMBERS:
        _mark(name, "constant", repr(value))
    elif isinstance(value, Pending):
        _mark(name, "pending", str(value))
    elif isinstance(value, (tuple, list)):
        for number, member in enumerate(value[:_MOST_MEMBERS]):
            name_value(f"{name}[{number}]", member)
    elif isinstance(value, dict):
        for key, member in list(value.items())[:_MOST_MEMBERS]:
            if isinstance(key, str) and key.isidentifier():
                name_value(f"{name}.{key}", member)
    elif isinstance(value, Ring):
        for buffer, memory in value._buffers.items():
            _mark_buffer(f"{name}.{buffer}", memory)
    elif isinstance(value, Slot):
        if value._released is None and _usable(value.stage):
            for buffer in value.ring.kinds:
                _mark_buffer(f"{name}.{buffer}", value.ring.buffer(buffer, value.stage).value)
    elif isinstance(value, Buffer):
        _mark_buffer(name, value.value)
    elif isinstance(value, Loaded):
        name_value(name, value.element)
    elif isinstance(value, Scalar):
        if _usable(value.value):
            operands, letters = _words(value.value)
            _mark(name, "scalar", value.dtype.shown, operands=operands, letters=letters)
    elif isinstance(value, Fragment) and _usable(value.value):
        if value.is_free:
            # An operation keeps the value where others replace it.
            kinds = [ir.IntegerType.get_signless(1)]
            use = ir.Operation.create(emit.SIGN_CAST, results=kinds, operands=[value.value])
            trace.current().undecided.append((use, name))
        else:
            _mark_fragment(name, value.value, value.dtype)


def name_undecided() -> None:
    """Names the fragments whose layout wasn't decided when they got their names. A kernel that
    `--pipeline-loops` divides gets no names: comments in its loop would prevent that.
    """
    current = trace.current()
    function = current.function.operation
    is_divided = any(is_free(op.d) for op in operations(function, tile.GemmOp))
    if current.undecided and not is_divided:
        assign_layouts.run(function)
    for use, name in current.undecided:
        value = use.operands[0]
        if is_fragment(value):
            with ir.InsertionPoint(use), use.location:
                _mark_fragment(name, value, dtype_of(value.type))
        use.erase()
    for comment in operations(function, llvm.InlineAsmOp) if is_divided else ():
        if f"// {MARK}" in comment.asm_string.value:
            comment.operation.erase()


def _mark_fragment(name: str, value: ir.Value, dtype: DType) -> None:
    operands, letters = _words(tile.to_lane(value))
    details = dtype.shown, "x".join(map(str, value.type.shape)), str(value.type.layout)
    _mark(name, "fragment", *details, operands=operands, letters=letters)


def _mark_buffer(name: str, value: ir.Value) -> None:
    kind = value.type
    if not _usable(value) or kind.space not in _ADDRESSES:
        return
    address = tile.address(value)
    word = llvm.ptrtoint(ir.IntegerType.get_signless(_WORD), address)
    shape = "x".join(map(str, kind.shape))
    details = str(kind.element_type), shape, str(kind.layout)
    _mark(name, _ADDRESSES[kind.space], *details, operands=[word], letters=["r"])


def _words(value: ir.Value) -> tuple[list[ir.Value], list[str]]:
    """The registers of a number, or of a lane's elements, and the constraints of inline PTX for them; no
    registers for types that have none.
    """
    kind = value.type
    if isinstance(kind, ir.IndexType):
        return [arith.index_cast(emit.i64(), value)], ["l"]
    if not isinstance(kind, ir.VectorType):
        return _scalar(value)
    bits, count = kind.element_type.width, kind.shape[0]
    if bits in (8, 16) and count * bits % _WORD == 0:
        words = ir.VectorType.get([count * bits // _WORD], ir.IntegerType.get_signless(_WORD))
        value = vector.bitcast(words, value)
    found = [_scalar(each) for each in emit.elements(value)]
    return [one for operands, _ in found for one in operands], [
        one for _, letters in found for one in letters
    ]


def _scalar(value: ir.Value) -> tuple[list[ir.Value], list[str]]:
    value = emit.signless(value)
    kind, integer = value.type, ir.IntegerType.get_signless
    bits = kind.width
    if isinstance(kind, ir.IntegerType):
        if bits < 16:
            value, bits = arith.extui(integer(_WORD), value), _WORD
        return [value], [{16: "h", 32: "r", 64: "l"}[bits]]
    if bits == 16:
        return [arith.bitcast(integer(16), value)], ["h"]
    if bits == 8:
        return _scalar(arith.bitcast(integer(8), value))
    return [value], [{32: "f", 64: "d"}[bits]]


def _mark(
    name: str, kind: str, *details: str, operands: Sequence[object] = (), letters: Sequence[str] = ()
) -> None:
    registers = " ".join(f"${number}" for number in range(len(operands)))
    text = "|".join([name, kind, *(each.replace("$", "$$") for each in details), registers])
    llvm.inline_asm(
        None,
        list(operands),
        f"// {MARK} {text}",
        ",".join(letters),
        has_side_effects=True,
        is_align_stack=False,
    )


def _usable(value: ir.Value) -> bool:
    """Whether a value may be used where operations are built now: in its own region, or in one inside it."""
    owner = value.owner
    home = owner if isinstance(owner, ir.Block) else owner.operation.block
    block = ir.InsertionPoint.current.block
    while block is not None:
        if block == home:
            return True
        parent = block.owner
        operation = getattr(parent, "operation", parent)
        if operation is None or operation.parent is None or operation.name == "builtin.module":
            return False
        block = operation.block
    return False
