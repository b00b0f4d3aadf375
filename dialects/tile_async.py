"""The asynchronous products of the `tile` dialect."""

from collections.abc import Sequence

from weft.dialects.effects import ORDERS
from weft.dialects.op import Op, Operand, Result, build
from weft.dialects.tile_types import Tile, group_complaint, is_buffer, is_fragment, is_tensor_buffer
from weft.dialects.wgmma import LAST_SUM
from weft.mlir import ir

SCALE_BLOCKS = (0, 4 * 32)
"""What `scale_block` of `tile.gemm_async` may be: an instruction multiplies 32 elements with a scale, and a
scale for more of them is for whole rows of shared memory.
"""


class GemmAsyncOp(Op, dialect=Tile, name="gemm_async", traits=[ORDERS]):
    """Starts `d = a * b + c`, or `d = a * b` if `accumulate` (i1) is false.

    A is M x K, or K x M with `transpose_a`; B is K x N, or N x K with `transpose_b`. C decides who executes
    it:

    - C is a fragment of a warpgroup: the warpgroup starts one group of asynchronous instructions, and D is
      the result. A is a buffer in shared memory, or a fragment of the warpgroup; B is a buffer in shared
      memory. Until `tile.wait_gemm`, D must not be used and the buffers must not be written. A B of K x N may
      have more columns than D: then the last panel of its layout has columns that aren't read. With
      `first_sum`, C isn't read, and D isn't used: the sums are the named registers of the kernel from that
      number on (`tile.read_sums`).
    - C is a buffer in tensor memory: one thread, or one warp of which a thread is elected, starts
      instructions that write D over C, and there is no result. A is a buffer in shared or tensor memory; B is
      a buffer in shared memory. Nothing waits: a commit to a ring or an mbarrier signals completion.

    The rest is for C in tensor memory only. With `cta_group` 2 two CTAs work on one product, started by the
    one of even rank. The buffers are those of one CTA: half of A's rows, half of B's columns, and half of C's
    rows with all columns of both.

    - `mma_m` and `mma_n` are the shape of one instruction, with M of the whole pair. State both or neither:
      the default is the largest shape that fits.
    - `use_a_tmem` states that A is in tensor memory.
    - `weight_stationary` selects instructions that keep B.
    - `collector` is what instructions do with their collector buffer: "fill", "use", "lastuse" or "discard".
      It is the buffer of A. Weight-stationary instructions have several for B, and name one ("b0::fill").

    The optional operands:

    - `scale_a` and `scale_b`: buffers in tensor memory, with a scale for each row of A (or column of B) and
      each 32 or 16 elements along K
    - `n` (i32): the N of the instruction, if only the launch knows it. C then has the largest N, and the
      instruction writes its first `n` columns. In a pair, the B of each CTA begins with half of them.

    With `scale_block` 128, each 128 elements along K share a scale. The buffers have rows x 4 scales: those
    of four such blocks. `number` (i32) is the scale of the first 128 elements, of these four. The elements
    after them have the scales after it.
    """

    a: Operand
    b: Operand
    c: Operand
    accumulate: Operand
    scale_a: Operand | None
    scale_b: Operand | None
    n: Operand | None
    number: Operand | None
    product: Sequence[Result]
    optional = {  # noqa: RUF012
        "transpose_a": False,
        "transpose_b": False,
        "cta_group": 1,
        "mma_m": 0,
        "mma_n": 0,
        "use_a_tmem": None,
        "weight_stationary": False,
        "collector": "",
        "scale_block": 0,
        "first_sum": -1,
    }

    @staticmethod
    def returns(c: ir.Value) -> list[ir.Type]:
        return [] if is_tensor_buffer(c) else [c.type]

    @property
    def d(self) -> ir.Value:
        """D: the result, or C where the product is written over it."""
        results = self.operation.results
        return results[0] if len(results) else self.c

    @property
    def scales(self) -> tuple[ir.Value, ir.Value] | None:
        """The scales of A and of B."""
        scale_a, scale_b = self.scale_a, self.scale_b
        return None if scale_a is None or scale_b is None else (scale_a, scale_b)

    @property
    def _optional(self) -> dict[str, ir.Value]:
        """The optional operands that there are."""
        named = {name: getattr(self, name) for name in ("scale_a", "scale_b", "n", "number")}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def mnk(self) -> tuple[int, int, int]:
        """M, N and K. M and N are those of the buffers of one CTA."""
        m, k = self.a.type.shape[:: -1 if self.attribute("transpose_a") else 1]
        if self.attribute("transpose_b"):
            return m, self.b.type.shape[0], k
        n = self.b.type.shape[1]
        # D may lack columns of an MN-major B, fewer than a panel has.
        unread = n - self.d.type.shape[-1] if is_fragment(self.d) else 0
        return m, n - unread if 0 < unread < self.b.type.groups[1][-1].extent else n, k

    def check(self) -> str | None:
        if not (is_fragment(self.a) or is_buffer(self.a)):
            return f"expects A to be a tensor with a #tile.layout or a tile.buffer, got {self.a.type}"
        if not is_buffer(self.b):
            return f"expects B to be a tile.buffer, got {self.b.type}"
        if str(self.accumulate.type) != "i1":
            return f"expects accumulate to be i1, got {self.accumulate.type}"
        for name, value in (("A", self.a), ("B", self.b)):
            if len(value.type.shape) != 2:
                return f"expects {name} of rank 2, got shape {list(value.type.shape)}"
        wrong = self._in_place() if is_tensor_buffer(self.c) else self._in_registers()
        if wrong:
            return wrong
        m, n, k = self.mnk
        transposed = self.attribute("transpose_b")
        k_b = self.b.type.shape[1 if transposed else 0]
        if k_b != k:
            meant = f"; with transpose_b = {str(not transposed).lower()} they have" if n == k else ""
            return f"expects A and B of equal K, got {k} in A and {k_b} in B{meant}"
        n *= self.attribute("cta_group")
        if self.d.type.shape != (m, n):
            return f"expects D of shape {[m, n]}, got {list(self.d.type.shape)}"
        return None

    def _in_registers(self) -> str | None:
        """Why a product that returns D is illegal."""
        results = list(self.operation.results)
        if len(results) != 1:
            return f"expects to return D, unless C is in tensor memory, got {len(results)} results"
        if not is_fragment(self.d) or self.d.type != self.c.type:
            return f"expects C and D to be one type of fragment, got {self.c.type} and {self.d.type}"
        in_place = [name for name in self.optional if not name.startswith(("transpose", "first_sum"))]
        if given := [name for name in in_place if name in self.operation.attributes]:
            return f"expects C in tensor memory with {given[0]}, got {self.c.type}"
        if self._optional:
            return f"expects C in tensor memory with scales or n, got {self.c.type}"
        if not -1 <= (first := self.attribute("first_sum")) <= LAST_SUM:
            return f"first_sum must be in 0..{LAST_SUM}, or -1 for sums that are values, got {first}"
        return None

    def _in_place(self) -> str | None:
        """Why a product that is written over C is illegal."""
        if len(self.operation.results):
            return "expects no result where C is in tensor memory: D is written over C"
        if self.attribute("first_sum") != -1:
            return f"expects C in registers with first_sum, got {self.c.type}"
        if is_fragment(self.a):
            return f"expects A to be a tile.buffer where C is in tensor memory, got {self.a.type}"
        if wrong := group_complaint(self):
            return wrong
        mma = [self.attribute(name) for name in ("mma_m", "mma_n")]
        if min(mma) < 0 or (max(mma) > 0) != (min(mma) > 0):
            return f"mma_m and mma_n must both be positive or both be absent, got {mma[0]} and {mma[1]}"
        in_tmem = is_tensor_buffer(self.a)
        if self.attribute("use_a_tmem") not in (None, in_tmem):
            return f"use_a_tmem must be {str(in_tmem).lower()} for A in {self.a.type.space} memory"
        return self._more_complaint()

    def _more_complaint(self) -> str | None:
        """Why the scales or the N are illegal."""
        block, got = self.attribute("scale_block"), " and ".join(self._optional) or "none"
        if block not in SCALE_BLOCKS:
            return f"scale_block must be {' or '.join(map(str, SCALE_BLOCKS))}, got {block}"
        if (self.scale_a is None) != (self.scale_b is None):
            return f"expects scale_a and scale_b together, got {got}"
        if block and list(self._optional) != ["scale_a", "scale_b", "number"]:
            return f"expects scale_a, scale_b and number with scale_block, got {got}"
        if self.number is not None and not block:
            return f"expects scale_block with number, got {got}"
        for name, value in (("n", self.n), ("number", self.number)):
            if value is not None and str(value.type) != "i32":
                return f"expects {name} to be i32, got {value.type}"
        for name, value in zip(("scale_a", "scale_b"), self.scales or (), strict=False):
            if not is_tensor_buffer(value) or len(value.type.shape) != 2:
                return f"expects {name} to be a buffer of rank 2 in tensor memory, got {value.type}"
        return None


