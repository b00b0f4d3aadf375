"""For every layout that the passes accept, TMA writes and wgmma reads as the layout specifies."""

import numpy as np
import pytest
from layout_places import octets
from test_gemm_async_operands import BASE, Stage
from test_tma_pieces import tile_of, written

import weft
from weft.dialects.tile import BufferType
from weft.mlir import ir
from weft.passes.builders.wgmma_operands import SharedOperand
from weft.passes.lower_tma import pieces_of

TILES = [
    ((64, 16), "S[(64,16):(16,1)] xor 128B"),
    ((64, 32), "S[(64,32):(32,1)] xor 128B"),
    ((8, 16), "S[(8,16):(16,1)] xor 64B"),
    ((4, 16), "S[(4,2,8):(8,32,1)]"),
    ((257, 8), "S[(257,8):(8,1)]"),
]


@pytest.mark.parametrize(("shape", "layout"), TILES)
def test_tma_writes_as_the_layout_specifies(shape, layout):
    with weft.Module():
        kind = tile_of(*shape, 2, layout)
        pieces = pieces_of(kind)
        assert isinstance(pieces, str) or np.array_equal(written(kind, pieces), octets(kind, BASE))


def test_panels_at_two_distances_are_refused_or_read():
    with weft.Module() as module, module.func("f", [weft.memref("?x?", "f32")]) as (matrix,):
        del matrix
        kind = BufferType.of((64, 256), ir.F16Type.get(), "S[(64,2,2,64):(64,4096,8192,1)] xor 128B")
        stage = Stage(256, 64, 256, mn_major=True)
        operand = SharedOperand.of(kind, True)
        if isinstance(operand, str):
            return
        assert np.array_equal(stage.read(operand), octets(kind, BASE).transpose(1, 0, 2))
