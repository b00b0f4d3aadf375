"""Loads and stores of fragments: by ldmatrix and stmatrix, and plain ones of shared and global memory."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from weft.dialects import launch_contract as contract
from weft.dialects import mma, tile
from weft.dialects.instruction import repeated
from weft.dialects.op import refuse
from weft.dialects.tile import (
    FragmentType,
    LoadOp,
    LoadRowOp,
    StoreOp,
    StoreRowOp,
    is_buffer,
    is_tensor_buffer,
)
from weft.isa.chips import describe
from weft.isa.family import Family, operand_text
from weft.isa.global_stores import STORE, Store
from weft.isa.mma.matrix_moves import LDMATRIX, STMATRIX
from weft.layout import Iter, Layout
from weft.mlir import arith, ir, llvm, memref, vector
from weft.passes.analysis.factors import factor
from weft.passes.builders import (
    addresses,
    emit,
    fragment_registers,
    matrix_moves,
    named_sums,
    tensor_memory_moves,
    thread_ids,
)
from weft.passes.builders.addresses import Matrix, NearbyElements, Vector
from weft.passes.builders.fragment_registers import words_of_fragment
from weft.passes.builders.instructions import LETTERS, assembly
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.tensor_memory_moves import stored_lane
from weft.passes.registry import remarks

_PREDICATES = 7  # of a thread
Runs = list[tuple[int, int, int, int]]


def load(op: LoadOp) -> ir.Value:
    """Loads a fragment of tensor, shared or global memory."""
    if is_tensor_buffer(op.source):
        return tensor_memory_moves.load(op)
    if is_buffer(op.source):
        return _load_shared(op)
    return _load_global(op)


def _load_shared(op: LoadOp) -> ir.Value:
    """ldmatrix where it moves the fragment, otherwise plain loads. So are those of lanes that hold vectors of
    a row.
    """
    kind = op.fragment.type
    refused = _halves_complaint(op, op.source) or _chip_complaint(op, LDMATRIX)
    if kind.element_type.width == 16 and refused:
        remarks.explain(op, lambda: ("plain loads", [f"ldmatrix {refused}"]))
        return _load_plain(op)
    if kind.element_type.width != 16 and (refused := matrix_moves.complaint(op, kind)):
        if not (transposing := matrix_moves.transposing_complaint(op, kind)):
            remarks.explain(op, lambda: (f"ldmatrix of {matrix_moves.unit(op)}", [f"ldmatrix {refused}"]))
            return _fragment(vector.bitcast(stored_lane(kind), matrix_moves.load(op)), kind)
        if kind.element_type.width == 8:
            refused += f"; ldmatrix of pairs of bytes {transposing}"
        remarks.explain(op, lambda: ("plain loads", [f"ldmatrix {refused}"]))
        return _load_plain(op)
    words, word = list[ir.Value](), emit.i32()
    remarks.explain(op, lambda: ("ldmatrix", []))
    for count, address, transposed in matrix_moves.moves(op, op.source, kind):
        result = mma.ldmatrix(address=address, num=count, trans=transposed, **matrix_moves.form_of(op))
        words += [result] if count == 1 else [llvm.extractvalue(word, result, [i]) for i in range(count)]
    if shift := matrix_moves.shift_of(op):
        words = [arith.shli(each, emit.value(shift)) for each in words]
    packed = vector.from_elements(ir.VectorType.get([len(words)], word), words)
    return _fragment(vector.bitcast(stored_lane(kind), packed), kind)


def _halves_complaint(op: LoadOp | StoreOp, buffer: ir.Value) -> str | None:
    """Why ldmatrix or stmatrix don't move a fragment of elements of 16 bits."""
    if width := op.attribute("vector_bytes"):
        return f"needs vector_bytes 0, got {width}"
    if (space := buffer.type.space) != "shared":
        return f"needs a buffer in the CTA's own shared memory, got {space} memory"
    return None


