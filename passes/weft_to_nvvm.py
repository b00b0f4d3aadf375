"""`--weft-to-nvvm`: tensor-core instructions become upstream's `nvvm` operations, where upstream has them.

The others stay, for `--lower-…` to take; with `strict=true` each of them is an error that says why.
"""

from dataclasses import MISSING, fields
from typing import Any

from weft import mlir
from weft.dialects.descriptor import DescriptorOp
from weft.dialects.mma import Mma
from weft.dialects.op import refuse
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.errors import Diagnostic, WeftError
from weft.mlir import ext, ir, llvm, operations
from weft.passes.registry.pass_ import Pass
from weft.passes.upstream.correspondence import (
    Draft,
    Inexpressible,
    Pair,
    discardable,
    integer,
    spelled,
    sweep,
)
from weft.passes.upstream.operations import PAIRS

_OURS = tuple(kind for dialect in (Wmma, Mma, Wgmma, Tcgen05) for kind in dialect.operations)
_BY_CLASS = {pair.ours: pair for pair in PAIRS}


def run(module: Any, strict: str) -> None:
    """Converts what upstream can say. Raises WeftError for the rest where `strict` is "true"."""
    if strict not in ("true", "false"):
        raise WeftError(f"pass 'weft-to-nvvm': strict is true or false, got '{strict}'")
    left: list[Diagnostic] = []
    for op in operations(module, *_OURS):
        try:
            with ir.InsertionPoint(op), op.location:
                _replace(op)
        except Inexpressible as reason:
            left += refuse(op, f"has no nvvm operation: {reason}").diagnostics
    if left and strict == "true":
        raise WeftError(*left)


def _replace(op: Any) -> None:
    """Builds upstream's operation before ours, and gives it the other's uses. Raises Inexpressible."""
    pair, form = _pair(op), op.form
    given = list(op.operation.operands)
    operands = {f.name: op.values(f.name) for f in pair.ours._fields if isinstance(f, ext.OperandDef)}
    draft = Draft(operands, discardable(op))
    for rule in pair.rules:
        rule.to_theirs(op, draft)
    for name, kind in pair.slots():
        if not kind and len(draft.operands[name]) != 1:
            raise Inexpressible(f"upstream's takes one {name}, not {len(draft.operands[name]) or 'none'}")
    made = _built(pair, [_slot(op, form, pair, draft, *slot) for slot in pair.slots()], op, draft)
    for old, new in zip(op.operation.results, made.results, strict=True):
        old.replace_all_uses_with(new if old.type == new.type else llvm.extractelement(new, _index()))
    op.operation.erase()
    sweep(given)


def _pair(op: Any) -> Pair:
    """The counterpart of our operation, which has a word for all that `op` says. Raises Inexpressible."""
    if isinstance(op, DescriptorOp):
        raise Inexpressible("it is arithmetic, not an instruction")
    pair = _BY_CLASS.get(type(op))
    if pair is None:
        raise Inexpressible(f"upstream has none for {op.form.ptx}")
    said = {axis for rule in pair.rules for axis in rule.axes} | {name for name, _ in pair.slots()}
    defaults = {axis.name: axis.default for axis in fields(op.family.form)}
    for axis, value in vars(op.form).items():
        default = False if defaults[axis] is MISSING else defaults[axis]
        if axis not in said and axis not in op.derived and value != default:
            raise Inexpressible(f"upstream's has no {spelled(axis, value)}")
    if reason := pair.broken(op.form):
        raise Inexpressible(reason)
    return pair


def _slot(op: Any, form: Any, pair: Pair, draft: Draft, name: str, kind: str) -> list[Any]:
    """The operands of upstream's that stand for ours of that name."""
    _, is_immediate, number = kind.partition(":")
    if not is_immediate:
        return [_vector(v) if name in pair.vectors else v for v in draft.operands[name]]
    if not any(operand.name == name for operand in form.operands):
        return []
    return [llvm.mlir_constant(ir.IntegerAttr.get(ir.Type.parse(number), op.attribute(name)))]


def _vector(value: Any) -> Any:
    """A register as a vector of one; a vector as it is."""
    kind = _vector_of(value.type)
    if kind == value.type:
        return value
    return llvm.insertelement(llvm.mlir_undef(kind), value, _index())


def _vector_of(kind: Any) -> Any:
    return kind if isinstance(kind, ir.VectorType) else ir.VectorType.get([1], kind)


def _index() -> Any:
    return llvm.mlir_constant(integer(32, 0))


def _built(pair: Pair, groups: list[list[Any]], op: Any, draft: Draft) -> Any:
    """Upstream's operation. Raises Inexpressible where its own verifier refuses it."""
    operands = [value for group in groups for value in group]
    if pair.segmented:
        sizes = ir.DenseI32ArrayAttr.get([len(group) for group in groups])
        draft.attributes["operandSegmentSizes"] = sizes
    names = [f.name for f in pair.ours._fields if isinstance(f, ext.ResultDef)]
    results = [
        _vector_of(result.type) if name in pair.vectors else result.type
        for name, result in zip(names, op.operation.results, strict=True)
    ]
    made = ir.Operation.create(
        pair.theirs.OPERATION_NAME, results=results, operands=operands, attributes=draft.attributes
    )
    try:
        made.verify()
    except mlir.MLIRError as failure:
        made.erase()
        sweep(operands)
        raise Inexpressible(f"upstream says {mlir.error(failure).diagnostics[0].message}") from None
    return made


WEFT_TO_NVVM = Pass(
    "weft-to-nvvm",
    "turn tensor-core instructions into upstream's nvvm operations, where it has them",
    run,
    {"strict": "false"},
)
