"""How a kernel multiplies tiles: what `w.gemm` and `w.wait` build on a chip, by `wgmma` or `mma.sync`."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.dialects import tile
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile import FragmentType
from weft.dialects.tile_gemm import CONTAINER
from weft.errors import Location
from weft.isa.block_scales import GROUPS, LANES, SCALINGS
from weft.isa.chips import CHIPS, WARPS, describe
from weft.isa.family import Registers
from weft.isa.mma import SCALED, SYNC, Scaled, Sparse, Sync
from weft.isa.wgmma import columns_complaint
from weft.language.messages.mistakes import mistake
from weft.language.operations import sparse_products
from weft.language.values.block_scales import BlockScales
from weft.language.values.buffers import Buffer, Memory, is_packed
from weft.language.values.dtypes import DType
from weft.language.values.fragments import Fragment
from weft.language.values.matrices import Place
from weft.layout import Layout
from weft.mlir import arith, ir
from weft.passes.builders import emit, registers, thread_ids
from weft.passes.kernels.fragments import transposed, undefined


class Product(Protocol):
    """A pending product."""

    kind: ir.Type
    """The type of its sums."""
    value: Any
    """The SSA value of its sums, or None where they are in tensor memory."""
    region: Any
    loops: int
    where: Location | None


Left = Buffer | Fragment
Sums = Fragment | Product | None
"""What a product is added to: a fragment, a pending product, or nothing."""
Scales = tuple[BlockScales, BlockScales] | None
"""The block scales of a product, if it has some: those of A and of B."""


class Multiplier:
    """The products of a kernel, and what is known about them where its trace is now."""

    row_block = registers.WGMMA_ROWS
    """The rows of sums of which each warp of a warpgroup has a quarter."""
    rows_in_threads = False
    """Whether a thread has whole rows of tiles with a multiple of 128 rows, as tensor memory in its lanes."""
    operand_bits: tuple[int, ...] = (16,)
    """The bits that elements of a fragment as left operand may have."""

    def begin(self) -> None:
        """Called before the first role."""

    def finish(self) -> None:
        """Called at the end of the kernel."""

    @property
    def columns(self) -> int:
        """The columns of tensor memory that tiles have so far."""
        return 0

    def allocate(self, kind: ir.Type, over: ir.Value | None) -> ir.Value:
        """A buffer of tensor memory, which may begin where another one does."""
        raise NotImplementedError

    def load_scales(self, scales: Scales) -> list[ir.Value]:
        """The block scales of a product, which one thread copies to tensor memory before it."""
        raise NotImplementedError

    def start(
        self, a: Left, b: Buffer, sums: Sums, kind: ir.Type, scales: Scales = None
    ) -> tuple[ir.Value | None, object]:
        """Starts a product whose sums have this type. Returns their SSA value and their region of tensor
        memory, one of them None.
        """
        raise NotImplementedError

    def wait(self, products: list[Product], pending: int) -> list[ir.Value]:
        """Waits until at most `pending` products are unfinished. Returns the SSA values of the sums of some
        products that are finished then.
        """
        raise NotImplementedError

    def end_body(self) -> None:
        """Called at the end of the body of a loop."""

    def known(self) -> object:
        """The state that `restore` returns to."""

    def restore(self, known: Any) -> None:
        """Returns to what was known."""

    def merge(self, other: Any) -> None:
        """Keeps only what is known on another side of a branch as well."""


def check_order(a: Left | Memory, b: Buffer) -> None:
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

    def start(
        self, a: Left, b: Buffer, sums: Sums, kind: ir.Type, scales: Scales = None
    ) -> tuple[ir.Value, None]:
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

    def wait(self, products: list[Product], pending: int) -> list[ir.Value]:
        done = dict[int, ir.Value]()
        for kind in dict.fromkeys(each.kind for each in products):  # the operands of one wait have one type
            alike = [each for each in products if each.kind == kind]
            values = tile.wait_gemm(*(each.value for each in alike), pending=pending)
            done |= {id(each): value for each, value in zip(alike, values, strict=True)}
        if not products:
            tile.wait_gemm(pending=pending)
        return [done[id(each)] for each in products]


_ROWS = registers.WGMMA_ROWS // WARPS
"""The rows of one `mma.sync`."""
Load = Callable[[int, int], ir.Value]
"""Loads a warp's part of an operand, from a row (or column) and a depth on."""


