"""The kernels of test_rows_gpu.py without a GPU: they are assembled, and the emulator runs what it knows."""

from itertools import product

import numpy as np
import pytest
from row_cases import GROUPS, by_name, compiled, rows_of, width
from row_kernels import CHIP, WARPGROUP
from row_operands import LANES, from_registers, operands, stage, to_registers

from weft import emulator
from weft.isa import mma, wgmma, wmma
from weft.isa.wgmma.descriptors import SWIZZLES

EACH = pytest.mark.parametrize("group", GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[] if g == "mma.sp" else [pytest.mark.slow]) for g in GROUPS]
)
def test_the_kernels_assemble(group):
    kernels = compiled(group)
    assert len(kernels) == len(GROUPS[group]())
    assert all(kernel.cubin for kernel in kernels.values())
    assert all(kernel.resources.spill_stores == 0 for kernel in kernels.values())


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[pytest.mark.slow] if g.startswith("wgmma") else []) for g in GROUPS]
)
def test_the_emulator_gives_the_numbers_of_numpy(group):
    kernels = compiled(group)
    loaded = emulator.Module(kernels["k0"].ptx)
    faults = []
    for number, case in enumerate(GROUPS[group]()):
        arrays = case.arrays()
        args = [word for array in arrays for word in (array, array, *map(np.int64, (0, array.size, 1)))]
        report = loaded.launch(f"k{number}", grid=1, block=case.threads, args=args)
        assert not report.findings, report.findings
        faults.append(case.fault(arrays))
    assert [fault for fault in faults if fault] == []


@pytest.mark.sampled(8)
@EACH
def test_a_wrong_number_is_seen(group):
    for case in GROUPS[group]()[:3]:
        arrays = case.arrays()
        assert case.fault(arrays)


@pytest.mark.slow
def test_every_shape_and_type_of_the_chip_is_there():
    want = {
        "wmma": {(f.shape, f.a_type, f.d_type) for f in wmma.MMA.forms(CHIP)},
        "mma.sync": {(f.shape, f.a_type, f.b_type, f.d_type) for f in mma.SYNC.forms(CHIP)},
        "mma.sp": {(f.shape, f.a_type, f.b_type, f.d_type) for f in mma.SPARSE.forms(CHIP)},
        "wgmma": {(f.shape, f.a_type) for f in wgmma.MMA_ASYNC.forms(CHIP)},
        "wgmma.sp": {(f.shape, f.a_type) for f in wgmma.MMA_ASYNC_SPARSE.forms(CHIP)},
    }
    for group, cells in want.items():
        names = [case.name for case in GROUPS[group]()]
        assert len(names) >= len(cells)
        for shape, *types in cells:
            assert any(f".{shape}." in name and all(t in name for t in types) for name in names), (
                shape,
                types,
            )


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@EACH
def test_registers_hold_the_whole_matrix(group):
    """What is put into registers comes out again."""
    for family, threads in ((mma.SYNC, LANES), (mma.SPARSE, LANES), (wgmma.MMA_ASYNC, WARPGROUP)):
        if not group.startswith(family.name.partition("_")[0].removesuffix(".mma")):
            continue
        for form in family.forms(CHIP):
            for operand, kind in ((by_name(form)["a"], form.a_type), (by_name(form)["d"], form.d_type)):
                if operand.layout and width(kind) >= 8 and "n256" not in form.shape:
                    count = int(np.prod(operand.shape))
                    codes = np.arange(count, dtype=np.uint64).reshape(operand.shape) % (
                        1 << min(width(kind), 32)
                    )
                    words = to_registers(codes, operand, width(kind), threads)
                    assert np.array_equal(from_registers(words, operand, width(kind)), codes)


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("transposed", [False, True], ids=["K", "MN"])
def test_a_descriptor_leads_to_every_element(swizzle, transposed):
    """The canonical layouts of 16-bit types, in units of 16 bytes, followed from what the descriptor says."""
    mn, k = 64, 16
    codes = np.arange(mn * k, dtype=np.uint64).reshape(mn, k)
    staged = stage(rows_of(codes, 16, transposed), swizzle, transposed=transposed)
    unit = SWIZZLES[swizzle].width // 16
    for row, column in product(range(mn), range(k)):
        if not transposed:
            # ((8, m), (T, 2)) : ((width, SBO), (1, LBO or T))
            place = row % 8 * unit * 16 + row // 8 * staged.stride + column % 8 * 2
            place += column // 8 * (staged.leading if swizzle == "none" else 16)
        else:
            # ((T, width, m), (8, k)) : ((1, T, LBO), (width, SBO)); without a swizzle LBO and SBO swap
            panel, group = staged.leading, staged.stride
            if swizzle == "none":
                panel, group = group, panel
            place = row % (8 * unit) * 2 + row // (8 * unit) * panel
            place += column % 8 * unit * 16 + column // 8 * group
        bits = {"none": 0, "32B": 1, "64B": 2, "128B": 3}[swizzle]
        place ^= place >> 3 & ((1 << bits) - 1) << 4
        assert staged.image[place : place + 2].view(np.uint16)[0] == codes[row, column]


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "s8", "e4m3", "s4"])
def test_metadata_identifies_the_stored_elements(name):
    """A sparse A comes back from its stored half and the indices, as PTX describes them."""
    form = next(f for f in mma.SPARSE.forms(CHIP) if f.a_type == f.b_type == name)
    m, n, k = form.mnk
    given = operands(form, m, n, k, sparse=True)
    size = {"tf32": 2, "s4": 8}.get(name, 4)
    whole = np.zeros((m, k))
    for row, index in product(range(m), range(k // size)):
        code = int(given.metadata[row, index])
        low, high = code & 3, code >> 2
        assert low < high
        half = given.stored[row, index * size // 2 : (index + 1) * size // 2]
        part = whole[row, index * size : (index + 1) * size]
        if size == 2:
            assert (low, high) in ((0, 1), (2, 3))
            part[low // 2] = half[0]
        elif size == 4:
            part[low], part[high] = half
        else:
            part[2 * low : 2 * low + 2], part[2 * high : 2 * high + 2] = half[:2], half[2:]
    assert np.array_equal(whole, given.a)
