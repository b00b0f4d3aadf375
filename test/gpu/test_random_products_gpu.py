"""Random products with random schedules of `wgmma` are exact in every launch, and write nothing else."""

import random

import pytest
from gpu_marks import SM_90A

import weft
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.target import Target

pytestmark = SM_90A
LAUNCHES = 8
UNWRITTEN = -77
# By the name of the type of A and B: PyTorch's and MLIR's names, those of D, and the largest whole number.
KINDS = {
    "bf16": ("bfloat16", "bf16", ("bf16", "f32"), 3),
    "f16": ("float16", "f16", ("f16", "f32"), 3),
    "tf32": ("float32", "f32", ("f32",), 3),
    "e4m3 promoted": ("float8_e4m3fn", "f8E4M3FN", ("bf16", "f32"), 3),
    "i8": ("int8", "i8", ("i32",), 100),
}
RESULTS = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "i32": "int32"}
CLUSTERS = [(1, 1), (1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (4, 2), (1, 4), (2, 4), (8, 1), (1, 8)]
ADDED = [{}, {}, {}, {"splits": 2}, {"splits": 4}, {"global_splits": 3}, {"stream_k": True}, {"loaders": 1}]


def schedule(among, types):
    """A random schedule that is legal."""
    depth = 128 // types.input_bytes
    while True:
        warpgroups, blocks = among.choice((1, 2, 2, 3)), among.choice((1, 1, 2))
        alternating = warpgroups > 1 and among.random() < 0.2
        made = WarpgroupSchedule(
            (64 * blocks * (1 if alternating else warpgroups), among.randrange(8, 257, 8), depth),
            warpgroups,
            among.randint(2, 8),
            group=among.choice((1, 4, 8)),
            swap=among.random() < 0.4,
            cluster=among.choice(CLUSTERS),
            alternating=alternating,
            **among.choice(ADDED),
        )
        if made.complaint(types, Target.of("sm_90a")) is None:
            return made


def extent(among, most, unit):
    """Sizes of all magnitudes; most are multiples of 16 bytes."""
    size = int(2 ** among.uniform(0, most))
    return size if among.random() < 0.2 else max(unit, size // unit * unit)


@pytest.mark.parametrize("seed", range(300))
def test_a_random_product_is_exact_in_every_launch(seed):
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    among = random.Random(seed)
    kind = among.choice(list(KINDS))
    dtype, element, outs, most = KINDS[kind]
    of_out, unit = among.choice(outs), 16 // getattr(torch, dtype).itemsize
    turned = [unit == 8 and among.random() < 0.3 for _ in "ab"]  # whether A is K x M, and B is K x N
    types = Types(element, element, of_out, tuple(turned), promoted="promoted" in kind)
    m, n, k = extent(among, 11, unit), extent(among, 11, unit), extent(among, 12, unit)
    batch, beside = among.choice((1, 1, 3)), among.choice((0, 1, 8))

    def whole(rows, columns, limit, name):
        numbers = torch.randint(-limit, limit + 1, (batch, rows, columns + unit), device="cuda")
        return numbers.float().to(getattr(torch, name))[:, :, :columns]

    a = whole(*((k, m) if turned[0] else (m, k)), most, dtype)
    b = whole(*((k, n) if turned[1] else (n, k)), most, dtype)
    options = {"transpose_a": turned[0], "transpose_b": not turned[1], "promote": types.promoted}
    expected = (a.mT if turned[0] else a).double() @ (b if turned[1] else b.mT).double()
    if among.random() < 0.3:
        options |= {"c": whole(m, n, 3, RESULTS[of_out]), "beta": 1.0}
        expected += options["c"].double()
    if among.random() < 0.3 and of_out != "i32":
        bias, residual = whole(1, n, 3, RESULTS[of_out])[0, 0], whole(m, n, 3, RESULTS[of_out])
        options["epilogue"] = weft.Epilogue(bias=bias, activation="relu", residual=residual)
        expected = residual.double() + (expected + bias.double()).relu()
    memory = torch.full(
        (batch, m, n + beside), UNWRITTEN, device="cuda", dtype=getattr(torch, RESULTS[of_out])
    )
    out, expected = memory[:, :, :n], expected.to(memory.dtype)
    options |= {"schedule": schedule(among, types), "out": out}
    for _ in range(LAUNCHES):
        out.fill_(UNWRITTEN)
        weft.matmul(a, b, **options)
        assert torch.equal(out, expected), f"{kind} {of_out} {m}x{n}x{k}, {options['schedule']}"
    assert (memory[:, :, n:] == UNWRITTEN).all()
