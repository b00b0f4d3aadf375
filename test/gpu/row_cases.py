"""One case for each kernel: every shape and type that an H200 multiplies, in wmma, mma.sync, mma.sp and
wgmma.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from row_kernels import CHIP, WARPGROUP, Kernels, Thread, axes
from row_operands import (
    LANES,
    Staged,
    decode,
    encode,
    from_registers,
    operands,
    packed,
    reference,
    stage,
    to_registers,
    unpacked,
)

from weft.dialects import mma as mma_dialect
from weft.dialects import wgmma as wgmma_dialect
from weft.dialects import wmma as wmma_dialect
from weft.isa import mma, wgmma, wmma
from weft.isa.mma.fragments import mnk
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import SWIZZLES
from weft.layout import Layout
from weft.mlir import arith, ir

PAD = 32  # bytes by which rows in memory are longer than the matrix


@dataclass(frozen=True)
class Case:
    """A kernel: what it takes, in 32-bit words, and what its last argument must hold afterwards."""

    name: str
    inputs: tuple[Any, ...]
    outputs: int
    threads: int
    body: Callable[[Thread], None]
    wanted: Any
    result: Callable[[Any], Any]
    shared: int = 0

    def arrays(self) -> list[Any]:
        """The arguments of a launch."""
        words = [np.ascontiguousarray(i).reshape(-1).view(np.int32) for i in self.inputs]
        return [*words, np.zeros(self.outputs, np.int32)]

    def fault(self, arrays: list[Any]) -> str | None:
        """What is wrong with the last argument after the launch."""
        got = self.result(arrays[-1].view(np.uint32))
        wrong = np.argwhere(got != self.wanted)
        if not len(wrong):
            return None
        at = tuple(map(int, wrong[0]))
        return f"{self.name}: {len(wrong)} wrong, first at {at}: expected {self.wanted[at]}, got {got[at]}"


def width(name: str) -> int:
    return ELEMENT_TYPES[name].bits


def by_name(form: Any) -> dict[str, Any]:
    return {operand.name: operand for operand in form.operands}


# mma.sync and mma.sp: a warp's registers are loaded and stored thread by thread.


def register_case(form: Any, operation: Any, selector: int = 0) -> Case:
    """A kernel of one `mma`."""
    m, n, k = form.mnk
    named = by_name(form)
    given = operands(form, m, n, k, batch=len(named["d"].shape) > 2 and 4, sparse="metadata" in named)
    a, b, c, d = (named[name] for name in "abcd")
    inputs = [
        to_registers(encode(value, kind), operand, width(kind))
        for value, kind, operand in (
            (given.stored, form.a_type, a),
            (given.b, form.b_type, b),
            (given.c, form.c_type, c),
        )
    ]
    if given.metadata is not None:
        first = selector * (given.metadata.shape[1] // 4)
        inputs.append(to_registers(given.metadata, named["metadata"], 4, first=first))

    def body(thread: Thread) -> None:
        more = {}
        if given.metadata is not None:
            (metadata,) = thread.load(3, named["metadata"])
            more = {"metadata": metadata, "selector": selector}
        registers = {name: thread.load(i, named[name]) for i, name in enumerate("abc")}
        value = operation.make(**registers, **more, **axes(operation, form))
        thread.store(len(inputs), d, value)

    def result(words: Any) -> Any:
        return decode(from_registers(words.reshape(LANES, -1), d, width(form.d_type)), form.d_type)

    count = LANES * d.count * (2 if d.type == "f64" else 1)
    name = f"{form.ptx} selector {selector}"
    return Case(name, tuple(inputs), count, LANES, body, reference(form, given), result)


@cache
def sync_cases() -> tuple[Case, ...]:
    return tuple(register_case(form, mma_dialect.SyncOp) for form in mma.SYNC.forms(CHIP))


@cache
def sparse_cases() -> tuple[Case, ...]:
    cases = []
    for form in mma.SPARSE.forms(CHIP):
        *_, selector = form.operands
        # Forms of one shape and type go through the selectors.
        cases.append(
            register_case(form, mma_dialect.SpSyncOp, selector.values[len(cases) % len(selector.values)])
        )
    return tuple(cases)


# wmma: matrices in global memory, whose rows (columns) have something between them.


def in_memory(codes: Any, layout: str, bits: int) -> tuple[Any, int]:
    """The bytes of a matrix, and its stride in elements."""
    rows = packed(codes if layout == "row" else codes.T, bits)
    step = -(-rows.shape[1] // 16) * 16 + PAD
    image = np.full((len(rows), step), 0xA5, np.uint8)
    image[:, : rows.shape[1]] = rows
    return image, step * 8 // bits


def wmma_case(form: Any, number: int) -> Case:
    """A kernel that loads A, B and C, multiplies, and stores D."""
    m, n, k = mnk(form.shape)
    given = operands(form, m, n, k)
    layouts = (form.a_layout, form.b_layout, ("row", "col")[number % 2], ("row", "col")[number // 2 % 2])
    kinds = (form.a_type, form.b_type, form.c_type)
    placed = [
        in_memory(encode(value, kind), layout, width(kind))
        for value, kind, layout in zip((given.a, given.b, given.c), kinds, layouts, strict=False)
    ]
    bits = width(form.d_type)
    blank, stride = in_memory(np.zeros((m, n), np.uint64), layouts[3], bits)
    space = number % 3 and 1

    def body(thread: Thread) -> None:
        i32 = ir.IntegerType.get_signless(32)
        fragments = {}
        for i, (fragment, kind) in enumerate(zip("abc", kinds, strict=True)):
            wanted = wmma.Load(form.shape, fragment, kind, layouts[i], "global" if space else "", True)
            value = wmma_dialect.load(
                address=thread.pointer(i, space),
                stride=arith.constant(i32, placed[i][1]),
                **axes(wmma_dialect.LoadOp, wanted),
            )
            fragments[fragment] = thread.split(value, wanted.operands[0])
        value = wmma_dialect.mma(**fragments, **axes(wmma_dialect.MmaOp, form))
        stored = wmma.Store(form.shape, form.d_type, layouts[3], "global" if space else "", True)
        wmma_dialect.store(
            address=thread.pointer(3, space),
            d=thread.split(value, by_name(form)["d"]),
            stride=arith.constant(i32, stride),
            **axes(wmma_dialect.StoreOp, stored),
        )

    def result(words: Any) -> Any:
        rows = words.view(np.uint8).reshape(blank.shape)
        rows = unpacked(rows[:, : (n if layouts[3] == "row" else m) * bits // 8], bits)
        return decode(rows if layouts[3] == "row" else rows.T, form.d_type)

    images = tuple(image for image, _ in placed)
    name = f"{form.ptx} C {layouts[2]} D {layouts[3]} space {space}"
    return Case(name, images, blank.size // 4, LANES, body, reference(form, given), result)


@cache
def wmma_cases() -> tuple[Case, ...]:
    return tuple(wmma_case(form, number) for number, form in enumerate(wmma.MMA.forms(CHIP)))


def fragment_case(form: Any) -> Case:
    """A kernel that loads one fragment, dense and from shared memory, and stores its registers."""
    m, n, k = mnk(form.shape)
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[form.fragment]
    bits, (d, *_) = width(form.type), form.operands
    rng = np.random.default_rng([rows, columns, bits])
    codes = rng.integers(0, 1 << bits, (rows, columns), np.uint64)
    image = packed(codes if form.layout == "row" else codes.T, bits).reshape(-1)
    image = np.concatenate([image, np.zeros(-image.size % (16 * LANES), np.uint8)])
    layout = Layout.parse(wmma.h200_layout(form.shape, form.fragment, form.type))
    elements = np.zeros((LANES, d.count * 32 // bits), np.uint64)
    for index, code in enumerate(codes.reshape(-1)):
        for place in layout.positions(index):
            elements[place.get("laneid", 0), place.get("m", 0)] = code

    def body(thread: Thread) -> None:
        thread.copy_to_shared(0, image.size)
        value = wmma_dialect.load(address=thread.shared(), **axes(wmma_dialect.LoadOp, form))
        thread.store(1, d, value)

    wanted = packed(elements, bits).view(np.uint32)
    return Case(
        form.ptx,
        (image,),
        LANES * d.count,
        LANES,
        body,
        wanted,
        lambda w: w.reshape(wanted.shape),
        image.size,
    )


@cache
def fragment_cases() -> tuple[Case, ...]:
    forms = wmma.LOAD.forms(CHIP)
    return tuple(fragment_case(form) for form in forms if form.space == "shared" and not form.stride)


# wgmma: A and B in shared memory, or A in registers.


@dataclass(frozen=True)
class Way:
    """How a `wgmma` finds its operands and what it does with them beside multiplying."""

    swizzle_a: str = "none"
    swizzle_b: str = "none"
    step_a: int = 0
    step_b: int = 0
    trans_a: bool = False
    trans_b: bool = False
    scale_a: int = 1
    scale_b: int = 1
    selector: int = 0
    accumulate: bool = True


def rows_of(codes: Any, bits: int, transposed: bool) -> Any:
    """The bytes of a matrix (M or N) x K by rows, or of its transpose."""
    return packed(codes.T if transposed else codes, bits)


def wgmma_case(form: Any, way: Way) -> Case:
    """A kernel of one `wgmma.mma_async`."""
    m, n, k = mnk(form.shape)
    named = by_name(form)
    given = operands(form, m, n, k, sparse=form.sparse)
    d, bits = named["d"], width(form.a_type)
    a_codes, b_codes = encode(given.stored, form.a_type), encode(given.b, form.b_type)
    b = stage(rows_of(b_codes.T, bits, way.trans_b), way.swizzle_b, transposed=way.trans_b, step=way.step_b)
    c = to_registers(encode(given.c, form.d_type), d, width(form.d_type), WARPGROUP)
    inputs = [b.image, c]
    a: Staged | None = None
    if form.a_registers:
        inputs.append(to_registers(a_codes, named["a"], bits, WARPGROUP))
    else:
        a = stage(rows_of(a_codes, bits, way.trans_a), way.swizzle_a, transposed=way.trans_a, step=way.step_a)
        inputs[0] = np.concatenate([b.image, a.image])
    inputs[0] = np.concatenate([inputs[0], np.zeros(-inputs[0].size % (16 * WARPGROUP), np.uint8)])
    if form.sparse:
        registers = to_registers(given.metadata, named["metadata"], 4, WARPGROUP, 2 * way.selector)
        inputs.append(registers)
    flags = {o.name: int(getattr(way, o.name)) for o in form.operands if o.role == "immediate"}
    operation = wgmma_dialect.SpMmaAsyncOp if form.sparse else wgmma_dialect.MmaAsyncOp

    def body(thread: Thread) -> None:
        thread.copy_to_shared(0, inputs[0].size)
        more: dict[str, Any] = {"a": thread.load(2, named["a"])} if a is None else {}
        if a is not None:
            more["a"] = descriptor(thread, a, b.image.size)
        if form.sparse:
            (more["metadata"],) = thread.load(len(inputs) - 1, named["metadata"])
        accumulators = thread.load_struct(1, d)
        bit = ir.IntegerType.get_signless(1)
        wgmma_dialect.fence()
        value = operation.make(
            inouts=accumulators,
            b=descriptor(thread, b, 0),
            scale_d=arith.constant(bit, int(way.accumulate)),
            **more,
            **flags,
            **axes(operation, form),
        )
        wgmma_dialect.commit_group()
        wgmma_dialect.wait_group(group=0)
        thread.store(len(inputs), d, value)

    def result(words: Any) -> Any:
        return decode(from_registers(words.reshape(WARPGROUP, -1), d, width(form.d_type)), form.d_type)

    wanted = reference(form, given, scale=way.scale_a * way.scale_b, accumulate=way.accumulate)
    name = f"{form.ptx}{' A in registers' if form.a_registers else ''} {way}"
    return Case(name, tuple(inputs), WARPGROUP * d.count, WARPGROUP, body, wanted, result, inputs[0].size)


def descriptor(thread: Thread, staged: Staged, offset: int) -> Any:
    return wgmma_dialect.descriptor(
        thread.shared(offset + staged.start),
        leading_byte_offset=staged.leading,
        stride_byte_offset=staged.stride,
        swizzle=staged.swizzle,
    )


def random_way(rng: random.Random, form: Any) -> Way:
    """Some legal way for a form."""
    flags = {o.name: rng.choice(list(o.values)) for o in form.operands if o.role == "immediate"}
    trans_a, trans_b = bool(flags.get("trans_a", 0)), bool(flags.get("trans_b", 0))
    # Rows of K are 32 bytes long, those of a sparse product's B 64.
    row_b = 64 if form.sparse else 32
    swizzle_a = rng.choice(list(SWIZZLES))
    swizzle_b = rng.choice([s for s in SWIZZLES if trans_b or s == "none" or SWIZZLES[s].width >= row_b])
    return Way(
        swizzle_a,
        swizzle_b,
        0 if trans_a or swizzle_a == "none" else rng.randrange(SWIZZLES[swizzle_a].width // 32),
        0 if trans_b or swizzle_b == "none" else rng.randrange(SWIZZLES[swizzle_b].width // row_b),
        trans_a,
        trans_b,
        flags.get("scale_a", 1),
        flags.get("scale_b", 1),
        flags.get("selector", 0),
    )


@cache
def wgmma_cases(sparse: bool) -> tuple[Case, ...]:
    """Every shape with every type of A, each in some way."""
    family = wgmma.MMA_ASYNC_SPARSE if sparse else wgmma.MMA_ASYNC
    cells: dict[tuple[str, str], list[Any]] = {}
    for form in family.forms(CHIP):
        cells.setdefault((form.shape, form.a_type), []).append(form)
    cases = []
    for number, forms in enumerate(cells.values()):
        rng = random.Random(number)
        form = rng.choice(forms)
        cases.append(wgmma_case(form, random_way(rng, form)))
    return tuple(cases)


@cache
def placement_cases() -> tuple[Case, ...]:
    """Every swizzle with every major of A and B, every step in a swizzled row, and the flags."""
    half = wgmma.MmaAsync("m64n24k16", "bf16", "bf16", "f32")
    sparse = wgmma.MmaAsyncSparse("m64n24k32", "f16", "f16", "f32")
    byte = wgmma.MmaAsync("m64n24k32", "s8", "u8", "s32")
    cases = []
    for swizzle_a, swizzle_b, trans_a, trans_b in product(SWIZZLES, SWIZZLES, (False, True), (False, True)):
        way = Way(swizzle_a, swizzle_b, trans_a=trans_a, trans_b=trans_b)
        cases.append(wgmma_case(half, way))
        if trans_b or swizzle_b != "32B":
            cases.append(wgmma_case(sparse, replace(way, selector=len(cases) % 2)))
    for swizzle in SWIZZLES:
        for step in range(max(SWIZZLES[swizzle].width // 32, 1)):
            way = Way(swizzle, swizzle, step, step)
            cases += [
                wgmma_case(replace(form, a_registers=r), way) for form in (half, byte) for r in (False, True)
            ]
    cases += [wgmma_case(half, Way(scale_a=a, scale_b=b)) for a, b in product((1, -1), repeat=2)]
    cases += [wgmma_case(form, Way(accumulate=False)) for form in (half, sparse, byte)]
    return tuple(cases)


GROUPS: dict[str, Callable[[], tuple[Case, ...]]] = {
    "wmma": wmma_cases,
    "wmma fragments": fragment_cases,
    "mma.sync": sync_cases,
    "mma.sp": sparse_cases,
    "wgmma": lambda: wgmma_cases(False),
    "wgmma.sp": lambda: wgmma_cases(True),
    "wgmma placement": placement_cases,
}


@cache
def compiled(group: str) -> dict[str, Any]:
    kernels = Kernels()
    for number, case in enumerate(GROUPS[group]()):
        words = [array.size for array in case.arrays()]
        kernels.add(f"k{number}", words, case.threads, case.body, case.shared)
    return kernels.compile()
