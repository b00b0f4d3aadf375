"""Operands of `wgmma` in shared memory, as matrix descriptors describe them."""

from dataclasses import dataclass
from functools import lru_cache

from weft.isa.wgmma.descriptors import GROUP, SWIZZLES, UNIT, MatrixDescriptor
from weft.layout import Layout
from weft.mlir import ir


@dataclass(frozen=True)
class SharedOperand:
    """A or B in shared memory: core matrices of eight rows, swizzled.

    `descriptor` is that of the operand, with address 0. `layout` is of `shape`, M (or N) by K, in elements of
    `bytes`; `mn_major` where elements are contiguous along M (or N).
    """

    descriptor: MatrixDescriptor
    layout: Layout
    shape: tuple[int, int]
    bytes: int
    mn_major: bool

    @staticmethod
    def of(kind: ir.Type, mn_major: bool) -> "SharedOperand | str":
        """The operand in a buffer of type `kind`: K x M (or N) if `mn_major`, M (or N) x K otherwise. What
        its layout must be, where no descriptor describes it.
        """
        return _operand(kind.layout, kind.shape, kind.element_bits // 8, mn_major)

    def units(self, row: int, k: int) -> int:
        """The distance of an element from the operand's start, before the swizzle, in units of 16 bytes."""
        bytes_ = self.layout.apply((row, k), self.shape)["m"] * self.bytes
        assert bytes_ % UNIT == 0
        return bytes_ // UNIT


@lru_cache(maxsize=256)
def _operand(layout: Layout, shape: tuple[int, int], size: int, mn_major: bool) -> SharedOperand | str:
    swizzle, groups = layout.swizzle, layout.group(shape)
    rows, depth = groups[::-1] if mn_major else groups
    strided, contiguous = (depth, rows) if mn_major else (rows, depth)
    mode = SWIZZLES.get(swizzle.name if swizzle else "none")
    if mode is None:
        return f"a layout with swizzle {', '.join(name for name in SWIZZLES if name != 'none')}, got {layout}"
    width = mode.width // size
    is_contiguous = contiguous and contiguous[-1].stride == 1 and contiguous[-1].extent == width
    rows_follow = len(strided) == 1 and strided[0].stride == width
    one_panel = mn_major and len(contiguous) == 1
    if (swizzle is None and not one_panel) or not is_contiguous or not rows_follow:
        return (
            f"rows of {width} contiguous elements, as wide as swizzle {mode.name}, one after the other, got "
            f"{layout}"
        )
    if mn_major and len(Layout(contiguous[:-1]).canonical().shard) > 1:
        return f"panels at one stride, got {layout}"
    panel_stride = contiguous[-2].stride * size if len(contiguous) > 1 else 0
    leading, stride = panel_stride if mn_major else 0, GROUP * width * size
    if swizzle is None:
        leading, stride = stride, leading
    descriptor = MatrixDescriptor(leading_byte_offset=leading, stride_byte_offset=stride, swizzle=mode.name)
    if verdict := descriptor.complaint():
        return f"a layout that a matrix descriptor describes: {verdict}"
    shape = shape[::-1] if mn_major else shape
    return SharedOperand(descriptor, Layout((*rows, *depth)), shape, size, mn_major)
