"""`wmma` of elements smaller than a byte, from rows with gaps, against NumPy."""

import numpy as np
import pytest
from emulator_ptx import module

KERNEL = """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{ .reg .b64 %l<4>; .reg .b32 %r<9>;
  ld.param.u64 %l1, [a]; ld.param.u64 %l2, [b]; ld.param.u64 %l3, [c];
  wmma.load.a.sync.aligned.row.{shape}.global.{type} {{%r1}}, [%l1], {stride};
  wmma.load.b.sync.aligned.col.{shape}.global.{type} {{%r2}}, [%l2], {stride};
  wmma.load.c.sync.aligned.row.{shape}.global.s32 {{%r3, %r4}}, [%l3], 8;
  wmma.mma{op}.sync.aligned.row.col.{shape}.s32.{type}.{type}.s32
    {{%r5, %r6}}, {{%r1}}, {{%r2}}, {{%r3, %r4}};
  wmma.store.d.sync.aligned.row.{shape}.global.s32 [%l3], {{%r5, %r6}}, 8;
  ret; }}"""


def packed(matrix, bits):
    """Rows of elements as bytes, the lowest bits first, each row followed by as many bytes of ones."""
    ones = (matrix[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(len(matrix), -1)
    lines = np.packbits(ones, axis=1, bitorder="little")
    return np.concatenate([lines, np.full_like(lines, 0xFF)], axis=1)


def product(kind, k, a, b, c, op=""):
    bits = int(kind[1:])
    text = KERNEL.format(shape=f"m8n8k{k}", type=kind, stride=2 * k, op=op)
    given = c.copy()
    module(text).launch("k", block=32, args=[packed(a, bits), packed(b, bits), given])
    return given


def operands(low, high, k):
    rng = np.random.default_rng(2)
    shapes = (low, high, (8, k)), (low, high, (8, k)), (-99, 99, (8, 8))
    return [rng.integers(*given, dtype=np.int32) for given in shapes]


@pytest.mark.parametrize(("kind", "low", "high"), [("u4", 0, 16), ("s4", -8, 8)])
def test_nibbles(kind, low, high):
    a, b, c = operands(low, high, 32)
    assert (product(kind, 32, a, b, c) == a @ b.T + c).all()


@pytest.mark.parametrize(("op", "function"), [(".xor.popc", np.bitwise_xor), (".and.popc", np.bitwise_and)])
def test_bits(op, function):
    a, b, c = operands(0, 2, 128)
    want = function(a[:, None], b[None]).sum(axis=2) + c
    assert (product("b1", 128, a, b, c, op) == want).all()
