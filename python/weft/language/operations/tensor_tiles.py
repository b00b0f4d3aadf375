"""Tiles in tensor memory: their loads and stores by warpgroups, and the products that one thread starts."""

from weft.dialects import tcgen05, tile
from weft.dialects.tile import FragmentType
from weft.errors import shown
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.multipliers import Scales
from weft.language.operations.tensor_products import check_operands
from weft.language.values.buffers import Buffer
from weft.language.values.dtypes import f32, i1, i32
from weft.language.values.fragments import Fragment, layout_for
from weft.language.values.scalars import as_scalar
from weft.language.values.tensor_memory import TensorMemory
from weft.passes.builders import emit


def load(source: TensorMemory, like: Fragment | None) -> Fragment:
    """The fragment of a tile (PTX ISA, "tcgen05.ld", "tcgen05.wait")."""
    trace.current().check_whole_in_role("w.load of tensor memory")
    source.check_full()
    kind = FragmentType.of(source.shape, source.dtype.type, layout_for(source.shape, like))
    _order(source, "after_thread_sync")
    loaded = tile.load(source.value, emit.value(0), emit.value(0), kind)
    _order(source, "before_thread_sync")
    return Fragment(loaded)


def store(fragment: Fragment, to: TensorMemory) -> None:
    """Stores a fragment of the tile's shape and type (PTX ISA, "tcgen05.st", "tcgen05.wait")."""
    trace.current().check_whole_in_role("w.store to tensor memory")
    to.check_full()
    if fragment.shape != to.shape or fragment.dtype != to.dtype:
        raise mistake(f"expects tensor memory of the fragment's shape and type, {fragment}, got {to}")
    _ = fragment.layout
    _order(to, "after_thread_sync")
    tile.store(fragment.value, to.value, emit.value(0), emit.value(0))
    _order(to, "before_thread_sync")


def checked(a: object, b: object, sums: object) -> tuple[Buffer | TensorMemory, Buffer, TensorMemory]:
    """The operands of a product. Raises WeftError for what none has, or where none can be started."""
    current = trace.current()
    role, alone = current.role, current.one_thread
    if role is None or not alone or (role.warpgroups > 1 and current.alike):
        threads = "a thread of each warpgroup" if role is not None and alone else "all threads"
        raise mistake(
            f"a product in tensor memory is started by one thread, got {threads}: write it in 'with "
            "w.one_thread():', in a role of one warpgroup"
        )
    if current.cta_group > 1 and not current.leads:
        raise mistake(
            "a product of a pair is started by its leader: write it in 'with w.one_thread(pair=True):'"
        )
    tensor, shared = "tensor memory", "a buffer in shared memory"
    for name, value, legal, kinds in (
        ("a", a, (Buffer, TensorMemory), f"{shared}, or {tensor}"),
        ("b", b, Buffer, shared),
        ("sums", sums, TensorMemory, f"{tensor}, as a is"),
    ):
        if not isinstance(value, legal):
            made = ": w.store it there first" if isinstance(value, Fragment) else ""
            raise mistake(f"{name} of a product in tensor memory must be {kinds}, got {shown(value)}{made}")
    assert isinstance(a, (Buffer, TensorMemory)) and isinstance(b, Buffer) and isinstance(sums, TensorMemory)
    for each in (a, b, sums):
        each.check_full()
    return a, b, sums


def multiply(
    a: Buffer | TensorMemory, b: Buffer, sums: TensorMemory, accumulate: object, scales: Scales
) -> None:
    """Starts `sums += a @ b`, or `sums = a @ b` unless it shall `accumulate` (PTX ISA, "tcgen05.mma")."""
    group = trace.current().cta_group
    shape, dtype = (a.shape[0], b.shape[1] * group), f32 if a.dtype.is_float else i32
    if (sums.shape, sums.dtype) != (shape, dtype):
        needed = f"w.tensor_memory({shape[0]}, {shape[1]}, {dtype})"
        if group > 1 and sums.shape[1] % group == 0:
            needed += f" makes them, or b have {sums.shape[1] // group} columns in each CTA of the pair"
        else:
            needed += " makes them"
        raise mistake(f"sums of this product must be as {needed}, got {sums}")
    check_operands(a, b, scales)
    for each in (a, sums):
        if isinstance(each, TensorMemory):
            _order(each, "after_thread_sync")
    adds = as_scalar(accumulate, i1).value
    tile.gemm_async(
        *(a.value, b.value, sums.value, adds, *trace.current().multiplier.load_scales(scales)),
        transpose_a=a.transposed,
        transpose_b=b.transposed,
        cta_group=group,
    )
    for operand in (a, b, *(scales or ())):
        if operand.ring is not None:
            operand.ring.read_by_product()


def _order(memory: TensorMemory, kind: str) -> None:
    """Orders accesses around what synchronizes threads (PTX ISA, "tcgen05.fence"), where no ring does."""
    if memory.ring is None:
        tcgen05.fence(kind=kind)
