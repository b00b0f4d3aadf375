"""Groups of rows, and of parts of K, given by their ends: in the emulator with its sanitizer."""

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.schedule import (
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
    WmmaSchedule,
)
from weft.passes.kernels import epilogue

RNG = np.random.default_rng(5)
KINDS = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "i32": np.int32,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}
CHIPS = {
    WarpgroupSchedule: "sm_90a",
    TensorMemorySchedule: "sm_100a",
    TmaMmaSchedule: "sm_120a",
    Schedule: "sm_89",
    WmmaSchedule: "sm_80",
}
COUNTS = [(100, 0, 128, 31), (0, 1, 0, 129, 2, 7), (64, 256)]


def of(m, n, k=64, warpgroups=1, stages=3, **fields):
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)


def exact(*shape, of="bf16"):
    """Integers whose sums are exact."""
    return RNG.integers(-2, 3, shape).astype(KINDS[of])


def doubles(x):
    return x.astype(np.float64)


@dataclass(frozen=True)
class Case:
    """A product with a schedule: the types of A, B and D, and whether A and B are K-major."""

    schedule: object
    inputs: str = "bf16"
    output: str = "f32"
    k_major: tuple[bool, bool] = (True, True)
    promote: bool = False
    beta: float = 0.0

    def kernel(self, role, ranks):
        with weft.Module() as module:
            kinds = [weft.memref("x".join("?" * r), t) for r, t in zip(ranks, self.types, strict=True)]
            with module.func("product", [*kinds, weft.memref("?", "i32")]) as (a, b, d, ends):
                flags = {"transpose_a": not self.k_major[0], "transpose_b": self.k_major[1]}
                options = {"promote": self.promote, "beta": self.beta, role: ends}
                tile.matmul(a, b, d, schedule=self.schedule, **flags, **options)
        return weft.compile(module, arch=CHIPS[type(self.schedule)])

    @property
    def types(self):
        return self.inputs, self.inputs, self.output


def clean(report):
    assert not report.findings, report.findings[0]


