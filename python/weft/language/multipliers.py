"""How a kernel multiplies tiles: what `w.gemm` and `w.wait` build on a chip."""

from typing import Any

from weft.dialects import tile
from weft.dialects.element_types import PTX_INPUTS
from weft.isa.wgmma import columns_complaint
from weft.language import registers
from weft.language.mistakes import mistake
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.kernels.fragments import undefined


class Multiplier:
    """The products of a kernel, and what is known about them where its trace is now."""

    row_block = registers.WGMMA_ROWS
    """The rows of sums of which each warp of a warpgroup has a quarter."""
    operand_bits: tuple[int, ...] = (16,)
    """What elements of a fragment as left operand may have."""

    def begin(self) -> None:
        """Called before the first role."""

    def finish(self) -> None:
        """Called at the end of the kernel."""

    def start(self, a: Any, b: Any, sums: Any, kind: Any) -> tuple[Any, Any]:
        """Starts a product whose sums have this type. They are added to a fragment, to a pending product, or
        to nothing (None). Returns their SSA value and their region of tensor memory, one of them None.
        """
        raise NotImplementedError

    def wait(self, products: list[Any], pending: int) -> list[Any]:
        """Waits until at most `pending` products are unfinished. Returns the SSA values of the sums of some
        products that are finished then.
        """
        raise NotImplementedError

    def end_body(self) -> None:
        """Called at the end of the body of a loop."""

    def known(self) -> Any:
        """What is known, for `restore`."""

    def restore(self, known: Any) -> None:
        """Returns to what was known."""

    def merge(self, other: Any) -> None:
        """Keeps only what is known on another side of a branch as well."""


def check_order(a: Any, b: Any) -> None:
    """Raises WeftError for buffers in an order in which `wgmma` can't read their elements, nor `tcgen05.mma`
    with the swizzles of rings those of f32.
    """
    if b.dtype.bits == 16:
        return
    bytes_only = "; w.transpose makes such a buffer of this one" if b.dtype.bits == 8 else ""
    if getattr(a, "transposed", False):
        raise mistake(
            f"a of w.gemm must be contiguous along K for elements of {a.dtype} on this chip, got the "
            f"transposed buffer: fill a buffer of {a.shape[0]} x {a.shape[1]}{bytes_only}"
        )
    if not b.transposed:
        raise mistake(
            f"b of w.gemm must be contiguous along K for elements of {b.dtype} on this chip, got {b}: fill a "
            f"buffer of {b.shape[1]} x {b.shape[0]} from the transposed matrix, and pass buffer.T{bytes_only}"
        )


class WgmmaProducts(Multiplier):
    """Products by `wgmma`, with sums in registers."""

    operand_bits = 8, 16

    def start(self, a: Any, b: Any, sums: Any, kind: ir.Type) -> tuple[ir.Value, Any]:
        check_order(a, b)
        if complaint := columns_complaint(PTX_INPUTS.get(a.dtype.name, a.dtype.name), b.shape[1]):
            raise mistake(f"b of w.gemm of {a.dtype} must have {complaint}")
        start = undefined(kind) if sums is None else sums.value
        result = tile.gemm_async(
            a.value,
            b.value,
            start,
            arith.constant(emit.i1(), int(sums is not None)),
            transpose_a=getattr(a, "transposed", False),
            transpose_b=b.transposed,
        )
        return result, None

    def wait(self, products: list[Any], pending: int) -> list[ir.Value]:
        done = dict[int, Any]()
        for kind in dict.fromkeys(each.kind for each in products):  # the operands of one wait have one type
            alike = [each for each in products if each.kind == kind]
            values = tile.wait_gemm(*(each.value for each in alike), pending=pending)
            done |= {id(each): value for each, value in zip(alike, values, strict=True)}
        if not products:
            tile.wait_gemm(pending=pending)
        return [done[id(each)] for each in products]
