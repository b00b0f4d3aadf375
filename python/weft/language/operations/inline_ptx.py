"""Instructions of PTX in a kernel, checked by the tables and by the emulator's reader."""

import re
from collections.abc import Sequence

from weft.errors import WeftError, shown
from weft.isa.chips import NEWEST_PTX
from weft.isa.text import reader, written
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.roles import once
from weft.language.values.buffers import Element
from weft.language.values.dtypes import DType, checked_type
from weft.language.values.fragments import Fragment, common, together
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar, as_scalar, dtype_of
from weft.mlir import ir
from weft.passes.builders import addresses, emit
from weft.passes.builders.instructions import LETTERS, assembly

_MODULE = """.version {0}.{1} .target {2} .address_size 64 .entry kernel() {{ {3} {{
{4}
}} ret; }}
"""
_HOLE = re.compile(r"\$(\d+)")
_ADDRESS = re.compile(r"\[\s*\$(\d+)\s*[\]+-]")

Result = Scalar | Fragment | tuple[Scalar | Fragment, ...] | None


def ptx(text: str, *operands: object, result: DType | Sequence[DType] | None = None) -> Result:
    """Executes instructions of PTX, such as `w.ptx("popc.b32 $0, $1;", x, result=w.i32)`.

    `$0` and so on are the results, then the operands. `result` is the type of the result, or a tuple of
    types; without it, there is none. Operands have 16, 32 or 64 bits. An element of an array or buffer in
    brackets, as `$1` in `ld.global.cv.b32 $0, [$1];`, is its address. With fragments as operands, the
    instructions are executed for each element.

    The instructions must be legal on the chip, and known to the emulator. They stay in their order, may
    change memory, and are executed even if nothing uses their results.
    """
    if not isinstance(text, str):
        raise mistake(f"w.ptx expects instructions as text, got {shown(text)}")
    several = isinstance(result, Sequence)
    listed = result if isinstance(result, Sequence) else [] if result is None else [result]
    types = [checked_type(each) for each in listed]
    in_brackets = {int(number) - len(types) for number in _ADDRESS.findall(text)}
    values = [_operand(each, number in in_brackets) for number, each in enumerate(operands)]
    kinds = [each.type for each in types] + [emit.element_of(each.value.type) for each in values]
    _check(text, [_width(kind) for kind in kinds])
    fragments = [each for each in values if isinstance(each, Fragment)]
    if fragments:
        made = _of_each_element(text, types, values, common(fragments))
    else:
        made = [Scalar(each) for each in _executed(text, types, [each.value for each in values])]
    return tuple(made) if several else made[0] if made else None


class _Address:
    """The address of an element, as an operand."""

    def __init__(self, value: ir.Value) -> None:
        self.value = addresses.number(value)


def _operand(value: object, is_address: bool) -> "Scalar | Fragment | _Address":
    if isinstance(value, (Fragment, Scalar)):
        return value
    if not is_address:
        return as_scalar(value)
    if not isinstance(value, (Element, Place)) or value.element is None:
        raise mistake(f"an address of w.ptx is an element, with all its indices, got {shown(value)}")
    return _Address(value.address)


def _width(kind: ir.Type) -> int:
    if kind.width not in (16, 32, 64):
        raise mistake(
            f"registers of PTX have 16, 32 or 64 bits, got {dtype_of(kind)}: convert it with .to(w.i32)"
        )
    return int(kind.width)


def _check(text: str, widths: Sequence[int]) -> None:
    """Raises WeftError for instructions that the tables or the emulator don't take, of such registers."""
    from weft.emulator import Module

    if not text.rstrip().endswith((";", "}")):
        raise mistake(f"instructions of w.ptx must end with a semicolon, got {shown(text)}")
    numbers = {int(number) for number in _HOLE.findall(text)}
    if "$" in _HOLE.sub("", text) or numbers != set(range(len(widths))):
        last = f"$0..${len(widths) - 1}" if widths else "no $, without results and operands"
        raise mistake(f"w.ptx must have {last}, the results and then the operands, got {shown(text)}")
    chip = trace.current().chip
    registers = " ".join(f".reg .b{width} %weft{number};" for number, width in enumerate(widths))
    module = _MODULE.format(*NEWEST_PTX, chip, registers, _HOLE.sub(r"%weft\1", text))
    judge = written.Judge(chip, NEWEST_PTX)
    for statement in reader.statements(module, others=True):
        if (verdict := judge(statement)) is not None:
            raise mistake(f"'{statement.opcode}' {verdict}".replace("%weft", "$"))
    try:
        Module(module).parameter_bytes("kernel")
    except WeftError as error:
        raise mistake(error.diagnostics[0].message.replace("%weft", "$")) from None


def _executed(text: str, types: Sequence[DType], values: Sequence[ir.Value]) -> list[ir.Value]:
    """Builds the instructions; their results."""
    words = [ir.IntegerType.get_signless(each.bits) for each in types]
    inputs = [emit.bits(each, ir.IntegerType.get_signless(each.type.width)) for each in values]
    outputs = [f"={LETTERS[str(word)]}" for word in words]
    letters = [*outputs, *(LETTERS[str(each.type)] for each in inputs), "~{memory}"]

    def build() -> list[ir.Value]:
        return assembly(text, letters, inputs, [str(word) for word in words])

    if len(words) > 1:
        if trace.current().single is not None:
            raise mistake(f"w.ptx in w.one_thread() has one result at most on {trace.current().chip}")
        results = build()
    else:
        only = once(lambda: next(iter(build()), None))
        results = [] if only is None else [only]
    return [emit.bits(each, kind.type) for each, kind in zip(results, types, strict=True)]


def _of_each_element(
    text: str, types: Sequence[DType], values: Sequence[Scalar | Fragment | _Address], like: Fragment
) -> list[Scalar | Fragment]:
    """The fragments of the results, one for each element of fragments that fit to `like`."""
    trace.current().check_whole_warps("w.ptx of a tile or vector")
    _ = like.layout  # elements are those of lanes
    count = len(like.elements())
    columns = [
        together(like, each)[1].elements() if isinstance(each, Fragment) else [each.value] * count
        for each in values
    ]
    results = zip(*(_executed(text, types, row) for row in zip(*columns, strict=True)), strict=True)
    return [Fragment.of_lane(emit.vector_of(list(each)), like.shape, like.layout) for each in results]
