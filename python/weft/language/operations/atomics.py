"""Elements in global memory that many threads change: sums, maxima, minima and bits."""

from collections.abc import Callable, Sequence

from weft.dialects import tile
from weft.isa.async_copy import ADDED_TYPES
from weft.isa.atomics import BF16_ADD, ORDERS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.gathers import Gathered, each_element
from weft.language.operations.loads import check_via, check_written, copy_buffer, end_of_tma, put_for_tma
from weft.language.operations.orders import ordered
from weft.language.operations.products import Pending
from weft.language.operations.roles import once, one_thread
from weft.language.operations.tile_vectors import elements_inside
from weft.language.values import operators
from weft.language.values.bounds import inside
from weft.language.values.buffers import Buffer, Element, Elements, element_address
from weft.language.values.coordinates import Coordinates, of_lanes
from weft.language.values.dtypes import DTYPES, DType, bf16, f16, f32, f64, i32, i64, u32, u64
from weft.language.values.fragments import Fragment
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar, as_scalar, dtype_of
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, atomics, emit, thread_ids
from weft.passes.kernels import matrices

_ACQUIRE, _BOTH = llvm.AtomicOrdering.acquire, llvm.AtomicOrdering.acq_rel
_RELAXED = atomics.Order("relaxed", "gpu")


def fence(*, shared: bool) -> ir.OpView:
    """A fence between what a thread accesses before and after it, for the threads that can access shared
    memory, or for all of the GPU's.
    """
    cta = "cluster" if trace.current().cluster else "cta"
    return atomics.fence(atomics.Order("acq_rel", cta if shared else "gpu"))


def update(name: str, pointer: ir.Value, number: ir.Value, order: atomics.Order | None = None) -> ir.Value:
    """Adds a number to an element ("add"), makes the element the larger or smaller one of both ("max",
    "min"), or combines their bits ("and", "or", "xor").
    """
    if name in ("and", "or", "xor"):
        return atomics.update(f"_{name}", pointer, number, order)
    dtype = dtype_of(number.type)
    if dtype.is_unsigned:
        name = {"max": "umax", "min": "umin"}.get(name, name)
    if name != "add" and dtype == f32:
        return atomics.extreme_of_floats(name, pointer, number, order)
    if name == "add" and dtype == bf16 and trace.current().chip not in BF16_ADD:
        return _added_by_swaps(pointer, number, order or _RELAXED)
    return atomics.update(f"f{name}" if dtype.is_float else name, pointer, number, order)


