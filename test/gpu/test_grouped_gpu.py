"""Products of groups of any size on a GPU, against float64: values, and memory beside the result."""

import itertools

import numpy as np
import pytest
from gpu_marks import FP8, GPU, with_marks

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.torch import grouped_mm  # noqa: E402

pytestmark = GPU
BF16, F16, F32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
ROOM = 4096  # elements before and after a result


def small(*shape, dtype=BF16):
    """Integers whose sums are exact."""
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def spans(ends):
    return [slice(begin, max(begin, end)) for begin, end in itertools.pairwise([0, *ends])]


def random_ends(rng, total):
    """Of one to 300 groups, many of them empty or of a few rows."""
    groups = int(rng.integers(1, 301))
    counts = rng.multinomial(int(rng.integers(0, total + 1)), rng.dirichlet(np.full(groups, 0.3)))
    return counts.cumsum().tolist()


def guarded(*shape, dtype=F32):
    """A result between memory that nobody may write, and a function that checks that memory."""
    count = int(np.prod(shape))
    whole = torch.full((count + 2 * ROOM,), 99.0, device="cuda", dtype=dtype)

    def check():
        assert (whole[:ROOM] == 99).all() and (whole[-ROOM:] == 99).all()

    return whole[ROOM : ROOM + count].view(shape), check


@pytest.mark.parametrize("k_major", [True, False], ids=["rows", "columns of a"])
@pytest.mark.parametrize("dtype", [BF16, F16, F32], ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_rows(seed, dtype, k_major):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    m, n, k = (8 * int(rng.integers(1, most)) for most in (500, 200, 100))
    ends = random_ends(rng, m)
    a, b = small(m, k, dtype=dtype), small(len(ends), n, k, dtype=dtype)
    d, check = guarded(m, n, dtype=dtype if seed % 2 else F32)
    weft.matmul(
        a if k_major else a.T.contiguous(), b, transpose_a=not k_major, transpose_b=True,
        row_ends=torch.tensor(ends, device="cuda").int(), out=d,
    )  # fmt: skip
    for number, rows in enumerate(spans(ends)):
        assert torch.equal(d[rows], (a[rows].double() @ b[number].double().T).to(d.dtype)), number
    assert (d[ends[-1] :] == 99).all()
    check()


@with_marks(FP8)
@pytest.mark.parametrize("of_columns", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_rows_with_scales(seed, of_columns):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    m, n, blocks = 8 * int(rng.integers(1, 300)), 128 * int(rng.integers(1, 9)), int(rng.integers(1, 9))
    ends = random_ends(rng, m)
    a, b = small(m, 128 * blocks, dtype=E4M3), small(len(ends), n, 128 * blocks, dtype=E4M3)
    powers = [torch.randint(-1, 2, (blocks, m), device="cuda").float().exp2().T]
    if of_columns:
        powers.append(torch.randint(-1, 2, (len(ends), blocks, n), device="cuda").float().exp2().mT)
        whole = powers[1]
    else:
        powers.append(torch.randint(-1, 2, (len(ends), n // 128, blocks), device="cuda").float().exp2())
        whole = powers[1].repeat_interleave(128, 1)
    d, check = guarded(m, n)
    weft.matmul(
        a, b, transpose_b=True, row_ends=torch.tensor(ends, device="cuda").int(), scales=powers, out=d
    )
    left, right = (
        x.double() * s.double().repeat_interleave(128, -1) for x, s in ((a, powers[0]), (b, whole))
    )
    for number, rows in enumerate(spans(ends)):
        assert torch.equal(d[rows].double(), left[rows] @ right[number].T), number
    assert (d[ends[-1] :] == 99).all()
    check()


@pytest.mark.parametrize("k_major", list(itertools.product([True, False], repeat=2)), ids=str)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_k(seed, dtype, k_major):
    """NaN is after the last part; other parts have infinities, which a product with 0 would spread."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    m, n, k = (8 * int(rng.integers(1, most)) for most in (80, 60, 400))
    ends = random_ends(rng, k)[:24]
    a, b = small(m, k, dtype=dtype), small(k, n, dtype=dtype)
    a[:, ends[-1] :] = float("nan")
    odd = spans(ends)[len(ends) // 2]
    a[:, odd] = float("inf")
    wanted = torch.stack([a[:, part].double() @ b[part].double() for part in spans(ends)])
    d, check = guarded(len(ends), m, n)
    given = (x if inside else x.T.contiguous().T for x, inside in zip((a, b.T), k_major, strict=True))
    left, right = given
    weft.matmul(left, right, transpose_b=True, k_ends=torch.tensor(ends, device="cuda").int(), out=d)
    torch.testing.assert_close(d.double(), wanted, rtol=0, atol=0, equal_nan=True)
    check()


@pytest.mark.parametrize("ends", [[-5, 200, 2**31 - 1, 7], [300, 100, 250, 999], [0, 0, 0, 0]], ids=str)
def test_ends_that_make_no_sense_write_only_the_result(ends):
    a, b = small(256, 72), small(4, 40, 72)
    d, check = guarded(256, 40)
    weft.matmul(a, b, transpose_b=True, row_ends=torch.tensor(ends, device="cuda").int(), out=d)
    check()


def test_a_graph_takes_the_ends_of_each_replay():
    a, b, offs = small(512, 64), small(4, 64, 32), torch.tensor([1, 2, 3, 512], device="cuda").int()
    for _ in range(2):
        grouped_mm(a, b, offs=offs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = grouped_mm(a, b, offs=offs)
    for ends in ([0, 130, 130, 512], [300, 301, 400, 401]):
        offs.copy_(torch.tensor(ends))
        graph.replay()
        for number, rows in enumerate(spans(ends)):
            assert torch.equal(d[rows], (a[rows].double() @ b[number].double()).to(BF16))
