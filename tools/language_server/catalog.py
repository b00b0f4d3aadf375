"""What hovers and completions know about operations, as plain values: the server itself doesn't load MLIR."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from inspect import cleandoc
from typing import Any, Self

_LONGEST_DOC = 2000


@dataclass(frozen=True)
class OpFacts:
    """An operation: its documentation, the names of its parts, and the table of its forms if it has one.

    `optional` are the defaults of attributes that may be missing, as MLIR writes them. `derived` are the axes
    of the table that follow from operands. `values` are the values of attributes without a table, and
    `schedules` the fields of each family of schedules, if the operation takes one.
    """

    name: str
    doc: str = ""
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    optional: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    derived: tuple[str, ...] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    schedules: Sequence[Sequence[str]] = ()

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The facts that a process has sent as JSON."""
        values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in plain.items()}
        return cls(**values)


Facts = Mapping[str, OpFacts]


def collect() -> list[dict[str, Any]]:
    """The facts about all operations of Weft's dialects, of extensions and of upstream's. Loads MLIR."""
    from weft import mlir
    from weft.dialects import dialects

    ours = [_of_weft(op) for dialect in dialects() for op in dialect.operations]
    theirs = [OpFacts(name, _shortened(kind.__doc__)) for name, kind in mlir.upstream_operations().items()]
    known = {facts.name for facts in ours}
    return [asdict(facts) for facts in (*ours, *(each for each in theirs if each.name not in known))]


def _of_weft(op: Any) -> OpFacts:
    from weft.dialects.instruction import InstructionOp
    from weft.dialects.tile import MatmulOp
    from weft.mlir import ext

    def names(kind: Any) -> tuple[str, ...]:
        return tuple(field.name for field in op._fields if isinstance(field, kind))

    is_instruction = issubclass(op, InstructionOp)
    return OpFacts(
        op.OPERATION_NAME,
        _shortened(op.__doc__),
        names(ext.OperandDef),
        names(ext.ResultDef),
        names(ext.AttributeDef),
        {name: _written(value) for name, value in getattr(op, "optional", {}).items()},
        op.family.name if is_instruction and op.family is not None else "",
        tuple(op.derived) if is_instruction else (),
        *(_of_products() if op.OPERATION_NAME == MatmulOp.OPERATION_NAME else ()),
    )


def _of_products() -> tuple[dict[str, tuple[str, ...]], tuple[tuple[str, ...], ...]]:
    """The values of the attributes of `tile.matmul`, and the fields of its schedules."""
    from weft.dialects.activations import ACTIVATIONS
    from weft.dialects.schedule import FAMILIES

    return {"activation": tuple(ACTIVATIONS)}, tuple(tuple(f.name for f in fields(each)) for each in FAMILIES)


def _written(value: object) -> str:
    """A default as MLIR writes it; "" for none."""
    if value is None:
        return ""
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _shortened(doc: str | None) -> str:
    text = cleandoc(doc or "")
    return text if len(text) <= _LONGEST_DOC else f"{text[:_LONGEST_DOC].rsplit(chr(10), 1)[0]}\n…"