class WaitGemmOp(Op, dialect=Tile, name="wait_gemm", traits=[ORDERS]):
    """A warpgroup waits until at most `pending` of its latest `tile.gemm_async` are in flight.

    The results are the operands. Those whose products are finished may be used.
    """

    fragments: Sequence[Operand]
    done: Sequence[Result]
    optional = {"pending": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if self.attribute("pending") < 0:
            return f"pending must be at least 0, got {self.attribute('pending')}"
        fragments, results = list(self.operation.operands), list(self.operation.results)
        if [v.type for v in fragments] != [v.type for v in results]:
            return "expects results of the operands' types"
        wrong = (f"expects fragments, got {value.type}" for value in fragments if not is_fragment(value))
        return next(wrong, None)


class PinOp(Op, dialect=Tile, name="pin", traits=[ORDERS]):
    """A fragment of f32 or i32 whose elements are computed before any later operation that writes memory,
    waits or multiplies.

    Without it, the compiler may sink the computation and keep its inputs live. Use it between a finished
    product and the next product in the same registers.
    """

    fragment: Operand
    pinned: Result

    @staticmethod
    def returns(fragment: ir.Value) -> list[ir.Type]:
        return [fragment.type]

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects a fragment, got {self.fragment.type}"
        if self.fragment.type != self.pinned.type:
            return f"expects a result of the operand's type, got {self.pinned.type}"
        owner = self.fragment.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == GemmAsyncOp.OPERATION_NAME:
            return "expects a finished fragment, got that of tile.gemm_async: use that of tile.wait_gemm"
        return None


def wait_gemm(*fragments: ir.Value, pending: int = 0) -> list[ir.Value]:
    """Builds `tile.wait_gemm` and returns the fragments."""
    op = build(
        WaitGemmOp,
        operands=list(fragments),
        results=lambda: [f.type for f in fragments],
        attributes={"pending": pending},
    )
    return list(op.operation.results)
