"""Asynchronous products of a warpgroup, and waiting for them."""

from collections.abc import Iterator
from typing import Any, NoReturn

from weft.dialects import tile
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile import FragmentType
from weft.ir import callers
from weft.isa import block_scales
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import at, mistake
from weft.language.operations import clusters, sparse_products, tensor_tiles
from weft.language.operations.multipliers import WarpProducts
from weft.language.values.block_scales import BlockScales
from weft.language.values.buffers import Buffer, Memory, is_packed
from weft.language.values.dtypes import BY_SHORT_NAME, NARROW, DType, bf16, f16, f32, f64, i8, i32, u8
from weft.language.values.fragments import Fragment
from weft.language.values.matrices import Place
from weft.language.values.scalars import dtype_of
from weft.language.values.tensor_memory import TensorMemory
from weft.mlir import ir
from weft.passes.builders import emit, registers

_BY_RING = "in a role that writes a ring of such buffers (ring.write)"
_MULTIPLIED = (f64, f16, bf16, f32, *NARROW, i8, u8)


def _sums_of(operand: DType) -> DType:
    """The type of the sums of products."""
    return f64 if operand == f64 else f32 if operand.is_float else i32


class Pending(Carried):
    """A product that may not be finished. Wait for it, or let the next product add to it."""

    until_carried = ": w.wait for it there, or begin with a product, w.gemm without sums, before the loop"

    def __init__(
        self, kind: ir.Type, value: ir.Value | None, group: int, region: Any = None, *, complete: bool = False
    ) -> None:
        self.kind, self.value, self.group, self.complete = kind, value, group, complete
        self.region = region
        """Where it is in tensor memory; there is no SSA value then."""
        self.loops = trace.current().loops
        self.where = callers.here()
        if region is not None:
            region.holder = self

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(self.kind.shape)

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.kind.element_type)

    def _refuse(self, *_: object) -> NoReturn:
        raise mistake(
            f"this product is still being computed{at(self.where)}: first write 'x = w.wait(x)'",
            ("the product starts here", self.where),
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __iter__ = to = elements = _refuse

    def parts(self) -> list[ir.Value]:
        return [] if self.value is None else [self.value]

    def like(self, parts: Iterator[ir.Value]) -> "Pending":
        value = None if self.region is not None else next(parts)
        return Pending(self.kind, value, trace.current().groups, self.region, complete=self.complete)

    def complaint(self, other: "Pending") -> str | None:
        if other.kind != self.kind:
            return f"was {self} and becomes {other}"
        if other.complete != self.complete:
            return "was a product by mma.sync, and becomes one by another instruction: w.wait for each"
        if other.region is not self.region:
            return (
                f"becomes {other} with sums in other tensor memory{at(other.where)}: pass the one before as "
                "sums of w.gemm, or wait for it first"
            )
        return None

    def __str__(self) -> str:
        return f"a pending product of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self}>"


def gemm(
    a: Buffer | TensorMemory | Fragment,
    b: Buffer | Fragment,
    sums: Fragment | Pending | TensorMemory | None = None,
    *,
    accumulate: object = True,
    a_scales: BlockScales | None = None,
    b_scales: BlockScales | None = None,
    metadata: Place | None = None,
) -> Pending | Fragment | None:
    """Starts `a @ b`, or `sums + a @ b`, by the warpgroup. The result is pending until `w.wait`.

    If both are tiles from arrays, as `w.load` returns them, the result is a tile: `--pipeline-loops` divides
    the kernel among producers and consumers, and brings the tiles through shared memory. Such a kernel has
    one loop with products, no roles, and otherwise only loads, stores, and operations by element or by row.

    `a` is a buffer of 64 (or a multiple) x K, or a fragment such as the sums of another product in 16 bits;
    `b` is a buffer of K x N. Either may be transposed: `b.T`. `sums` may be pending itself. Buffers must not
    be released, and must not change, before the product is finished.

    With `sums` in tensor memory, one thread starts the product, in `w.one_thread()`, and nothing is returned:
    `sums` becomes `sums + a @ b`, or `a @ b` where `accumulate` is false. `a` may be in tensor memory, too.
    Stages that this thread writes become full, and those that it takes empty, when the products are complete
    that it has started by then (PTX ISA, "tcgen05.mma", "tcgen05.commit").

    `a_scales` and `b_scales` are the block scales of the rows of `a` and of the columns of `b` (PTX ISA,
    "Block Scaling"): buffers of a ring, made by `w.block_scales`.

    With `metadata`, `a` has two of each four elements of a row, and the others are 0 (PTX ISA, "Sparse matrix
    storage"). `metadata[row, k // 16]` is the word that describes the first 16 elements of its first row: an
    array of u16 with a row of words for each row of `a`, in which the lowest four bits of a word have the
    indices of the first two elements among the first four, and so on. Such products are complete at once.
    """
    is_scaled = (a_scales, b_scales) != (None, None)
    if metadata is not None and (is_scaled or isinstance(a, TensorMemory) or isinstance(sums, TensorMemory)):
        raise mistake("metadata is for products of buffers with sums in registers, without block scales")
    if isinstance(a, TensorMemory) or isinstance(sums, TensorMemory):
        left, right, tile_ = tensor_tiles.checked(a, b, sums)
        _checked_types("w.gemm", left, right)
        scales = _checked_scales(left, right, a_scales, b_scales) if is_scaled else None
        tensor_tiles.multiply(left, right, tile_, accumulate, scales)
        return None
    if accumulate is not True:
        raise mistake(
            "accumulate is for sums in tensor memory, as stage.sums: leave out others to begin with 0"
        )
    is_plain = not is_scaled and metadata is None
    if isinstance(a, Fragment) and isinstance(b, Fragment) and a.is_free and b.is_free and is_plain:
        return _of_tiles(a, b, sums)
    if isinstance(b, Fragment) and trace.current().role is None:
        name = "a" if b.is_free and isinstance(a, Fragment) and not a.is_free else "b"
        raise mistake(
            "outside of roles, w.gemm multiplies tiles as w.load(x[row, column], shape) loads them, whose "
            f"layouts aren't decided, got another {name}: in a role, store it to a buffer, and multiply that"
        )
    current, kind = trace.current(), _checked("w.gemm", a, b, sums, metadata)
    scales = _checked_scales(a, b, a_scales, b_scales) if is_scaled else None
    # Of f64, no other instruction multiplies.
    by_warps = a.dtype == f64 or metadata is not None
    multiplier: Any = _by_warps(a, kind) if by_warps else current.multiplier
    more = {} if metadata is None else {"metadata": metadata}
    value, region = multiplier.start(a, b, sums, kind, scales, **more)
    current.groups += 1
    asynchronous = not isinstance(multiplier, WarpProducts)
    if region is None and asynchronous:
        current.meet()  # a whole warpgroup executes wgmma together
    for each in (a, b, *(scales or ())):
        if asynchronous and not isinstance(each, Fragment) and each.slot is not None:
            each.slot.multiplied(current.groups)
    return Pending(kind, value, current.groups, region, complete=not asynchronous)


def _checked_scales(
    a: Buffer | TensorMemory | Fragment, b: Buffer | Fragment, of_a: Any, of_b: Any
) -> tuple[BlockScales, BlockScales]:
    """The block scales of a product. Raises WeftError for those that it can't have."""
    for name, each in (("a", of_a), ("b", of_b)):
        if not isinstance(each, BlockScales):
            raise mistake(
                f"{name}_scales must be a buffer of a ring, as {name}_scales=w.block_scales(rows, depth, "
                f"type) makes it, got {each}"
            )
        each.check_full()
    if not isinstance(a, Buffer):
        raise mistake(f"a of w.gemm with block scales must be a buffer of a ring, got {a}")
    packed, (m, k), n = is_packed(a), a.shape, b.shape[1] * trace.current().cta_group
    types = {PTX_INPUTS[each.dtype.name] for each in (a, b)}
    of_type = (each for each in block_scales.SCALINGS if each.scale == PTX_SCALES[of_a.dtype.name])
    scaling = next((each for each in of_type if types <= set(each.elements) and each.packed == packed), None)
    if of_a.dtype != of_b.dtype or scaling is None:
        kinds = "; ".join(map(_scaled_kind, block_scales.SCALINGS))
        got = f"{of_a.dtype} and {of_b.dtype} of elements of {a.dtype} and {b.dtype}"
        raise mistake(f"block scales must be those of one of these kinds, got {got}: {kinds}")
    if m % (rows := trace.current().multiplier.row_block):
        raise mistake(f"a must have a multiple of {rows} rows for each warpgroup with block scales, got {m}")
    for name, extent, what, each in (("a", m, "rows", of_a), ("b", n, "columns", of_b)):
        groups = k // scaling.group
        if each.groups != groups or each.count < extent:
            rows = -(-extent // block_scales.ROWS) * block_scales.ROWS
            raise mistake(
                f"{name}_scales must have {groups} scales of each of the {extent} {what} of {name}, got "
                f"{each}: use w.block_scales({rows}, {k}, {each.dtype})"
            )
        if each.count > extent and extent % block_scales.LANES == 0:
            part = f"first % {block_scales.ROWS}, {extent}"
            raise mistake(
                f"{name}_scales must be those of the {extent} {what} of {name}, got {each}: use "
                f"{name}_scales.rows({part}), where first is the tile's first one of all {what}"
            )
    return of_a, of_b


def _scaled_kind(scaling: block_scales.BlockScaling) -> str:
    """A kind of products with block scales, in a message."""
    names = ", ".join(str(BY_SHORT_NAME[each]) for each in scaling.elements)
    return f"{names} with one scale of {BY_SHORT_NAME[scaling.scale.removeprefix('u')]} for {scaling.group}"


def _of_tiles(a: Fragment, b: Fragment, sums: object) -> Fragment:
    """The product of tiles whose layouts aren't decided yet."""
    (m, _), (_, n) = _checked_types("w.gemm", a, b)
    kind = ir.RankedTensorType.get([m, n], _sums_of(a.dtype).type)
    if sums is None:
        sums = Fragment(emit.constant(kind, 0))
    if not isinstance(sums, Fragment) or not sums.is_free or sums.value.type != kind:
        dtype = dtype_of(kind)
        raise mistake(f"sums of this product must be as w.zeros(({m}, {n}), {dtype}) makes them, got {sums}")
    group, owner = trace.current().cta_group, b.value.owner
    loaded = None if isinstance(owner, ir.Block) else owner.opview
    if group > 1 and isinstance(loaded, tile.LoadOp) and clusters.differs((loaded.row, loaded.column), 0):
        raise mistake(
            "b must be the same tile in both CTAs of a pair, but its place differs by w.cta(0): leave out "
            "pairs, or let the CTAs along the grid's first axis differ in their rows of a"
        )
    return Fragment(tile.gemm(a.value, b.value, sums.value, kind, cta_group=group))


def warp_gemm(
    a: Buffer | Fragment, b: Buffer, sums: Fragment | None = None, *, metadata: Place | None = None
) -> Fragment:
    """`a @ b`, or `sums + a @ b`, by `mma.sync`: each warp of the warpgroup multiplies 16 of 64 rows, and the
    result is there at once. The operands are those of `w.gemm`.

    Its rate is half that of `wgmma`. If `b` has few columns, this is no disadvantage: nothing waits, so the
    compiler can arrange the instructions around it freely.
    """
    kind = _checked("w.warp_gemm", a, b, sums, metadata)
    value, _ = _by_warps(a, kind).start(a, b, sums, kind, metadata=metadata)
    return Fragment(value)


def _by_warps(a: Buffer | Fragment, kind: ir.Type) -> WarpProducts:
    """Products by `mma.sync` on any chip. Raises WeftError for sums that these can't have."""
    if trace.current().multiplier.rows_in_threads and kind.shape[0] % registers.LANE_ROWS == 0:
        raise mistake(
            "in a kernel with tiles in tensor memory, each thread has whole rows of fragments with 128 rows, "
            f"which mma.sync can't multiply, got {a}: use w.gemm, or 64 rows"
        )
    return WarpProducts(trace.current().chip)


def _checked(
    caller: str, a: Buffer | Fragment, b: Buffer | Fragment, sums: object, metadata: object = None
) -> ir.Type:
    """The type of the sums of a product. Raises WeftError for operands that it can't have."""
    current = trace.current()
    current.check_whole_in_role(f"{caller} with sums in registers")
    for name, value, legal in (("a", a, (Buffer, Fragment)), ("b", b, (Buffer,))):
        if isinstance(value, Pending):
            value._refuse()
        if isinstance(value, Buffer):
            value.check_full()
        if not isinstance(value, legal):
            kinds = "a buffer or a fragment" if name == "a" else "a buffer in shared memory"
            instead = ""
            if isinstance(value, Fragment):
                size = " x ".join(map(str, value.shape))
                instead = f": store it to a buffer of {size} {value.dtype}, {_BY_RING}"
            raise mistake(f"{name} of {caller} must be {kinds}, got {value}{instead}")
    (m, _), (_, n) = _checked_types(caller, a, b, 1 if metadata is None else 2)
    if metadata is not None:
        sparse_products.check(a, b, metadata)
    if m % registers.WGMMA_ROWS:
        raise mistake(f"a must have a multiple of {registers.WGMMA_ROWS} rows for each warpgroup, got {m}")
    if isinstance(a, Fragment):
        _check_operand(a)
    kind = FragmentType.of((m, n), _sums_of(a.dtype).type, current.sums((m, n)))
    _check_sums(sums, kind)
    return kind


def _checked_types(
    caller: str, a: Memory | Fragment, b: Memory | Fragment, zeros: int = 1
) -> tuple[Any, Any]:
    """The shapes of the operands of a product. Raises WeftError for those that no product has. With `zeros`,
    each column of a stands for as many.
    """
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise mistake(f"{caller} expects tiles of rows and columns, got {a} and {b}")
    k, k_of_b = a.shape[1] * zeros, b.shape[0]
    if k != k_of_b:
        meant = ": did you mean b.T?" if b.shape[1] == k else ""
        with_zeros = " with its zeros" if zeros > 1 else ""
        raise mistake(f"a has {k} columns{with_zeros} and b has {k_of_b} rows, which must be equal{meant}")
    for operand, dtype in (("a", a.dtype), ("b", b.dtype)):
        if dtype not in _MULTIPLIED:
            types = ", ".join(map(str, _MULTIPLIED))
            raise mistake(f"{operand} of {caller} must have elements of one of {types}, got {dtype}")
    if isinstance(a, Buffer) and isinstance(b, Buffer) and is_packed(a) != is_packed(b):
        raise mistake(
            f"elements of {a.dtype} and {b.dtype} must be filled in one ring, where each has a byte, to be "
            "multiplied"
        )
    if a.dtype != b.dtype and not any({a.dtype, b.dtype} <= kinds for kinds in ({*NARROW}, {i8, u8})):
        remedy = f"load one of them, convert it with .to, and store it to a buffer, {_BY_RING}"
        if isinstance(a, Fragment) and b.dtype.bits == 16:
            remedy = f"convert a with .to({b.dtype})"
        raise mistake(f"a and b must have one type, got {a.dtype} and {b.dtype}: {remedy}")
    return a.shape, b.shape


def _check_operand(a: Fragment) -> None:
    """Raises WeftError for a fragment that isn't in the layout of A in registers."""
    bits, legal = a.dtype.bits, trace.current().multiplier.operand_bits
    if bits not in legal:
        text = " or ".join(map(str, legal))
        raise mistake(
            f"a fragment as a of w.gemm must have {text} bits on this chip, got {a}: convert it with "
            ".to(w.bf16), or store it in a buffer"
        )
    if bits == 8:
        wanted = registers.left_operand(a.shape, bits)
        if not registers.same(a.layout, wanted, a.shape):
            raise mistake(
                f"a fragment of 8 bits as a of w.gemm must have its columns in the order of w.interleaved, "
                f"got {a.layout}: write w.interleaved(x).to({a.dtype})"
            )
        return
    wanted = trace.current().sums(a.shape)
    if not registers.same(a.layout, wanted, a.shape):
        raise mistake(
            f"a fragment as a of w.gemm must be in the layout of sums, {wanted}, got {a.layout}: write "
            "w.convert(a)"
        )


def _check_sums(sums: object, kind: ir.Type) -> None:
    """Raises WeftError for sums to which a product with sums of this type can't be added."""
    if sums is None:
        return
    if not isinstance(sums, (Fragment, Pending)):
        raise mistake(f"sums of w.gemm must be a fragment or a pending product, got {sums}")
    shape, dtype = kind.shape, dtype_of(kind.element_type)
    if (tuple(sums.shape), sums.dtype) != (shape, dtype):
        raise mistake(
            f"sums of this product must be {shape[0]} x {shape[1]} {dtype}, got {sums}: begin with "
            f"w.zeros(({shape[0]}, {shape[1]}), {dtype}), or without sums"
        )
    layout = sums.layout if isinstance(sums, Fragment) else sums.kind.layout
    if not registers.same(layout, kind.layout, shape):
        raise mistake(f"sums of w.gemm must be in layout {kind.layout}, got {layout}{at(sums.where)}")


def wait(*products: Pending, pending: int = 0) -> object:
    """Waits until at most `pending` products of the warpgroup are unfinished, and returns these products.

    The products that are finished by then become fragments: all of them with `pending=0`, otherwise all but
    the `pending` that were started last. These stay pending.
    """
    current = trace.current()
    if not isinstance(pending, int) or pending < 0:
        raise mistake(f"pending must be a number of at least 0, got {pending}")
    for each in products:
        if not isinstance(each, Pending):
            remedy = "leave out w.wait, as the product of tiles from w.load is complete"
            if each is None:
                remedy = "products in tensor memory are complete when the stage that has them is full"
            raise mistake(f"w.wait expects pending products, got {each}: {remedy}")
    ready = [each for each in products if current.groups - each.group >= pending]
    complete = [each for each in ready if each.complete]
    ready = [each for each in ready if not each.complete]
    values = current.multiplier.wait(ready, pending) if ready or not complete else []
    values += [each.value for each in complete if each.value is not None]
    current.finished = max(current.finished, current.groups - pending)
    done = {id(each): Fragment(value) for each, value in zip([*ready, *complete], values, strict=True)}
    results = tuple(done.get(id(each), each) for each in products)
    return results[0] if len(results) == 1 else results or None
