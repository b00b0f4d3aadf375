"""Functions that build instructions report every mistake with the verifier's message and a location."""

import inspect
import pydoc
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.dialects import mma, tcgen05, tile, wgmma, wmma
from weft.dialects.builders import Builder
from weft.dialects.op import Op
from weft.dialects.tile_types import MapType
from weft.mlir import ir

BUILDERS = [
    pytest.param(value, id=f"{dialect.__name__.rpartition('.')[2]}.{name}")
    for dialect in (wmma, mma, wgmma, tcgen05)
    for name, value in vars(dialect).items()
    if isinstance(value, Builder)
]
WHOLE = ("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")

MISTAKES = [
    {},
    {"shape": "m1n1k1"},
    {"shape": 17},
    {"shape": [1, 2]},
    {"cta_group": Ellipsis},
    {"no_such_attribute": 1},
    {"a": 3, "address": "somewhere"},
    {"shape": "m16n8k16", "a_type": "x", "b_type": "f16", "c_type": "f32", "d_type": "f32"},
]


def test_every_builder_is_tried():
    assert len(BUILDERS) >= 30


def test_builders_have_signatures():
    parameters = inspect.signature(mma.sync).parameters
    assert list(parameters)[:5] == ["a", "b", "c", "shape", "a_type"]
    assert parameters["shape"].annotation is str and parameters["a_layout"].default == "row"
    assert inspect.signature(tcgen05.commit).parameters["mask"].default is None
    page = pydoc.render_doc(mma.movmatrix, renderer=pydoc.plaintext)
    assert "movmatrix(*, a: 'ir.Value | Sequence[ir.Value]', shape: str = 'm8n8'" in page
    assert "an 8x8 matrix of 16-bit elements" in page


def test_builders_of_tiles_take_operands_in_order_and_what_results_are_made_of():
    assert str(inspect.signature(tile.release)) == (
        "(ring: 'ir.Value', stage: 'ir.Value', mask: 'ir.Value | Sequence[ir.Value] | None' = None) "
        "-> 'ir.OpView'"
    )
    parameters = inspect.signature(tile.slice_).parameters
    assert list(parameters) == ["buffer", "row", "column", "shape", "row_step"]
    assert parameters["row_step"].kind == inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match="missing a required argument: 'stage'"):
        tile.release(None)


@pytest.mark.each_value(34)
@pytest.mark.sampled(5)
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_mistake_is_reported_with_its_source_location(builder, mistake):
    name = builder.op.OPERATION_NAME
    if not mistake and name in WHOLE:
        return
    with weft.Module(), pytest.raises(weft.WeftError) as caught:
        builder(**mistake)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(f"'{name}' op ")
    assert diagnostic.location is not None
    assert Path(diagnostic.location.file).name == "test_builders.py"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alpha": "x"}, "'tile.matmul' op expects attribute 'alpha' to be a float, got \"x\""),
        ({"beta": [1]}, "'tile.matmul' op expects attribute 'beta' to be a string, a number or an MLIR"),
        ({"alpha": 10**400}, "'tile.matmul' op alpha must be finite in f32, got inf"),
        ({"c": np.zeros((8, 8))}, "'tile.matmul' op expects operands to be MLIR values, got ndarray"),
        ({"c": 1, "bias": np.zeros(8)}, "'tile.matmul' op expects operands to be MLIR values, got 1"),
    ],
    ids=["alpha", "beta", "large", "array", "number"],
)
def test_a_product_of_what_does_not_fit_is_refused(given, said):
    with pytest.raises(weft.WeftError) as caught, weft.Module() as module:
        types = [weft.memref("?x?", element) for element in ("f16", "f16", "f32")]
        with module.func("product", types) as (a, b, d):
            tile.matmul(a, b, d, **given)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(said)
    assert Path(diagnostic.location.file).name == "test_builders.py"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda a, i: tile.slice_(a, i, i, (8, 8)), "'tile.slice' op expects tile.buffer operand and result"),
        (lambda a, i: tile.stage(a, i), "'tile.stage' op expects tile.buffer operand and result"),
        (lambda a, i: tile.peer(a, i), "'tile.peer' op expects tile.buffer operand and result"),
        (lambda a, i: tile.address(a), "'tile.address' op expects a tile.buffer, got memref<?x?xf16>"),
        (
            lambda a, i: tile.from_lane(i, False),
            "'tile.from_lane' op expects result types to be MLIR types",
        ),
        (
            lambda a, i: tile.matmul(a, a, a, promote=np.zeros(4)),
            "'tile.matmul' op expects attribute 'promote'",
        ),
        (lambda a, i: MapType.of(a.type), "tile must be the type of a tile.buffer, got memref<?x?xf16>"),
        (lambda a, i: MapType.of(2), "tile must be the type of a tile.buffer, got 2"),
    ],
    ids=["slice", "stage", "peer", "address", "no type", "array", "map", "map of a number"],
)
def test_operations_of_what_is_no_buffer_are_refused(build, said):
    with pytest.raises(weft.WeftError) as caught, weft.Module() as module:
        i32 = ir.IntegerType.get_signless(32)
        with module.func("f", [weft.memref("?x?", "f16"), i32]) as (a, i):
            build(a, i)
    assert caught.value.diagnostics[0].message.startswith(said)


@pytest.mark.parametrize(
    ("given", "options", "beta"), [(True, {}, 1), (True, {"beta": 0.0}, 0), (False, {}, 0)]
)
def test_a_c_that_is_given_is_added(given, options, beta):
    with weft.Module() as module:
        matrix = weft.memref("?x?", "bf16")
        with module.func("product", [matrix] * 4) as (a, b, d, c):
            tile.matmul(a, b, d, c if given else None, **options)
    assert ("beta = 1.000000e+00" in str(module)) == bool(beta)


@pytest.mark.parametrize("located, times", [(True, 2), (False, 1)])
def test_the_end_of_a_module_verifies_operations_with_locations_again(located, times, monkeypatch):
    """Weft's own kernels have none; what passes make of them is verified."""
    seen, verify = [], Op.verify_invariants
    monkeypatch.setattr(Op, "verify_invariants", lambda op: seen.append(op.operation.name) or verify(op))
    with weft.Module(located=located) as module, module.kernel("f", [], block=(128, 1, 1), chip="sm_90a"):
        wgmma.fence()
    assert seen == ["wgmma.fence"] * times