class WarpProducts(Multiplier):
    """Products by `mma.sync`."""

    def __init__(self, chip: str) -> None:
        self._chip = chip

    def start(
        self,
        a: Left,
        b: Buffer,
        sums: Sums,
        kind: ir.Type,
        scales: Scales = None,
        metadata: Place | None = None,
    ) -> tuple[ir.Value, None]:
        columns, k_of_b, stored = kind.shape[1], b.shape[0], 1 if metadata is None else 2
        form: Sparse | Sync | Scaled
        if metadata is not None:
            form = sparse_products.form(a, b, kind, self._chip)
        else:
            form = self._form(a, b, kind) if scales is None else self._scaled_form(a, b, scales[0].dtype)
        d, of_a, of_b, *_ = form.operands
        depth, part = form.mnk[2], _kind((_ROWS, columns), kind.element_type, d)
        if k_of_b % depth:
            raise mistake(
                f"a must have a multiple of {depth // stored} columns of {a.dtype} on this chip, got "
                f"{a.shape[1]}"
            )
        held = registers.registers_of(kind.layout, kind.shape)
        rows = sorted({row - row % _ROWS for row, _ in held})  # where blocks of the first warp begin
        of_warp = _ROWS * sum(row < registers.WGMMA_ROWS for row in rows)  # which follow each other
        if isinstance(a, Fragment):
            left = _of_fragment(a, of_a, depth)
        else:
            left = _of_buffer(a, of_a, (_ROWS, depth // stored), of_warp)
        # Of few columns, one ldmatrix loads two steps of B.
        steps = 2 if columns == of_b.shape[1] and k_of_b % (2 * depth) == 0 else 1
        right = _of_buffer(b, of_b, (steps * depth, columns))
        lane = emit.constant(kind.lane_type, 0) if sums is None else tile.to_lane(sums.value)
        blocks = [_Part(kind.layout, kind.shape, row, part) for row in rows]
        multiply = _scaled(a, b, scales, rows, of_warp) if scales else _plain
        if isinstance(form, Sparse) and metadata is not None:
            multiply = sparse_products.multiply(form, metadata, rows, of_warp, k_of_b)
        elements = emit.elements(lane)
        parts = [block.taken(elements) for block in blocks]
        for first in range(0, k_of_b, steps * depth):
            loaded = _steps(right(0, first), steps, _kind((depth, columns), _held(b), of_b))
            for k, of_columns in zip(range(first, k_of_b, depth), loaded, strict=False):
                for number, block in enumerate(blocks):
                    of_rows = left(block.row, k // stored)
                    parts[number] = multiply(of_rows, of_columns, parts[number], (block.row, k))
        for block, each in zip(blocks, parts, strict=True):
            block.put(elements, each)
        return tile.from_lane(emit.vector_of(elements), kind), None

    def wait(self, products: list[Product], pending: int) -> list[ir.Value]:
        return [each.value for each in products]

    def _form(self, a: Left, b: Buffer, kind: ir.Type) -> Sync:
        """The instruction for operands of these types: that with most rows, and the largest K that fits."""
        if min(a.dtype.bits, b.dtype.bits) < 8:
            raise mistake(f"w.gemm of {a.dtype} and {b.dtype} needs a_scales and b_scales on {self._chip}")
        of_a, of_b = (PTX_INPUTS.get(each.dtype.name, each.dtype.name) for each in (a, b))
        sums = {"i32": "s32"}.get(name := str(kind.element_type), name)
        shapes = [f"m{_ROWS}n8k{k}" for k in (32, 16, 8)] + ["m16n8k4", "m8n8k4"] * (of_a == "f64")
        forms = [Sync(shape, of_a, of_b, sums, sums) for shape in shapes]
        if legal := [form for form in forms if SYNC.judge(form, self._chip) is None]:
            return next((form for form in legal if a.shape[1] % form.mnk[2] == 0), legal[0])
        subject = f"products of {a.dtype} and {b.dtype}"
        needed = frozenset(c for c in CHIPS if any(SYNC.judge(form, c) is None for form in forms))
        raise mistake(
            f"{subject} by mma.sync need {describe(needed)}, got {self._chip}: convert the tiles, or compile "
            "for another chip"
        )

    def _scaled_form(self, a: Left, b: Buffer, scale: DType) -> Scaled:
        """The instruction for buffers with scales of this type."""
        if (columns := b.shape[1]) % LANES:
            rule = f"must have a multiple of {LANES} columns on {self._chip}, got {columns}"
            raise mistake(f"b of w.gemm with block scales {rule}")
        types, scale_type = [PTX_INPUTS[each.dtype.name] for each in (a, b)], PTX_SCALES[scale.name]
        one = next(each for each in SCALINGS if (each.scale, each.packed) == (scale_type, is_packed(b)))
        wanted = one.kind, one.scale_vec, *types, scale_type
        return next(
            f for f in SCALED.forms() if (f.kind, f.scale_vec, f.a_type, f.b_type, f.scale_type) == wanted
        )


Multiply = Callable[[ir.Value, ir.Value, ir.Value, tuple[int, int]], ir.Value]
"""Multiplies a warp's parts of operands and adds sums; the row and the depth are where A's part begins."""


def _plain(a: ir.Value, b: ir.Value, sums: ir.Value, at: tuple[int, int]) -> ir.Value:
    return tile.gemm(a, b, sums, sums.type)


def _scaled(
    a: Left, b: Buffer, scales: tuple[BlockScales, BlockScales], rows: list[int], of_warp: int
) -> Multiply:
    """Multiplies with block scales, which are loaded for all of these rows and depths at once: a lane has
    those of a row, or column, in registers.
    """
    (of_a, of_b), columns = scales, b.shape[1]
    words, group, warp = of_a.groups // GROUPS, of_a.group, emit.mul(thread_ids.warp(), of_warp)
    left_kind, right_kind = (
        FragmentType.of((extent, of_a.groups), of_a.dtype.type, layout)
        for extent, layout in (
            (_ROWS, f"S[(2,8,{words},4):(1@laneid,4@laneid,4,1)] + R[(2):(2@laneid)]"),
            (columns, f"S[({columns // LANES},4,8,{words},4):({of_a.groups},1@laneid,4@laneid,4,1)]"),
        )
    )
    left = {row: of_a.load(emit.add(warp, row), left_kind) for row in rows}
    right = tile.from_lane(tile.to_lane(of_b.load(0, right_kind)), transposed(right_kind))
    pairs = (("a_element", a), ("b_element", b))
    elements: dict[str, Any] = {name: x.dtype.name for name, x in pairs if _held(x) != x.dtype.type}

    def multiply(a: ir.Value, b: ir.Value, sums: ir.Value, at: tuple[int, int]) -> ir.Value:
        return tile.gemm_scaled(a, b, sums, left[at[0]], right, first_group=at[1] // group, **elements)

    return multiply


def _held(buffer: Left) -> ir.Type:
    """The type of an operand's elements in registers: bytes where elements of fewer bits take one each."""
    narrow = buffer.dtype.bits < 8 and not is_packed(buffer)
    return ir.Type.parse(CONTAINER) if narrow else buffer.dtype.type


class _Part:
    """16 rows of a warp's sums."""

    def __init__(self, layout: Layout, shape: tuple[int, int], row: int, kind: ir.Type) -> None:
        self.row, self.kind = row, kind
        held = {at: number for number, at in enumerate(registers.registers_of(layout, shape))}
        wanted = registers.registers_of(kind.layout, kind.shape)
        self._numbers = [held[at[0] + row, at[1]] for at in wanted]

    def taken(self, elements: Sequence[ir.Value]) -> ir.Value:
        """The warp's fragment, from a lane's elements of all sums."""
        return tile.from_lane(emit.vector_of([elements[number] for number in self._numbers]), self.kind)

    def put(self, elements: list[ir.Value], fragment: ir.Value) -> None:
        """Puts a lane's elements of the warp's fragment to their places."""
        for number, element in zip(self._numbers, emit.elements(tile.to_lane(fragment)), strict=True):
            elements[number] = element


def _kind(shape: tuple[int, int], element: ir.Type, atom: Registers) -> ir.Type:
    """The type of a fragment that is made up of the registers of instructions."""
    return FragmentType.of(shape, element, Layout.parse(atom.layout).tile_to(shape, atom.shape))


def _of_buffer(buffer: Buffer, atom: Registers, shape: tuple[int, int], of_warp: int = 0) -> Load:
    """Loads parts of an operand in shared memory. Of A, warps begin `of_warp` rows after each other."""
    buffer.read_by_lanes(as_operand=True)
    kind, first = _kind(shape, _held(buffer), atom), 0
    if of_warp:
        first = emit.mul(thread_ids.warp(), of_warp)

    def load(row: int, k: int) -> ir.Value:
        start = (emit.value(emit.add(row, first)), emit.value(k))
        if atom.name == "b":
            start = start[::-1]
        start = start[::-1] if buffer.transposed else start
        return tile.load(buffer.value, *start, kind, transpose=buffer.transposed)

    return load


def _steps(fragment: ir.Value, steps: int, kind: ir.Type) -> list[ir.Value]:
    """A fragment of several steps of K as those of each."""
    elements = emit.elements(tile.to_lane(fragment))
    count = len(elements) // steps
    parts = [elements[first : first + count] for first in range(0, len(elements), count)]
    return [tile.from_lane(emit.vector_of(each), kind) for each in parts] if steps > 1 else [fragment]


def _of_fragment(a: Fragment, atom: Registers, depth: int) -> Load:
    """Takes parts of an operand in registers."""
    held = {at: number for number, at in enumerate(registers.registers_of(a.layout, a.shape))}
    elements = a.elements()
    kind = _kind((_ROWS, depth), a.dtype.type, atom)
    wanted = registers.registers_of(kind.layout, kind.shape)

    def take(row: int, k: int) -> ir.Value:
        chosen = [elements[held[at[0] + row, at[1] + k]] for at in wanted]
        return tile.from_lane(emit.vector_of(chosen), kind)

    return take