def _added_by_swaps(pointer: ir.Value, number: ir.Value, order: atomics.Order) -> ir.Value:
    """Compares and swaps 16 bits in global memory. LLVM would swap a word, of which the other half may be
    outside of the array, and begin with a plain load, which races with the swaps of other threads.
    """
    bits = ir.IntegerType.get_signless(16)

    def swapped(old: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        new = operators.apply("add", arith.bitcast(number.type, old), number)
        before = atomics.instruction("cas", "b16", order, pointer, old, arith.bitcast(bits, new))
        return arith.cmpi(arith.CmpIPredicate.ne, before, old), [before]

    first = llvm.load(bits, pointer, alignment=2, ordering=atomics.RELAXED, syncscope=atomics.GPU)
    (old,) = emit.repeat([first], swapped)
    return arith.bitcast(number.type, old)


def exchanged(pointer: ir.Value, number: ir.Value, order: atomics.Order | None = None) -> ir.Value:
    """Stores a number to an element. LLVM ignores that an exchange orders other accesses, so fences do."""
    if order is not None:
        return atomics.update("xchg", pointer, number, order)
    fence(shared=False)
    old = atomics.update("xchg", pointer, number)
    fence(shared=False)
    return old


def compared(
    pointer: ir.Value, expected: ir.Value, number: ir.Value, order: atomics.Order | None = None
) -> ir.Value:
    """Stores a number to an element that is the expected one."""
    if order is not None:
        return atomics.instruction("cas", f"b{number.type.width}", order, pointer, expected, number)
    expected, word = emit.signless(expected), emit.signless(number)
    swapped = llvm.cmpxchg(pointer, expected, word, _BOTH, _ACQUIRE, syncscope=atomics.GPU)
    return emit.bits(llvm.extractvalue(word.type, swapped, [0]), number.type)


def of_array(
    name: str, element: ir.Value, array: ir.Value, indices: list[ir.Value], order: atomics.Order | None = None
) -> ir.Value:
    """The same, of the element of an array at indices."""
    return update(name, addresses.element(array, indices), element, order)


_INTEGERS = (i64, i32, u64, u32)
_ADDED = (f64, f32, f16, bf16, *_INTEGERS)
_ADDED_SHARED = (f64, f32, f16, *_INTEGERS)
_COMPARED = (f32, *_INTEGERS)


def atomic_add(
    to: object, value: object, *, via: Buffer | None = None, order: object = None, scope: object = None
) -> Scalar | None:
    """Adds a number to an element of an array atomically, `w.atomic_add(d[i], value)`, and returns what the
    element was before. If the kernel uses that, the addition orders other accesses, as `w.atomic_cas` does;
    otherwise it is relaxed, so others may see the sum before what this thread stored earlier.

    A vector is added to elements along the last dimension, from this one on, and a tile to a tile of which
    this is the first element. Elements outside of the array are skipped. The order of additions, and
    therefore the rounding of floats, is not determined.

    An index may also be a fragment of i32: `w.atomic_add(counts[t], 1)` counts the numbers in `t`, and
    `w.atomic_add(y[rows, 0], x)` adds each row of a tile to that of its number. An element of a buffer in
    shared memory, `buffer[row, column]`, is changed by a number; those at indices of fragments, by fragments.

    With `via`, a buffer as for `w.store`, a tile goes through it and TMA adds it. The array must then begin,
    and each of its rows, at a multiple of 16 bytes.

    In `w.one_thread()`, the value may also be a buffer, of a stage that the thread has taken. It waits until
    TMA has read the buffer.

    `order` is relaxed, acquire, release or acq_rel, and `scope` is cta, cluster, gpu or sys, as in PTX. An
    addition of one element with a scope alone is acq_rel. Those of vectors and tiles are relaxed.
    """
    if (order or scope) and (isinstance(value, Buffer) or via is not None):
        raise mistake("TMA adds without order= and scope=: add a tile without via")
    if isinstance(value, Buffer):
        if not isinstance(to, Place) or via is not None:
            raise mistake(f"a buffer is added to a tile of an array, without via, got {to}")
        _check_added(value.dtype, value)
        copy_buffer(tile.add_async, value, to, "added", "add")
        return None
    in_shared = isinstance(to, (Element, Elements))
    _check_type("w.atomic_add", to, _ADDED_SHARED if in_shared else _ADDED, " in shared memory" * in_shared)
    if via is None:
        return _combine("add", to, value, order, scope)
    if isinstance(value, Pending):
        value._refuse()
    if not isinstance(to, Place) or not isinstance(value, Fragment):
        raise mistake(f"via is for tiles of an array, got {value} and {to}: leave it out")
    check_written(to, value.dtype)
    _add_through(to, value, via)
    return None


def atomic_max(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar | None:
    """Makes an element of f32, i64, i32, u64 or u32 the larger one of itself and a number, in one step for
    all threads, and returns what it was before.

    A vector, a tile, fragments of indices, and the order of other accesses are as for `w.atomic_add`. NaN is
    larger than all other floats, or with its sign set, smaller.
    """
    _check_type("w.atomic_max", to, _COMPARED)
    return _combine("max", to, value, order, scope)


def atomic_min(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar | None:
    """Makes an element the smaller one of itself and a number, as `w.atomic_max`."""
    _check_type("w.atomic_min", to, _COMPARED)
    return _combine("min", to, value, order, scope)


def atomic_and(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar | None:
    """Clears the bits of an integer of 64 or 32 bits that aren't set in a number, in one step for all
    threads, and returns what it was before. Vectors, tiles, fragments of indices, and the order of other
    accesses are as for `w.atomic_add`.
    """
    _check_type("w.atomic_and", to, _INTEGERS)
    return _combine("and", to, value, order, scope)


def atomic_or(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar | None:
    """Sets the bits of an integer that are set in a number, as `w.atomic_and`."""
    _check_type("w.atomic_or", to, _INTEGERS)
    return _combine("or", to, value, order, scope)


def atomic_xor(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar | None:
    """Inverts the bits of an integer that are set in a number, as `w.atomic_and`."""
    _check_type("w.atomic_xor", to, _INTEGERS)
    return _combine("xor", to, value, order, scope)


def atomic_cas(
    to: object, expected: object, value: object, *, order: object = None, scope: object = None
) -> Scalar:
    """Stores a number to an element of i64, i32, u64 or u32 if the element is `expected`, in one step for all
    threads, and returns what the element was before. The element may also be one of shared memory.

    The thread then sees what another one stored before it changed the element by `w.atomic_cas`,
    `w.atomic_xchg`, or another atomic of which it used the result; so does its CTA after a barrier.
    """
    how = ordered("w.atomic_cas", order, scope)
    pointer, dtype = _one_element(to, "w.atomic_cas", _INTEGERS)
    old, new = (as_scalar(each, dtype).value for each in (expected, value))
    return Scalar(once(lambda: compared(pointer, old, new, how)))


def atomic_xchg(to: object, value: object, *, order: object = None, scope: object = None) -> Scalar:
    """Stores a number to an element of f32, i64, i32, u64 or u32, and returns what the element was before, in
    one step for all threads. Others see what this thread stored earlier, as for `w.atomic_cas`.
    """
    how = ordered("w.atomic_xchg", order, scope)
    pointer, dtype = _one_element(to, "w.atomic_xchg", _COMPARED)
    number = as_scalar(value, dtype).value
    return Scalar(once(lambda: exchanged(pointer, number, how)))


def _one_element(to: object, caller: str, legal: Sequence[DType]) -> tuple[ir.Value, DType]:
    """The address and type of an element of an array or a buffer."""
    if not isinstance(to, Element) and not (isinstance(to, Place) and to.element is not None):
        raise mistake(f"{caller} expects one element, with all its indices, got {to}")
    _check_type(caller, to, legal)
    if isinstance(to, Place):
        check_written(to, to.dtype)
    return to.address, to.dtype


def _check_type(caller: str, to: object, legal: Sequence[DType], where: str = "") -> None:
    """Raises WeftError for elements whose type isn't legal, `where` they are."""
    if isinstance(to, (Place, Gathered, Element)) and to.dtype not in legal:
        types = ", ".join(map(str, legal))
        raise mistake(f"{caller} changes elements of {types}{where}, got those of {to.dtype}")


def _combine(name: str, to: object, value: object, order: object, scope: object) -> Scalar | None:
    """Changes an element by a number, those of a row by a vector, or those of a tile by another tile. Returns
    the single element as it was before.
    """
    if isinstance(value, Pending):
        value._refuse()
    is_many = isinstance(value, Fragment) or isinstance(to, Gathered)
    legal = ORDERS[:1] if is_many else ORDERS
    caller = f"w.atomic_{name}{' of a tile or vector' * is_many}"
    how = ordered(caller, order, scope, legal, legal[-1])
    if isinstance(to, Element):
        number = as_scalar(value, to.dtype).value
        return _before(lambda: update(name, to.address, number, how), shared=True, how=how)
    if is_many:
        trace.current().check_whole_warps(caller)
    if isinstance(to, Gathered):
        check_written(to, value.dtype if isinstance(value, (Fragment, Scalar)) else to.dtype)

        def changed(element: ir.Value, indices: Sequence[ir.Value]) -> None:
            if isinstance(to, Elements):
                update(name, element_address(to.matrix, *indices), element, how)
            else:
                of_array(name, element, to.matrix.value, [emit.as_index(each) for each in indices], how)

        each_element(value, to, changed)
        return None
    is_element = isinstance(to, Place) and len(to.indices) == to.matrix.rank
    if not isinstance(to, Place) or (not is_element and not isinstance(value, Fragment)):
        raise mistake(f"w.atomic_{name} expects an element of an array, with all its indices, got {to}")
    if isinstance(value, Fragment):
        check_written(to, value.dtype)
        if len(value.shape) == 2:
            _change_tile(name, to, value, how)
        elif not is_element:
            raise mistake(
                f"w.atomic_{name} of a vector expects an element of an array, with all its indices, got {to}"
            )
        else:
            for element, indices in elements_inside(value, to):
                of_array(name, element, to.matrix.value, indices, how)
        return None
    check_written(to, to.dtype)
    number = as_scalar(value, to.dtype).value
    indices = [emit.as_index(each.value) for each in to.indices]
    return _before(lambda: of_array(name, number, to.matrix.value, indices, how), shared=False, how=how)


def _before(change: Callable[[], ir.Value], *, shared: bool, how: atomics.Order | None) -> Scalar:
    """The value of an element before a change. Without an order, it orders other accesses if the value is
    used. Otherwise, it becomes a reduction, which needn't wait for them.
    """
    if how is not None:
        return Scalar(once(change))
    fences = list[ir.OpView]()

    def ordered() -> ir.Value:
        fences.append(fence(shared=shared))
        old = change()
        fences.append(fence(shared=shared))
        return old

    old = once(ordered)
    trace.current().removable.append((old, fences))
    return Scalar(old)


def _change_tile(name: str, to: Place, fragment: Fragment, order: atomics.Order | None = None) -> None:
    matrix, corner = to.memref(), to.corner
    rows, columns = (
        _along(of_lanes(fragment, axis), start, matrices.size(matrix, axis))
        for axis, start in enumerate(corner)
    )
    with emit.when(thread_ids.first_of_copies(fragment.layout)):
        for (down, has_row), (across, has_column), element in zip(
            rows, columns, fragment.elements(), strict=True
        ):
            with emit.when(arith.andi(has_row, has_column)):
                of_array(name, element, matrix, [down, across], order)


def _add_through(to: Place, fragment: Fragment, via: Buffer) -> None:
    if len(fragment.shape) != 2:
        raise mistake(f"via is for tiles, got {fragment}: leave it out")
    check_via(via)
    _check_added(fragment.dtype, fragment)
    to.check_aligned()
    if not trace.current().has_tma:
        _change_tile("add", to, fragment)
        return
    put_for_tma(fragment, via)
    map_ = to.map(via.value.type)
    with one_thread():
        tile.add_async(via.value, map_, *to.corner)
        nvvm.cp_async_bulk_commit_group()
    end_of_tma(via)


def _check_added(dtype: DType, value: object) -> None:
    """Raises WeftError for elements that TMA can't add."""
    if dtype.name not in ADDED_TYPES:
        legal = ", ".join(str(DTYPES[name]) for name in ADDED_TYPES)
        raise mistake(f"TMA adds elements of {legal}, got {value}: leave via out")


def _along(coordinates: Coordinates, start: ir.Value, limit: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
    """The index along an axis of each of a lane's elements, and whether it is inside of the array."""
    first = emit.add(coordinates.base.value, start)
    indices = dict[int, tuple[ir.Value, ir.Value]]()
    for offset in coordinates.offsets:
        if offset not in indices:
            number = emit.value(emit.add(first, offset))
            indices[offset] = emit.as_index(number), inside(number, limit, start)
    return [indices[offset] for offset in coordinates.offsets]