def _store_shared(op: StoreOp) -> None:
    """stmatrix where elements have 16 bits and the chip has it, otherwise plain stores. So are those of lanes
    that hold vectors of a row.
    """
    kind = op.fragment.type
    if refused := _stmatrix_complaint(op):
        remarks.explain(op, lambda: ("plain stores", [f"stmatrix {refused}"]))
        _store_plain(op)
        return
    remarks.explain(op, lambda: ("stmatrix", []))
    # Rounded just before they are stored: otherwise, all words would be in registers beside the sums.
    read = named_sums.rounding(op)
    reading = named_sums.Reading.of(read) if read else None
    words, first = [] if reading else words_of_fragment(op.fragment), 0
    built = dict[tuple[int, bool], ir.Operation]()
    with emit.reused():
        for count, address, transposed in matrix_moves.moves(op, op.destination, kind):
            registers = reading.words(first, count) if reading else words[first : first + count]
            if (same := built.get((count, transposed))) is not None:
                repeated(same, {"address": [address], "a": registers})
            else:
                built[count, transposed] = mma.stmatrix(
                    address=address, a=registers, shape="m8n8", num=count, trans=transposed
                ).operation
            first += count


def _stmatrix_complaint(op: StoreOp) -> str | None:
    """Why stmatrix doesn't store a fragment."""
    if (bits := op.fragment.type.element_type.width) != 16:
        return f"needs elements of 16 bits, got {bits}"
    if refused := _halves_complaint(op, op.destination):
        return refused
    return _chip_complaint(op, STMATRIX)


def _chip_complaint(op: LoadOp | StoreOp, family: Family[Any]) -> str | None:
    """Why the target doesn't have the instructions of a family."""
    if op.target is not None and op.target.chip.name not in family.chips():
        return f"needs {describe(family.chips())}, got {op.target.chip.name}"
    return None


