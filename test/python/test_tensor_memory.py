"""`tile.tensor_memory` and what is in it, built in Python; and which instructions the layouts select."""

import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.tile_types import BufferType, FragmentType
from weft.isa.tcgen05 import copy as isa
from weft.isa.tcgen05.tensor_layouts import accumulator
from weft.layout import Layout
from weft.mlir import ir, operations
from weft.passes.builders.tensor_memory_moves import plan


@pytest.fixture
def module():
    with weft.Module() as module:
        yield module


def buffer(rows, columns, layout, space="tmem", element="f32"):
    return BufferType.of((rows, columns), ir.Type.parse(element), layout, space)


def sums(n):
    return buffer(128, n, accumulator(128, n))


def test_a_region_allocates_the_buffers_that_are_built_in_it(module):
    with tile.tensor_memory(warp=2, cta_group=2):
        first, second = tile.alloc(sums(96)), tile.alloc(sums(256))
        over = tile.alloc(sums(32), over=first)
    (op,) = operations(module.mlir, tile.TensorMemoryOp)
    assert (op.attribute("warp"), op.attribute("cta_group")) == (2, 2)
    assert op.starts == {first: 0, second: 96, over: 0}
    assert (op.columns, op.allocated) == (352, 512)


@pytest.mark.parametrize(
    ("columns", "allocated"), [((), 32), ((1,), 32), ((32,), 32), ((33,), 64), ((256, 128, 128), 512)]
)
def test_the_columns_are_rounded_up_to_a_power_of_two(module, columns, allocated):
    with tile.tensor_memory():
        for n in columns:
            tile.alloc(sums(n))
    assert operations(module.mlir, tile.TensorMemoryOp)[0].allocated == allocated


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"warp": "first"}, "'tile.tensor_memory' op warp must be an integer, got 'first'"),
        ({"warp": 2**40}, "'tile.tensor_memory' op warp must be an integer"),
        ({"warp": -1}, "'tile.tensor_memory' op warp must be in 0..31, got -1"),
        ({"cta_group": None}, "'tile.tensor_memory' op cta_group must be an integer, got None"),
        ({"cta_group": 4}, "'tile.tensor_memory' op cta_group must be 1 or 2, got 4"),
    ],
)
def test_arguments_are_checked_and_no_operation_is_left(module, arguments, message):
    with pytest.raises(weft.WeftError, match=message), tile.tensor_memory(**arguments):
        pass
    assert not operations(module.mlir, tile.TensorMemoryOp)


def test_buffers_that_do_not_fit_are_refused_with_their_sizes(module):
    with (
        pytest.raises(weft.WeftError, match=r"at most 512 columns, got 544 \(512 \+ 32\)"),
        tile.tensor_memory(),
    ):
        tile.alloc(sums(512))
        tile.alloc(sums(32))


def test_a_function_outside_of_a_module_says_so():
    with pytest.raises(weft.WeftError, match="must be built in a module"), tile.tensor_memory():
        pass


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: tile.copy_tmem(b, b), "expects a source in 'shared' and a destination in 'tmem' memory"),
        (lambda b: tile.copy_tmem(1, b), "expects operands to be MLIR values, got 1"),
        (lambda b: tile.alloc(b.type, over=3), "expects operands to be MLIR values, got 3"),
        (lambda b: tile.peer(b, b), "expects a buffer in the CTA's own shared memory"),
    ],
)
def test_mistakes_with_buffers_are_reported(module, build, message):
    with pytest.raises(weft.WeftError, match=message), tile.tensor_memory():
        build(tile.alloc(sums(32)))


FORMS = [form for form in isa.LD.forms() if form.num <= 32 and "<128x" not in form.operands[0].type]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_instruction_is_found_by_its_own_layout(module, form):
    """A fragment as the instruction holds it, in each warp of a warpgroup."""
    data = form.operands[0]
    layout, halves = Layout.parse(data.layout), len(data.shape) == 3
    shape = (data.shape[-2], data.shape[-1] * (2 if halves else 1))
    if halves:  # the second half of the columns belongs to the other lanes
        half, row, *column = layout.shard
        layout = Layout((row, half, *column))
    element, step = ("f16", 2) if form.pack else ("f32", 1)
    kind = FragmentType.of(shape, ir.Type.parse(element), layout)
    memory = f"S[({shape[0]},{shape[1]}):(1@TLane,{step}@TCol)]"
    chosen = plan(kind, buffer(*shape, memory, element=element))
    moves = [(move.shape, move.num, chosen.words.packed) for move in chosen.moves]
    assert moves == [(form.shape, form.num, form.pack)]
    registers = np.concatenate([move.registers for move in chosen.moves])
    assert sorted(registers) == list(range(chosen.words.registers))
