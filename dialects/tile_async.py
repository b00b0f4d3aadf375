"""The asynchronous products of the `tile` dialect."""

from collections.abc import Sequence
from typing import Any

from weft.dialects.op import Op, build
from weft.dialects.tile_types import (
    Tile,
    is_buffer,
    is_fragment,
    tile_complaint,
)
from weft.mlir import ext, ir


class GemmAsyncOp(Op, dialect=Tile, name="gemm_async"):
    """A warpgroup starts `d = a * b + c`, or `d = a * b` if `accumulate` (i1) is false, as one group of
    asynchronous instructions.

    A (M x K, or K x M with `transpose_a`) is a buffer, or a fragment of the warpgroup. B (K x N, or N x K
    with `transpose_b`) is a buffer. C and D are fragments of the warpgroup. Until `tile.wait_gemm`, D must
    not be used and the buffers must not be written.
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    accumulate: ext.Operand[Any]
    d: ext.Result[Any]
    optional = {"transpose_a": False, "transpose_b": False}  # noqa: RUF012

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, k = self.a.type.shape[:: -1 if self.attribute("transpose_a") else 1]
        n = self.b.type.shape[0 if self.attribute("transpose_b") else 1]
        return m, n, k

    def check(self) -> str | None:
        if not (is_fragment(self.a) or is_buffer(self.a)):
            return f"expects A to be a tile.fragment or tile.buffer, got {self.a.type}"
        if not is_buffer(self.b):
            return f"expects B to be a tile.buffer, got {self.b.type}"
        if wrong := tile_complaint([self.a, self.b, self.c, self.d]):
            return wrong
        if str(self.accumulate.type) != "i1":
            return f"expects accumulate to be i1, got {self.accumulate.type}"
        for name, value in (("A", self.a), ("B", self.b)):
            if len(value.type.shape) != 2:
                return f"expects {name} of rank 2, got shape {list(value.type.shape)}"
        m, n, k = self.mnk
        if not is_fragment(self.d) or self.d.type != self.c.type:
            return f"expects C and D to be one type of fragment, got {self.c.type} and {self.d.type}"
        if self.d.type.shape != (m, n):
            return f"expects D of shape {[m, n]}, got {list(self.d.type.shape)}"
        k_b = self.b.type.shape[1 if self.attribute("transpose_b") else 0]
        if k_b != k:
            return f"expects A and B of equal K, got {k} in A and {k_b} in B"
        return None


class WaitGemmOp(Op, dialect=Tile, name="wait_gemm"):
    """A warpgroup waits until at most `pending` of its latest `tile.gemm_async` are in flight.

    The results are the operands. Those whose products are finished may be used.
    """

    fragments: Sequence[ext.Operand[Any]]
    done: Sequence[ext.Result[Any]]
    optional = {"pending": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if self.attribute("pending") < 0:
            return f"pending must be at least 0, got {self.attribute('pending')}"
        fragments, results = list(self.operation.operands), list(self.operation.results)
        if [v.type for v in fragments] != [v.type for v in results]:
            return "expects results of the operands' types"
        for value in fragments:
            if not is_fragment(value):
                return f"expects fragments, got {value.type}"
        return tile_complaint(fragments)


class PinOp(Op, dialect=Tile, name="pin"):
    """A fragment of f32 or i32 whose elements are computed before any later operation that writes memory,
    waits or multiplies.

    Without it, the compiler may sink the computation and keep its inputs live. Use it between a finished
    product and the next product in the same registers.
    """

    fragment: ext.Operand[Any]
    pinned: ext.Result[Any]

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects a fragment, got {self.fragment.type}"
        if self.fragment.type != self.pinned.type:
            return f"expects a result of the operand's type, got {self.pinned.type}"
        owner = self.fragment.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == GemmAsyncOp.OPERATION_NAME:
            return "expects a finished fragment, got that of tile.gemm_async: use that of tile.wait_gemm"
        return tile_complaint([self.fragment])


def gemm_async(
    a: Any, b: Any, c: Any, accumulate: Any, *, transpose_a: bool = False, transpose_b: bool = False
) -> Any:
    """Builds `tile.gemm_async` and returns D, of C's type."""
    return build(
        GemmAsyncOp,
        operands=[a, b, c, accumulate],
        results=lambda: [c.type],
        attributes={"transpose_a": transpose_a, "transpose_b": transpose_b},
    ).d


def wait_gemm(*fragments: Any, pending: int = 0) -> list[Any]:
    """Builds `tile.wait_gemm` and returns the fragments."""
    op = build(
        WaitGemmOp,
        operands=list(fragments),
        results=lambda: [f.type for f in fragments],
        attributes={"pending": pending},
    )
    return list(op.operation.results)


def pin(fragment: Any) -> Any:
    """Builds `tile.pin` and returns the fragment."""
    return build(PinOp, operands=[fragment], results=lambda: [fragment.type]).pinned