def check_rows(case, counts, n=40, k=72, unused=70):
    """Rows of each group are the product with its B, plus beta times the old ones, and those after the last
    group's are as before.
    """
    ends = reference.ends(counts)
    height = -(-(ends[-1] + unused) // 16) * 16  # rows of an A that is MN-major
    a, b = exact(height, k, of=case.inputs), exact(len(counts), n, k, of=case.inputs)
    d, stored = np.full((height, n), 99, KINDS[case.output]), a if case.k_major[0] else a.T.copy()
    clean(case.kernel("row_ends", (2, 3, 2)).emulate(stored, b, d, ends))
    for number, rows in enumerate(reference.spans(ends)):
        want = doubles(a[rows]) @ doubles(b[number]).T + case.beta * 99
        assert (doubles(d[rows]) == want).all(), number
    assert (d[ends[-1] :] == 99).all()


def check_k(case, counts, m=72, n=48):
    """Each matrix of D is the product of its part of K, plus beta times the old one. What follows the last
    part isn't read, and what follows another one isn't multiplied.
    """
    unit = 128 if case.promote else 1
    ends = reference.ends(counts, unit)
    depth = -(-int(ends[-1]) // unit) * unit
    a, b = (np.full((extent, depth + 32), np.nan).astype(KINDS[case.inputs]) for extent in (m, n))
    a[:, :depth] = b[:, :depth] = 0
    for span in reference.spans(ends, unit):
        for x in (a, b):
            x[:, span] = exact(*x[:, span].shape, of=case.inputs)
    d = exact(len(counts), m, n, of=case.output)
    parts = reference.spans(ends, unit)
    want = [doubles(a[:, s]) @ doubles(b[:, s]).T for s in parts] + case.beta * doubles(d)
    stored = (x if k_major else x.T.copy() for x, k_major in zip((a, b), case.k_major, strict=True))
    clean(case.kernel("k_ends", (2, 2, 3)).emulate(*stored, d, ends))
    assert (doubles(d) == want).all()


SCHEDULES = [
    of(128, 64, warpgroups=2),
    of(64, 64, cluster=(2, 1)),
    of(64, 64, cluster=(1, 2)),
    of(64, 32, cluster=(2, 2)),
    of(128, 16, swap=True, warpgroups=2),
    of(64, 64, swap=True, cluster=(2, 1)),
    of(64, 48, group=2),
]
OTHERS = [
    TensorMemorySchedule((128, 64, 64), 2, 3),
    TensorMemorySchedule((128, 32, 64), 1, 2, swap=True),
    TmaMmaSchedule((64, 64, 64), (2, 2), 3),
    Schedule((64, 64, 64), (2, 2), 3),
    Schedule((128, 32, 32), (4, 1), 2),
    WmmaSchedule((64, 64, 64), (2, 2), 2),
]


@pytest.mark.each_value(1)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("schedule", [*SCHEDULES, *OTHERS], ids=str)
def test_rows_of_groups_with_ends(schedule, counts):
    check_rows(Case(schedule, beta=float(counts == COUNTS[1])), counts)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("output", ["f32", "bf16"])
@pytest.mark.parametrize("counts", COUNTS[:2], ids=str)
@pytest.mark.parametrize("schedule", [*SCHEDULES, *OTHERS], ids=str)
def test_rows_of_groups_of_a_matrix_that_is_mn_major(schedule, counts, output):
    """Copies begin before most groups, at multiples of 16 bytes."""
    check_rows(Case(schedule, output=output, k_major=(False, True), beta=float(output == "f32")), counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "output", "k", "promote"),
    [
        ("f8E4M3FN", "f32", 128, True),
        ("f16", "bf16", 64, False),
        ("f32", "f32", 32, False),
        ("i8", "i32", 64, False),
    ],
)
def test_rows_of_other_types(inputs, output, k, promote):
    check_rows(Case(of(64, 32, k), inputs, output, promote=promote), COUNTS[0], k=208)


@pytest.mark.each_value(1)
@pytest.mark.sampled(5)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("k_major", [(True, True), (False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(
    "schedule",
    [of(128, 64, warpgroups=2), of(64, 64, 192), of(128, 128, warpgroups=2, cluster=(1, 2)), of(64, 64)],
    ids=str,
)
def test_parts_of_k_with_ends(schedule, k_major, counts):
    check_k(Case(schedule, k_major=k_major, beta=1.0), counts, m=136)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("schedule", [*SCHEDULES, *OTHERS], ids=str)
def test_parts_of_k_in_every_kernel(schedule, counts, beta):
    check_k(Case(schedule, beta=beta), counts)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("fields", [{"cta_group": 2}, {"cluster": (1, 2)}, {"cluster": (2, 1)}], ids=str)
def test_parts_of_k_of_pairs_and_clusters_of_tcgen05(fields):
    pairs = fields.get("cta_group", 1) == 2  # which don't set elements to zero
    block, inputs = (256, 64, 128) if pairs else (128, 64, 64), "f8E4M3FN" if pairs else "bf16"
    schedule = TensorMemorySchedule(block, 2, 3, **fields)
    check_k(Case(schedule, inputs, promote=pairs, beta=1.0), COUNTS[0], m=264)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("block", [None, 128])
def test_rows_of_groups_with_block_scales(block):
    ends = reference.ends([100, 0, 30], 128)
    a, b = (reference.quantize(RNG.standard_normal(shape), "mxfp8") for shape in ((256, 128), (3, 32, 128)))
    scales, given = (a.tiled_scales, b.tiled_scales), {"transpose_b": True, "out_dtype": "f32"}
    want = a.values, b.values
    if block:
        powers = [np.exp2(RNG.integers(-2, 3, (*x.shape[:-1], 1))) for x in (a.elements, b.elements)]
        powers = [each.astype(ml_dtypes.float8_e8m0fnu) for each in powers]
        scales = tuple(reference.packed_scales(each) for each in powers)
        scales = tuple(each.swapaxes(-1, -2).copy().swapaxes(-1, -2) for each in scales)
        want = [doubles(x.elements) * doubles(each) for x, each in zip((a, b), powers, strict=True)]
        given["scale_block"] = block
    found = weft.matmul(a.elements, b.elements, scales=scales, row_ends=ends, **given)
    for number, span in enumerate(reference.spans(ends, 128)):
        np.testing.assert_allclose(found[span], want[0][span] @ want[1][number].T, rtol=1e-5, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "inputs", "promote"),
    [
        (of(64, 64, 128), "bf16", False),
        (of(64, 32, 32), "f16", False),
        (of(64, 32, 32), "f32", False),
        (of(64, 64, 128), "f8E4M3FN", False),
        (of(64, 64, 128), "f8E4M3FN", True),
        (of(128, 64, 128), "f8E4M3FN", True),
        (of(128, 64, 128, 2), "f8E4M3FN", True),
        (TensorMemorySchedule((128, 64, 128), 2, 3), "f8E4M3FN", True),
        (Schedule((64, 64, 128), (2, 2), 3), "f8E4M3FN", True),
    ],
    ids=str,
)  # fmt: skip
def test_parts_of_k_of_other_types(schedule, inputs, promote):
    check_k(Case(schedule, inputs, promote=promote, beta=1.0), (384, 0, 100, 260))


@pytest.mark.slow
@pytest.mark.sampled(12)
@pytest.mark.parametrize("k_major", [(True, True), (False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(
    ("inputs", "k", "promote"), [("f8E4M3FN", 128, True), ("f8E4M3FN", 64, False), ("f32", 32, False)]
)
def test_ends_in_kernels_of_mma_sync_with_tma(inputs, k, promote, k_major):
    case = Case(TmaMmaSchedule((64, 64, k), (2, 2), 3), inputs, k_major=k_major, promote=promote, beta=1.0)
    check_k(case, (384, 0, 100, 260), m=80)
    if all(k_major):
        check_rows(replace(case, beta=0.0), COUNTS[0], k=208)


def test_ends_that_make_no_sense_end_the_kernel_all_the_same():
    """As on a GPU, where nobody reads them first: they are those of the nearest groups inside."""
    case = Case(SCHEDULES[0])
    a, b, d = exact(300, 72), exact(4, 40, 72), np.zeros((300, 40), np.float32)
    clean(case.kernel("row_ends", (2, 3, 2)).emulate(a, b, d, np.array([-5, 200, 2**31 - 1, 7], np.int32)))
    assert (d[:200] == doubles(a[:200]) @ doubles(b[1]).T).all()
    assert (d[200:] == doubles(a[200:]) @ doubles(b[2]).T).all()


def test_rows_that_are_stored_after_their_group_are_caught(monkeypatch):
    monkeypatch.setattr(epilogue, "with_rows", lambda matrix, _: matrix)
    with pytest.raises(AssertionError):
        check_rows(Case(OTHERS[3]), COUNTS[0])


GROUPS_OF_K = Types("bf16", "bf16", "f32", grouped=True, k_groups=True)
PACKED = replace(GROUPS_OF_K, a="f6E2M3FN", b="f6E2M3FN")


@pytest.mark.parametrize(
    ("schedule", "types", "said"),
    [
        (of(64, 64, 192), GROUPS_OF_K, None),
        (of(64, 64, splits=2), GROUPS_OF_K, "splits must be 1 with groups, got 2"),
        (of(64, 64, global_splits=2), GROUPS_OF_K, "global_splits must be 1 with groups, got 2"),
        (of(192, 64, warpgroups=3), GROUPS_OF_K, None),
        (TensorMemorySchedule((128, 64, 256), 1, 2), PACKED, "block K must divide 128 with k_ends, got 256"),
        (TensorMemorySchedule((256, 64, 64), 1, 2, cta_group=2), GROUPS_OF_K, "cta_group must be 1 with k_"),
        (TensorMemorySchedule((128, 64, 64), 1, 2, dynamic=True), GROUPS_OF_K, "dynamic must be false with"),
        (Schedule((64, 64, 64), (2, 2), 2), GROUPS_OF_K, None),
        (TmaMmaSchedule((64, 64, 192), (2, 2), 2), GROUPS_OF_K, None),
    ],
    ids=str,
)  # fmt: skip
def test_schedules_of_parts_of_k(schedule, types, said):
    found = schedule.complaint(types)
    assert found is None if said is None else said in (found or ""), found


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [(True, False), (False, True)])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_gradients_of_weights_by_weft_matmul(transposed, counts):
    ends = reference.ends(counts)
    a, b = (np.zeros((int(ends[-1]), extent), KINDS["bf16"]) for extent in (72, 40))
    for span in reference.spans(ends):
        a[span], b[span] = exact(*a[span].shape), exact(*b[span].shape)
    before = exact(len(counts), 72, 40, of="f32")
    out, flags = before.copy(), {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    given = [
        x.T.copy() if flip else x for x, flip in zip((a, b), (not transposed[0], transposed[1]), strict=True)
    ]
    weft.matmul(*given, **flags, k_ends=ends, out=out, beta=1.0)
    for number, span in enumerate(reference.spans(ends)):
        assert (out[number] == before[number] + doubles(a[span]).T @ doubles(b[span])).all()
    assert weft.matmul(*given, **flags, k_ends=ends).shape == out.shape


@pytest.mark.slow
def test_tokens_of_experts_by_weft_matmul():
    ends = reference.ends([100, 0, 3])
    a, b, alpha = exact(256, 72), exact(3, 72, 40), np.array([1, 2, 4], np.float32)
    found = weft.matmul(a, b, row_ends=ends, alpha=alpha, out_dtype="f32")
    for number, span in enumerate(reference.spans(ends)):
        assert (found[span] == alpha[number] * (doubles(a[span]) @ doubles(b[number]))).all()


A, B, BATCH = exact(256, 64), exact(64, 40), exact(2, 64, 40)
A8, B8 = exact(256, 64, of="f8E4M3FN"), exact(64, 40, of="f8E4M3FN")


@pytest.mark.each_value(10)
@pytest.mark.parametrize(
    ("a", "b", "options", "said"),
    [
        (A, BATCH, {"row_ends": [100, 300]}, r"row_ends must be in 0..256 \(rows of a\), got 300 at index 1"),
        (A, BATCH, {"row_ends": [-1, 100]}, r"row_ends must be in 0..256 \(rows of a\), got -1 at index 0"),
        (A, BATCH, {"row_ends": [100, 20]}, "at least 100 at index 1, where its group begins, got 20"),
        (A, BATCH, {"row_ends": [100]}, "row_ends must be 2 elements, got 1"),
        (A, B, {"row_ends": [100]}, "only b must be a batch with row_ends, got none"),
        (BATCH, BATCH, {"row_ends": [1, 2]}, "a and b must have the same K"),
        (A[None], BATCH, {"row_ends": [1, 2]}, "only b must be a batch with row_ends, got a and b"),
        (A, BATCH, {"k_ends": [64]}, "b must be a matrix with k_ends, got a batch"),
        (A, B, {"k_ends": [65]}, r"k_ends must be in 0..64 \(K\), got 65 at index 0"),
        (A8, B8, {"k_ends": [8]}, "a must be 0 from the end of a group to .* along K, 8..127"),
        (A8, B8, {"k_ends": [8, 20]}, r"at least 128 at index 1, where its group begins \(8 r.* or 8 for"),
        (A, B, {"k_ends": [64], "row_ends": [64]}, "at most one of groups, row_ends, k_ends must be given"),
    ],
)  # fmt: skip
def test_ends_without_a_meaning_are_refused(a, b, options, said):
    promote = a.dtype == KINDS["f8E4M3FN"]
    with pytest.raises(weft.WeftError, match=said):
        weft.matmul(
            a, b, promote=promote, **{name: np.array(ends, np.int32) for name, ends in options.items()}
        )
