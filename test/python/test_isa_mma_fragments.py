"""The fragments of `mma` and of moves are bijections, and equal to those of the PTX manual."""

from dataclasses import replace
from itertools import product

import pytest
from test_isa_mma import FORMS, by_family, operand, sparse, sync

from weft.isa.family import Registers
from weft.isa.types import ELEMENT_TYPES
from weft.layout import Layout


def element_bits(form, name: str) -> int:
    """The bits of an element in an operand's registers, as the PTX manual tells it."""
    if not hasattr(form, "a_type"):
        return 16 if form.type == "b16" else 8
    if name.startswith(("metadata", "scale")):
        return 4 if name == "metadata" else 8
    kind = getattr(form, f"{name}_type")
    packed = "mxf4" in getattr(form, "kind", "")
    return 8 if kind in ("e3m2", "e2m3") or (kind == "e2m1" and not packed) else ELEMENT_TYPES[kind].bits


def fragment_fault(registers: Registers, bits: int) -> str | None:
    """Why a fragment doesn't hold each element of its tile once, in registers that it fills."""
    width = 64 if registers.type == "f64" else 32
    layout, each = Layout.parse(registers.layout), registers.count * width // bits
    if layout.size != len(list(product(*map(range, registers.shape)))):
        return f"{layout} isn't of shape {registers.shape}"
    if registers.name == "metadata" or registers.name.startswith("scale"):
        places = [tuple(sorted(layout.apply(i).items())) for i in range(layout.size)]
        fits = all(dict(place)["laneid"] < 32 and dict(place)["m"] < each for place in places)
        return None if len(set(places)) == layout.size and fits else f"{layout} overlaps or overflows"
    return None if layout.is_bijective({"laneid": 32, "m": each}) else f"{layout} isn't 32 lanes x {each}"


@pytest.mark.sampled(6)
@by_family
def test_fragments_hold_each_element_once_and_fill_their_registers(family):
    faults = [
        (form.ptx, registers.name, fault)
        for form in family.forms()
        for registers in form.operands
        if registers.layout and (fault := fragment_fault(registers, element_bits(form, registers.name)))
    ]
    assert not faults


def test_every_matrix_operand_has_a_fragment():
    plain = {"selector", "address", "byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b"}
    for _, form in FORMS:
        assert {o.name for o in form.operands if not o.layout} <= plain


def test_a_fragment_that_is_no_bijection_is_caught():
    d = sync().operands[0]
    assert fragment_fault(d, 32) is None
    assert fragment_fault(replace(d, layout="S[(2,8,4,2):(2,4@laneid,2@laneid,1)]"), 32)
    assert fragment_fault(replace(d, count=8), 32)
    assert fragment_fault(replace(d, shape=(16, 16)), 32)
    metadata = operand(sparse(), "metadata")
    assert fragment_fault(replace(metadata, layout="S[(2,8,1,4):(2,4@laneid,1@laneid,1)]"), 4)


def held(registers: Registers, lane: int) -> list[tuple[int, ...]]:
    return Layout.parse(registers.layout).lane_elements(lane, registers.shape)


@pytest.mark.parametrize("lane", range(32))
def test_fragments_are_those_of_the_ptx_manual(lane):
    """Rows and columns as the manual computes them, `groupID = lane >> 2`, `threadID_in_group = lane % 4`."""
    group, thread = lane >> 2, lane % 4
    d, a, b, _ = sync().operands
    rows = [group if i < 2 or 4 <= i < 6 else group + 8 for i in range(8)]
    columns = [thread * 2 + (i & 1) + (8 if i >= 4 else 0) for i in range(8)]
    assert held(a, lane) == list(zip(rows, columns, strict=True))
    assert held(b, lane) == [(thread * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)]
    assert held(d, lane) == [(group + (8 if i >= 2 else 0), thread * 2 + (i & 1)) for i in range(4)]

    d, a, b, _ = sync("m16n8k32", "s8", "s32").operands
    rows = [group if i < 4 or 8 <= i < 12 else group + 8 for i in range(16)]
    columns = [thread * 4 + (i & 3) + (16 if i >= 8 else 0) for i in range(16)]
    assert held(a, lane) == list(zip(rows, columns, strict=True))
    assert held(b, lane) == [(thread * 4 + (i & 3) + (16 if i >= 4 else 0), group) for i in range(8)]

    d, a, b, _ = sync("m16n8k16", "f64", "f64").operands
    columns = [i * 2 + thread if i % 2 == 0 else i * 2 - 2 + thread for i in range(8)]
    assert held(a, lane) == [(group + 8 * (i % 2), column) for i, column in enumerate(columns)]
    assert held(b, lane) == [(i * 4 + thread, group) for i in range(4)]


