"""`weft.torch.grouped_mm`: products of groups of any size, and their gradients. On a GPU if there is one,
otherwise in the emulator.
"""

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.torch import grouped_mm  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
ENDS = [3, 3, 10, 16, 37]
SHAPES = [((40, 64), (5, 64, 32)), ((48, 40), (40, 32)), ((5, 24, 64), (64, 40)), ((5, 24, 64), (5, 64, 32))]
"""Of groups of rows, of K and of columns, and of a batch."""


def offs_of(shapes, ends=ENDS):
    return None if len(shapes[0]) == len(shapes[1]) == 3 else torch.tensor(ends, device=DEVICE).int()


def in_parts(a, b, ends=ENDS):
    """The products of all groups, those of rows or columns after one another."""
    spans = [slice(*each) for each in zip([0, *ends], ends, strict=False)]
    if a.dim() == b.dim() == 3:
        return a @ b
    if a.dim() == b.dim():
        return torch.stack([a[:, k] @ b[k] for k in spans])
    if a.dim() == 2:
        return torch.cat([a[rows] @ b[i] for i, rows in enumerate(spans)])
    return torch.cat([a[i] @ b[:, columns] for i, columns in enumerate(spans)], 1)


def inside(shapes, result):
    """The rows or columns of a result that are in groups."""
    ranks = tuple(map(len, shapes))
    return {(2, 3): result[: ENDS[-1]], (3, 2): result[:, : ENDS[-1]]}.get(ranks, result)


@pytest.mark.parametrize("major", [slice(None), slice(1)], ids=["rows", "columns of b"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_gradients(shapes, major):
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, shape, device=DEVICE).bfloat16() for shape in shapes)
    if major != slice(None):
        b = b.mT.contiguous().mT
    plain = [each.double().requires_grad_() for each in (a, b)]
    given = [each.requires_grad_() for each in (a, b)]
    found, wanted = grouped_mm(*given, offs=offs_of(shapes), out_dtype=torch.float32), in_parts(*plain)
    assert torch.equal(inside(shapes, found).double(), wanted)
    weights = torch.randint(-2, 3, found.shape, device=DEVICE).float()
    found.backward(weights)
    wanted.backward(inside(shapes, weights).double())
    for one, other in zip(given, plain, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=2**-8, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [((9, 4), (3, 4, 3)), ((4, 9), (9, 3)), ((3, 3, 4), (4, 9))], ids=str)
def test_gradients_by_differences(shapes):
    torch.manual_seed(0)
    given = [torch.randn(shape, device=DEVICE, dtype=torch.float64, requires_grad=True) for shape in shapes]
    offs = offs_of(shapes, [2, 2, 9])
    assert torch.autograd.gradcheck(lambda a, b: grouped_mm(a, b, offs=offs), given, fast_mode=True)


def test_a_bias_a_program_and_pytorch():
    torch.manual_seed(0)
    a, b = (torch.randn(shape, device=DEVICE).bfloat16() for shape in SHAPES[0])
    bias, offs = torch.randn(32, device=DEVICE).bfloat16(), offs_of(SHAPES[0])
    program = torch.compile(grouped_mm, backend="aot_eager", fullgraph=True)
    found = program(a, b, offs=offs, bias=bias)
    assert torch.equal(found[:37], grouped_mm(a, b, offs=offs, bias=bias)[:37])
    if hasattr(torch.nn.functional, "grouped_mm"):
        theirs = torch.nn.functional.grouped_mm(a, b, offs=offs)[:37]
        torch.testing.assert_close(found[:37], theirs + bias, rtol=2**-6, atol=0.1)


@pytest.mark.parametrize(
    ("shapes", "ends", "bias", "said"),
    [
        (
            SHAPES[0],
            None,
            None,
            r"with offs unless both have 3, got \[40, 64\] and \[5, 64, 32\] without offs",
        ),
        (SHAPES[3], ENDS, None, "unless both have 3, .* with offs"),
        (((40,), (40, 8)), ENDS, None, "must have 2 or 3 dimensions"),
        (SHAPES[2], ENDS, 40, "bias must be None where offs divide columns: add it to the result"),
    ],
)
def test_what_is_refused(shapes, ends, bias, said):
    a, b = (torch.ones(shape, device=DEVICE).bfloat16() for shape in shapes)
    offs = None if ends is None else torch.tensor(ends, device=DEVICE).int()
    bias = None if bias is None else torch.ones(bias, device=DEVICE).bfloat16()
    with pytest.raises(weft.WeftError, match=said):
        grouped_mm(a, b, offs=offs, bias=bias)
