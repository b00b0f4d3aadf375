"""`--weft-to-nvvm`: converts tensor-core instructions to upstream's `nvvm` operations.

Instructions without a counterpart stay, for the passes `--lower-…`. With `strict=true`, each is an error with
the reason.
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
from weft.passes.builders.instructions import first_sum
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


def run(module: ir.Operation, strict: str) -> None:
    """Converts every operation that has a counterpart. Raises WeftError for the others if `strict` is
    "true".
    """
    if strict not in ("true", "false"):
        raise WeftError(f"pass 'weft-to-nvvm': strict must be true or false, got '{strict}'")
    unconverted: list[Diagnostic] = []
    for op in operations(module, *_OURS):
        try:
            with ir.InsertionPoint(op), op.location:
                _replace(op)
        except Inexpressible as reason:
            unconverted += refuse(op, f"can't be converted to nvvm: {reason}").diagnostics
    if unconverted and strict == "true":
        raise WeftError(*unconverted)


def _replace(op: ir.OpView) -> None:
    """Replaces our operation by upstream's. Raises Inexpressible."""
    pair, form = _pair(op), op.form
    before = list(op.operation.operands)
    operands = {f.name: op.values(f.name) for f in pair.ours._fields if isinstance(f, ext.OperandDef)}
    draft = Draft(operands, discardable(op))
    for rule in pair.rules:
        rule.to_theirs(op, draft)
    for name, kind in pair.slots():
        if not kind and len(draft.operands[name]) != 1:
            got = len(draft.operands[name]) or "none"
            raise Inexpressible(f"the nvvm operation takes one {name}, got {got}")
    replacement = _built(pair, [_slot(op, form, pair, draft, *slot) for slot in pair.slots()], op, draft)
    for old, new in zip(op.operation.results, replacement.results, strict=True):
        old.replace_all_uses_with(new if old.type == new.type else llvm.extractelement(new, _index()))
    op.operation.erase()
    sweep(before)


def _pair(op: ir.OpView) -> Pair:
    """The counterpart of our operation. Raises Inexpressible if it can't express all of `op`."""
    if isinstance(op, DescriptorOp):
        raise Inexpressible("it is arithmetic, not an instruction")
    pair = _BY_CLASS.get(type(op))
    if pair is None:
        raise Inexpressible(f"nvvm has no operation for {op.form.ptx}")
    if first_sum(op) is not None:
        raise Inexpressible("the nvvm operation has no sums in named registers")
    expressed = {axis for rule in pair.rules for axis in rule.axes} | {name for name, _ in pair.slots()}
    defaults = {axis.name: axis.default for axis in fields(op.family.form)}
    for axis, value in vars(op.form).items():
        default = False if defaults[axis] is MISSING else defaults[axis]
        if axis not in expressed and axis not in op.derived and value != default:
            raise Inexpressible(f"the nvvm operation has no {spelled(axis, value)}")
    if reason := pair.broken(op.form):
        raise Inexpressible(reason)
    return pair


def _slot(op: ir.OpView, form: Any, pair: Pair, draft: Draft, name: str, kind: str) -> list[ir.Value]:
    """Upstream's operands for our operand of this name."""
    _, is_immediate, number = kind.partition(":")
    if not is_immediate:
        return [_vector(v) if name in pair.vectors else v for v in draft.operands[name]]
    if not any(operand.name == name for operand in form.operands):
        return []
    return [llvm.mlir_constant(ir.IntegerAttr.get(ir.Type.parse(number), op.attribute(name)))]


def _vector(value: ir.Value) -> ir.Value:
    """A register as a vector of one element. A vector is returned unchanged."""
    kind = _vector_of(value.type)
    if kind == value.type:
        return value
    return llvm.insertelement(llvm.mlir_undef(kind), value, _index())


def _vector_of(kind: ir.Type) -> ir.Type:
    return kind if isinstance(kind, ir.VectorType) else ir.VectorType.get([1], kind)


def _index() -> ir.Value:
    return llvm.mlir_constant(integer(32, 0))


def _built(pair: Pair, groups: list[list[ir.Value]], op: ir.OpView, draft: Draft) -> ir.Operation:
    """Upstream's operation. Raises Inexpressible if upstream's verifier refuses it."""
    operands = [value for group in groups for value in group]
    if pair.segmented:
        sizes = ir.DenseI32ArrayAttr.get([len(group) for group in groups])
        draft.attributes["operandSegmentSizes"] = sizes
    names = [f.name for f in pair.ours._fields if isinstance(f, ext.ResultDef)]
    results = [
        _vector_of(result.type) if name in pair.vectors else result.type
        for name, result in zip(names, op.operation.results, strict=True)
    ]
    converted = ir.Operation.create(
        pair.theirs.OPERATION_NAME, results=results, operands=operands, attributes=draft.attributes
    )
    try:
        converted.verify()
    except mlir.MLIRError as failure:
        converted.erase()
        sweep(operands)
        raise Inexpressible(
            f"upstream's verifier reports: {mlir.error(failure).diagnostics[0].message}"
        ) from None
    return converted


WEFT_TO_NVVM = Pass(
    "weft-to-nvvm",
    "convert tensor-core instructions to upstream's nvvm operations, where they exist",
    run,
    {"strict": "false"},
)