@pytest.mark.parametrize("lane", range(32))
def test_fragments_of_m8n8k4_are_those_of_the_ptx_manual(lane):
    """Four products in pairs of quads: the first number is which."""
    quad, half, low = lane % 16 // 4, lane // 16, lane % 4
    form = sync("m8n8k4", c_type="f16")
    rows = [low + 4 * half] * 4
    assert held(form.operands[1], lane) == [(quad, row, i) for i, row in enumerate(rows)]
    assert held(replace(form, a_layout="col").operands[1], lane) == [
        (quad, i + 4 * half, low) for i in range(4)
    ]
    assert held(form.operands[2], lane) == [(quad, i, low + 4 * half) for i in range(4)]
    assert held(replace(form, b_layout="row").operands[2], lane) == [
        (quad, low, i + 4 * half) for i in range(4)
    ]
    assert held(form.operands[3], lane) == [(quad, low + 4 * half, i) for i in range(8)]
    spread = [((lane & 1) + (i & 2) + 4 * half, (i & 4) + (lane & 2) + (i & 1)) for i in range(8)]
    assert held(form.operands[0], lane) == [(quad, *place) for place in spread]


def test_metadata_lies_where_an_h200_reads_it():
    """By flipping one index at a time: the row (of 0 and 8) and chunk of each lane's nibbles, in quad 0."""

    def nibbles(form, lane):
        return held(operand(form, "metadata"), lane)

    halves = [
        [(0, c) for c in range(4)] + [(8, c) for c in range(4)],
        [(r, c) for r in (0, 8) for c in range(4, 8)],
    ]
    assert [nibbles(sparse(), lane) for lane in range(2)] == [halves[0], []]
    assert [nibbles(sparse("m16n8k32"), lane) for lane in range(3)] == [*halves, []]
    assert [nibbles(sparse("m16n8k16", "tf32"), lane) for lane in range(3)] == [*halves, []]
    rows = [[(row, c) for c in chunks] for chunks in (range(8), range(8, 16)) for row in (0, 8)]
    for inputs, shape in (("s8", "m16n8k32"), ("u4", "m16n8k64")):
        assert [nibbles(sparse(shape, inputs, "s32"), lane) for lane in range(3)] == [*rows[:2], []]
    for inputs, shape in (("s8", "m16n8k64"), ("s4", "m16n8k128"), ("e4m3", "m16n8k64")):
        assert [nibbles(sparse(shape, inputs), lane) for lane in range(4)] == rows


def words(elements: int, kind: str, form) -> int:
    """How many registers hold `elements`: the manual's rule, told without the table."""
    if kind in ("f32", "s32", "f64", "tf32"):
        return elements
    packed = "mxf4" in getattr(form, "kind", "")
    bits = 8 if kind in ("e3m2", "e2m3") or (kind == "e2m1" and not packed) else ELEMENT_TYPES[kind].bits
    return max(elements * bits // 32, 1)


@by_family
def test_register_counts_are_what_ptx_counts(family):
    for form in family.forms():
        if not hasattr(form, "a_type"):
            continue
        m, n, k = form.mnk
        if form.shape == "m8n8k4" and form.a_type == "f16":
            m, n, k = 2 * m, 2 * n, 2 * k  # four products, so every lane holds four times as much
        stored = k // 2 if "metadata" in form.assembly else k
        sizes = {"d": m * n, "a": m * stored, "b": k * n, "c": m * n}
        for name, size in sizes.items():
            kind = getattr(form, f"{name}_type")
            assert operand(form, name).count == words(size // 32, kind, form), form.ptx