def _plain_runs(op: LoadOp | StoreOp, buffer: ir.Value, kind: ir.Type) -> Iterator[tuple[int, int, ir.Value]]:
    """Runs of a lane's registers that are contiguous in a buffer: the first, their number, their address."""
    thread_ids.threads_of(op)
    swap = matrix_moves.transposes(op)
    shared, base = SharedTile(buffer.type), tile.address(buffer)
    # Elements that follow each other in a row of the fragment are in different rows of a transposed buffer.
    width = 1 if swap else max(int(op.attribute("vector_bytes")) // shared.bytes, 1)
    if wrong := shared.run_complaint(width):
        raise refuse(op, wrong)
    of_lane = _lane_offset(op, kind)
    start_row, start_column = map(emit.add, (op.row, op.column), of_lane[::-1] if swap else of_lane)
    start = addresses.offset(base, shared.offset(Point(start_row), Point(start_column)))
    for register, count, *at in _runs(op, kind, width):
        row, column = reversed(at) if swap else at
        if shared.linear:
            yield register, count, addresses.offset(start, shared.offset(Point(0, row), Point(0, column)))
            continue
        # The fragment begins at a multiple of its shape: a register's coordinates have digits of their own.
        offset = shared.offset(Point(emit.add(start_row, row)), Point(emit.add(start_column, column)))
        yield register, count, addresses.offset(base, offset)


def _load_plain(op: LoadOp) -> ir.Value:
    kind, elements = op.fragment.type, list[ir.Value]()
    for _, count, address in _plain_runs(op, op.source, kind):
        run = _run(addresses.stored_type(kind.element_type), count)
        elements += emit.elements(llvm.load(run, address))
    return _fragment(emit.vector_of(elements), kind)


def _store_plain(op: StoreOp) -> None:
    stored = _stored(op.fragment)
    for register, count, address in _plain_runs(op, op.destination, op.fragment.type):
        llvm.store(stored(register, count), address)


def _fragment(lane: ir.Value, kind: ir.Type) -> ir.Value:
    """The fragment of a lane's loaded vector."""
    # arith.bitcast doesn't take unsigned integers.
    same = lane.type == kind.lane_type
    return tile.from_lane(lane if same else vector.bitcast(kind.lane_type, lane), kind)


def _stored(fragment: ir.Value) -> Callable[[int, int], ir.Value]:
    """A function that returns what a lane stores of a run of a fragment's registers, by the first and their
    number.
    """
    lane = tile.to_lane(fragment)
    element = addresses.stored_type(lane.type.element_type)
    kind = ir.VectorType.get(lane.type.shape, element)
    lane = lane if lane.type == kind else vector.bitcast(kind, lane)
    elements = emit.elements(lane)

    def run(register: int, width: int) -> ir.Value:
        if width == 1:
            return elements[register]
        if element.width == 8:  # as a word: LLVM stores a vector's bytes one by one
            count, word = lane.type.shape[0] // width, ir.IntegerType.get_signless(8 * width)
            return emit.elements(vector.bitcast(ir.VectorType.get([count], word), lane))[register // width]
        return emit.vector_of(elements[register : register + width])

    return run


def _lane_start(op: ir.OpView, kind: ir.Type) -> tuple[ir.Value, ir.Value]:
    """The matrix coordinates of the lane's first element."""
    row, column = _lane_offset(op, kind)
    return emit.add(op.row, row), emit.add(op.column, column)


def _lane_offset(op: ir.OpView, kind: ir.Type) -> tuple[ir.Value | int, ir.Value | int]:
    """The coordinates of the lane's first element in the fragment."""
    digits = fragment_registers.lane_digits(kind.layout, kind.shape)
    if digits is None:
        raise refuse(op, f"expects a fragment whose coordinates are digits of the lane, got {kind.layout}")
    row, column = (fragment_registers.lane_coordinate(each) for each in digits)
    return row, column


def _width(op: ir.OpView, matrix: Matrix | Vector) -> int:
    """The number of elements that are accessed at once."""
    return max(int(op.attribute("vector_bytes")) // matrix.bytes, 1)


def _whole(memory: ir.Value, matrix: Matrix | Vector, start: ir.Value, runs: Runs) -> ir.Value | None:
    """Whether runs that begin inside of the matrix end inside, and each can be accessed at once: rows and
    starts are multiples of the width. None if the kernel takes only such arrays.
    """
    width = runs[0][1]
    starts_whole = all(column % width == 0 for *_, column in runs) and factor(start) % width == 0
    if starts_whole and _row_bytes(memory) % (width * matrix.bytes) == 0:
        return None
    bits = matrix.columns
    for residue in sorted({column % width for *_, column in runs}):
        bits = arith.ori(bits, emit.value(emit.add(start, residue)))
    bits = emit.bit_and(bits, width - 1)
    return emit.equal(arith.ori(bits, matrix.misaligned(width * matrix.bytes)), 0)


def _row_bytes(memory: ir.Value) -> int:
    """Bytes of which the rows of an array, or of a part of one, are multiples by the launch contract."""
    while not isinstance(memory.owner, ir.Block):
        if not isinstance(memory.owner.opview, memref.SubViewOp):
            return 1
        memory = memory.owner.opview.source
    bytes_ = list(contract.WHOLE.of(memory.owner.owner.opview) or ())
    number = ir.BlockArgument(memory).arg_number
    return int(bytes_[number]) if number < len(bytes_) else 1


def _runs(op: ir.OpView, kind: ir.Type, width: int) -> Runs:
    """(first register, registers, row, column) of the runs of `width` that are accessed at once, relative to
    the lane's start.
    """
    elements = fragment_registers.coordinates(kind)
    runs = []
    for register in range(0, len(elements), width):
        row, column = elements[register]
        if not _are_runs(elements[register : register + width], width):
            wide = op.attribute("vector_bytes")
            least = next(n for n in range(width // 2, 0, -1) if _are_runs(elements, n))
            legal = f"nearest legal: {wide * least // width if least > 1 else 0}"
            raise refuse(
                op, f"expects runs of {width} registers in one row where vector_bytes is {wide}; {legal}"
            )
        runs.append((register, width, row, column))
    return runs


def _run(element: ir.Type, width: int) -> ir.Type:
    """The type of a run of elements that are accessed at once."""
    return element if width == 1 else ir.VectorType.get([width], element)


def _are_runs(elements: Sequence[Sequence[int]], width: int) -> bool:
    """Whether each `width` elements follow each other in a row."""
    return all(
        column + 1 == next_column and row == next_row
        for i, ((row, column), (next_row, next_column)) in enumerate(pairwise(elements), 1)
        if i % width
    )


def _load_global(op: LoadOp) -> ir.Value:
    thread_ids.threads_of(op)
    source, kind = Matrix(op.source, op.attribute("any_row")), op.fragment.type
    start_row, start_column = _lane_start(op, kind)

    def plainly(address: ir.Value, _: ir.Value, kind: ir.Type) -> ir.Value:
        return llvm.load(kind, address)

    def loaded(runs: Runs, read: Callable[..., ir.Value]) -> list[ir.Value]:
        elements, near = [], NearbyElements(source, start_row, start_column)
        for _, width, row, column in runs:
            inside, address = near.at(row, column)
            elements += emit.elements(read(address, inside, _run(source.element, width)))
        return [emit.vector_of(elements)]

    at_edges = addresses.loaded if op.only_inside else partial(guarded, source)
    width, single = _width(op, source), _runs(op, kind, 1)
    runs, lane = _runs(op, kind, width), [ir.VectorType.get([kind.registers], source.element)]

    def anywhere() -> list[ir.Value]:
        if width == 1:
            return loaded(single, at_edges)
        whole = _whole(op.source, source, start_column, runs)
        by_runs = partial(loaded, runs, at_edges)
        return emit.either(whole, lane, by_runs, lambda: loaded(single, at_edges)) if whole else by_runs()

    if kind.warps == 1 or len(runs) <= _PREDICATES:
        return _fragment(anywhere()[0], kind)
    # With a predicate for each, more loads wait for others.
    rows, columns = kind.shape
    below = emit.less(emit.add(op.row, rows - 1), source.rows)
    inner = arith.andi(below, emit.less(emit.add(op.column, columns - 1), source.columns))
    if op.attribute("any_row"):
        inner = arith.andi(inner, emit.less(-1, op.row))
    if width > 1 and (whole := _whole(op.source, source, start_column, runs)):
        inner = arith.andi(inner, whole)
    return _fragment(emit.either(inner, lane, lambda: loaded(runs, plainly), anywhere)[0], kind)


def load_row(op: LoadRowOp) -> ir.Value:
    """Loads each of the lane's columns once, for all of its rows."""
    thread_ids.threads_of(op)
    kind = _of_rows(op.fragment.type)
    start = emit.add(op.column, _lane_offset(op, kind)[1])
    columns = [column for _, _, _, column in _runs(op, kind, 1)]
    distinct = sorted(set(columns))
    if is_buffer(op.source):
        values = _row_of_buffer(op, kind, start, distinct)
        return _repeated(op.fragment.type, columns, dict(zip(distinct, values, strict=True)))
    source = Vector(op.source)

    def loaded_runs(width: int) -> list[ir.Value]:
        run, elements = _run(source.element, width), list[ir.Value]()
        for column in distinct[::width]:
            at = emit.add(start, column)
            elements += emit.elements(guarded(source, source.element_of(at), source.has(at), run))
        return elements

    width = _width(op, source)
    if width == 1:
        values = loaded_runs(1)
    else:
        runs = _runs(op, kind, width)
        whole, kinds = _whole(op.source, source, start, runs), [source.element] * len(distinct)
        by_runs = partial(loaded_runs, width)
        values = emit.either(whole, kinds, by_runs, lambda: loaded_runs(1)) if whole else by_runs()
    return _repeated(op.fragment.type, columns, dict(zip(distinct, values, strict=True)))


def _of_rows(kind: ir.Type) -> ir.Type:
    """The type of a fragment; of one of one dimension, as that of its only row."""
    if len(kind.shape) > 1:
        return kind
    layout = Layout((Iter(1, 1), *kind.layout.shard), kind.layout.replica)
    return FragmentType.of((1, *kind.shape), kind.element_type, layout)


def store_row(op: StoreRowOp) -> None:
    """Stores each element of a vector that is inside of the memory, by one of the lanes that hold it."""
    thread_ids.threads_of(op)
    kind, destination, stored = _of_rows(op.fragment.type), Vector(op.destination), _stored(op.fragment)
    start = emit.add(op.column, _lane_offset(op, kind)[1])
    with emit.when(thread_ids.first_of_copies(kind.layout)):
        for register, _, _, column in _runs(op, kind, 1):
            at = emit.add(start, column)
            with emit.when(destination.has(at)):
                llvm.store(stored(register, 1), destination.element_of(at))


def _row_of_buffer(op: LoadRowOp, kind: ir.Type, start: ir.Value, columns: Sequence[int]) -> list[ir.Value]:
    """The elements at some columns of a buffer of one row: each run of them by one load."""
    shared, base = SharedTile(op.source.type), tile.address(op.source)
    width = max(int(op.attribute("vector_bytes")) // shared.bytes, 1)
    runs = _runs(op, kind, width)
    if wrong := shared.run_complaint(width):
        raise refuse(op, wrong)
    assert len({column for *_, column in runs}) * width == len(columns), "each column is in one run"
    element, values = addresses.stored_type(op.fragment.type.element_type), list[ir.Value]()
    for column in columns[::width]:
        offset = shared.offset(Point(0), Point(emit.add(start, column)))
        at = addresses.offset(base, offset)
        values += emit.elements(llvm.load(_run(element, width), at, alignment=width * shared.bytes))
    return values


def _repeated(kind: ir.Type, columns: Sequence[int], by_column: dict[int, ir.Value]) -> ir.Value:
    """The fragment whose registers hold the values of their columns."""
    return _fragment(emit.vector_of([by_column[c] for c in columns]), kind)


def store(op: StoreOp) -> None:
    """Stores a fragment to tensor, shared or global memory."""
    if is_tensor_buffer(op.destination):
        tensor_memory_moves.store(op)
        return
    if is_buffer(op.destination):
        _store_shared(op)
        return
    thread_ids.threads_of(op)
    destination = Matrix(op.destination, op.attribute("any_row"))
    kind = op.fragment.type
    stored = _stored(op.fragment)
    start_row, start_column = _lane_start(op, kind)

    def put(runs: Runs) -> None:
        near = NearbyElements(destination, start_row, start_column)
        for register, width, row, column in runs:
            inside, address = near.at(row, column)
            _store_inside(stored(register, width), address, inside, predicated=kind.warps > 1)

    width, single = _width(op, destination), _runs(op, kind, 1)
    if width == 1:
        put(single)
        return
    runs = _runs(op, kind, width)
    if whole := _whole(op.destination, destination, start_column, runs):
        emit.branch(whole, lambda: put(runs), lambda: put(single))
    else:
        put(runs)


def _store_inside(value: ir.Value, address: ir.Value, inside: ir.Value, *, predicated: bool) -> None:
    """Stores to global memory if the address is `inside`. If `predicated`, words have no branch around them:
    with one for each pair of sums of a warpgroup, LLVM takes half as long again. The sums of a single warp
    keep it, since ptxas would need more registers for the addresses.
    """
    words = emit.elements(value)
    form, kind = Store(len(words)), str(words[0].type)
    if not predicated or kind not in ("i32", "f32") or form not in STORE.table:
        with emit.when(inside):
            llvm.store(value, address)
        return
    registers = {"address": ["$1"], "value": [f"${2 + number}" for number in range(len(words))]}
    guard = form.guard.format(predicate="$0")
    letters = [LETTERS["i1"], LETTERS["i64"], *[LETTERS[kind]] * len(words), "~{memory}"]
    assembly(f"{guard} {form.ptx} {operand_text(form, registers)};", letters, [inside, address, *words], [])


def guarded(source: Matrix | Vector, address: ir.Value, inside: ir.Value, kind: ir.Type) -> ir.Value:
    """The value at an address, or zero where that isn't `inside`."""
    loaded = llvm.load(kind, arith.select(inside, address, source.base))
    return arith.select(inside, loaded, emit.constant(kind, 0))
