"""Writes docs/ops.md, the operations of the instruction dialects: `python -m weft.tools.op_docs [FILE]`."""

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from weft.dialects import DIALECTS
from weft.dialects.descriptor import DescriptorOp
from weft.dialects.instruction import InstructionOp
from weft.mlir import ext

_ROOT = Path(__file__).parents[1]
_ABOUT = """\
# Operations

One operation stands for one instruction, all of whose forms are attributes; [the tables](isa/index.md) say
which forms there are, on which chips. An operation is written with its name in quotes, as MLIR's generic
form has it, and the chip by the module around it: `gpu.module @m [#nvvm.target<chip = "sm_90a">]`. Without
one, a form must be legal on some chip. Where several operands may be lists, `operandSegmentSizes` counts
the registers of each, in the order below, absent ones with 0.

From Python each is a function of the same name in `weft.dialects.wmma`, `mma`, `wgmma` and `tcgen05`, which
takes operands (a value, or a list of registers) and attributes by their names and raises `weft.WeftError`
where the form isn't legal. `test/dialects` has a page of valid and a page of invalid forms for each
dialect.

Descriptors are operations too, built from typed fields; in Python also
`weft.isa.descriptors.MatrixDescriptor` (wgmma), `weft.isa.tcgen05_descriptors` and
`weft.isa.tcgen05_shared_descriptor`, which encode and decode words. `weft.isa.packed` encodes, decodes and
answers queries of the 64-bit words by which NVIDIA's compiler names the instructions before Hopper.
"""


def page() -> str:
    """The text of docs/ops.md."""
    lines = [_ABOUT]
    for dialect in DIALECTS:
        found = [op for op in _operations(dialect) if issubclass(op, InstructionOp | DescriptorOp)]
        if found:
            lines += [f"## {dialect.DIALECT_NAMESPACE}", ""]
            for op in found:
                lines += _operation(op)
    return "\n".join(lines)


def _operations(dialect: Any) -> Iterator[Any]:
    return iter(sorted(dialect.operations, key=lambda op: str(op.OPERATION_NAME)))


def _operation(op: Any) -> Iterator[str]:
    yield from (f'### "{op.OPERATION_NAME}"', "", cleandoc(op.__doc__ or ""), "")
    if issubclass(op, InstructionOp):
        dialect = op.OPERATION_NAME.partition(".")[0]
        yield from (f"Forms: [`{op.family.name}`](isa/{dialect}.md).", "")
    for what, kind in (("operands", ext.OperandDef), ("results", ext.ResultDef)):
        names = [f"`{field.name}`" for field in op._fields if isinstance(field, kind)]
        if names:
            yield f"- {what}: {', '.join(names)}"
    declared = [f.name for f in op._fields if not isinstance(f, ext.OperandDef | ext.ResultDef)]
    if declared:
        yield f"- attributes: {', '.join(f'`{name}`' for name in declared)}"
    if op.optional:
        defaults = (f"`{name}` ({_shown(value)})" for name, value in op.optional.items())
        yield f"- attributes with defaults: {', '.join(defaults)}"
    yield from ("", "```mlir", *_example(op.OPERATION_NAME), "```", "")


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _example(name: str) -> list[str]:
    """The first use of an operation on the page of valid forms."""
    text = (_ROOT / "test" / "dialects" / name.partition(".")[0] / "ops.mlir").read_text(encoding="utf-8")
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if f'"{name}"(' in line and "//" not in line)
    found = [lines[begin]]
    while _open("\n".join(found)):
        found.append(lines[begin + len(found)])
    return [re.sub("^  ", "", line) for line in found]


def _open(text: str) -> bool:
    """Whether an operation goes on: a bracket is open, or its type is still to come."""
    depth = sum(text.count(a) - text.count(b) for a, b in ("()", "{}", "<>", "[]")) + text.count("->")
    return depth != 0 or "->" not in text or text.rstrip().endswith("->")


def main(arguments: list[str]) -> int:
    """Writes the page, to docs/ops.md of the checkout unless a file is named."""
    Path(arguments[0] if arguments else "docs/ops.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
