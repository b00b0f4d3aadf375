"""Products for `wgmma`, and for `mma.sync` with TMA, whose rows of D, C and the residual begin at any
element, in the emulator with its sanitizer.
"""

from dataclasses import dataclass, fields, replace

import ml_dtypes
import numpy as np
import pytest
from launches import complaint
from machine_code import local_memory
from products import Case, Placed, Product
from test_warpgroup_schedules import of

import weft
from weft.schedules import choice

BF16, HALVES = ("bf16", "bf16", "bf16"), ("f16", "f16", "f32")
BYTES, NARROW = ("i8", "i8", "i32"), ("f8E4M3FN", "f8E5M2", "f8E4M3FN")
COPIES = "cp.async.bulk.tensor"


@pytest.mark.each_value(1)
@dataclass(frozen=True)
class AnyRows(Product):
    """A product whose rows of A and B alone are aligned for TMA."""

    def operands(self, case: Case) -> dict[str, Placed]:
        """Those of a product with aligned rows, elsewhere in memory."""
        return {
            role: placed if role in ("a", "b") else Placed(placed.values, "shifted")
            for role, placed in super().operands(case).items()
        }

    @classmethod
    def of(cls, made: Product) -> "AnyRows":
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})


PLAIN = (
    Product(*BF16, of(128, 64, 64)),
    Product(*BF16, of(64, 256, 64, 1, 3)),
    Product(*BF16, of(64, 24, 64, 1, 4, swap=True)),
    Product(*BF16, of(128, 80, 128, stages=2)),
    Product(*BF16, of(128, 64, 64, cluster=(1, 2))),
    Product(*BF16, of(64, 64, 128, 1, 2, splits=2)),
    Product(*BF16, of(64, 64, 64, 1, 4, global_splits=2)),
    Product(*HALVES, of(128, 64, 64)),
    Product(*BYTES, of(128, 32, 128)),
    Product(*NARROW, of(128, 64, 128)),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", of(128, 64, 128, stages=2), promote=True),
    Product(*BF16, of(128, 64, 64), transposed=(True, False)),
)
SUMS = replace(PLAIN[0], beta=1.0, added=(("c", "bf16"),))
MORE = (
    SUMS,
    replace(PLAIN[0], added=(("bias", "f32"), ("residual", "bf16")), activation="gelu_tanh"),
    replace(PLAIN[2], added=(("residual", "f32"),)),
    replace(PLAIN[0], many="batch"),
    replace(SUMS, many="rows"),
    replace(PLAIN[0], many="masked"),
)
SIZES = ((131, 67, 72), (66, 129, 64), (5, 1, 8))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("made", [*PLAIN, *MORE], ids=str)
def test_rows_begin_anywhere(made: Product) -> None:
    product = AnyRows.of(made)
    kernel = weft.compile(product.module(), "sm_90a")
    assert not local_memory(kernel)
    for shape in SIZES if not made.many else SIZES[:1]:
        case = Case(shape, "integers")
        operands = product.operands(case)
        assert kernel.taking(*(each.values for each in operands.values())) is kernel
        assert complaint(product, case, kernel, "emulator") is None


@pytest.mark.slow
def test_rows_begin_anywhere_in_kernels_for_warps() -> None:
    made = Product(*BF16, beta=1.0, added=(("c", "bf16"),))
    product = AnyRows.of(replace(made, schedule=choice.choose(131, 67, 72, made.types, "sm_120a")))
    kernel = weft.compile(product.module(), "sm_120a")
    assert kernel.launch.aligned == (16, 16, 1, 1)
    assert complaint(product, Case(SIZES[0], "integers"), kernel, "emulator") is None


def test_tma_stores_aligned_rows_only() -> None:
    kernel = weft.compile(PLAIN[0].module(), "sm_90a")
    assert kernel.launch.aligned == (16, 16, 1) and kernel.launch.maps[-1].any_rows
    case = Case((128, 68, 64), "integers")  # two tiles, of which only the first can be stored by TMA
    counts = []
    for kind in (Product, AnyRows):
        product = kind(**{each.name: getattr(PLAIN[0], each.name) for each in fields(Product)})
        report = kernel.emulate(*(placed.values for placed in product.operands(case).values()))
        counts.append(report.counters[COPIES])
    assert counts[1] == counts[0] - 2  # one for each warpgroup


@pytest.mark.each_value(1)
@pytest.mark.parametrize("columns", [45, 24])
def test_rows_of_d_are_stored_from_each_distance_to_an_aligned_vector(columns: int) -> None:
    kernel = weft.compile(PLAIN[2].module(), "sm_90a")
    a, b = (np.arange(8 * n, dtype=np.float32).reshape(n, 8) % 5 - 2 for n in (66, columns))
    wanted, size = (a @ b.T).astype(ml_dtypes.bfloat16), 66 * columns
    for before in range(8):
        memory = np.full(size + 16, 7, ml_dtypes.bfloat16)
        d = memory[before : before + size].reshape(wanted.shape)
        kernel.emulate(a.astype(d.dtype), b.astype(d.dtype), d)
        assert (d == wanted).all()
        assert (memory[:before] == 7).all() and (memory[before + size :] == 7).all()
